package proxy

import (
	"context"
	"errors"
	"net"
	"os"
	"time"

	"github.com/ncruces/go-dns"
)

// names is the resolver of connections that have none of their own: connections to one server ask
// for its name once.
var names = keeping(new(net.Dialer).DialContext)

// keeping is a resolver that keeps answers until they expire, for a minute at most: a process that
// stays up has to notice that a server has moved. A name that does not exist is asked for again.
// dial opens a connection to a name server. Windows and macOS have a resolver and a cache of their
// own, which are used instead.
func keeping(dial dns.DialFunc) *net.Resolver {
	ask := func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := dial(ctx, network, address)
		if udp, ok := conn.(*net.UDPConn); ok {
			conn = datagrams{udp}
		}
		return conn, err
	}
	return &net.Resolver{Dial: dns.NewCachingDialer(ask, dns.MaxCacheTTL(time.Minute), dns.NegativeCache(false))}
}

// datagrams is a connection to a name server. The cache closes it when the time is up, at the same
// moment as its deadline ends; either way the answer did not come in time.
type datagrams struct{ *net.UDPConn }

func (d datagrams) Read(p []byte) (int, error) {
	n, err := d.UDPConn.Read(p)
	if errors.Is(err, net.ErrClosed) {
		err = os.ErrDeadlineExceeded
	}
	return n, err
}
