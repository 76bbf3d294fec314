package proxy

import (
	"context"
	"errors"
	"net"
	"os"
	"testing"

	"postrider/internal/testserver"
)

// askingOnly is a resolver that keeps the answers of one name server.
func askingOnly(server string) *net.Resolver {
	r := keeping(func(ctx context.Context, network, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, network, server)
	})
	r.PreferGo = true // with cgo, too
	return r
}

// TestNamesAreAskedForOnce: many connections to a server take one question for each kind of
// address. A name that does not exist is asked for each time.
func TestNamesAreAskedForOnce(t *testing.T) {
	const here, nowhere = "imap.firm.example", "impa.firm.example"
	server := testserver.NameServer(t, nil)
	server.SetA(t, here, [4]byte{127, 0, 0, 1})
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	_, port, _ := net.SplitHostPort(l.Addr().String())

	d := Dialer{Proxy: "direct", Resolver: askingOnly(server.Address)}
	for range 5 {
		conn, err := d.Dial(t.Context(), net.JoinHostPort(here+".", port))
		if err != nil {
			t.Fatal(err)
		}
		_ = conn.Close()
	}
	if n := server.Asked(here); n != 2 {
		t.Errorf("five connections asked for the name %d times, want 2: for A and AAAA", n)
	}
	for range 2 {
		var dns *net.DNSError
		_, err := d.Dial(t.Context(), net.JoinHostPort(nowhere+".", port))
		if !errors.As(err, &dns) || !dns.IsNotFound {
			t.Errorf("a name that does not exist: %v, want that it was not found", err)
		}
	}
	if n := server.Asked(nowhere); n != 4 {
		t.Errorf("two connections to a name that does not exist asked for it %d times, want 4", n)
	}
}

// TestSilentNameServer: the cache closes a connection to a name server when the time is up. The
// error is that of the time, as it is without the cache.
func TestSilentNameServer(t *testing.T) {
	conn, err := net.Dial("udp", "127.0.0.1:53")
	if err != nil {
		t.Fatal(err)
	}
	_ = conn.Close()
	if _, err := (datagrams{conn.(*net.UDPConn)}).Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("reading an answer after the end: %v, want a timeout", err)
	}
}
