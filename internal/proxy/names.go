package proxy

import (
	"bytes"
	"context"
	"maps"
	"net"
	"slices"
	"sync"
	"time"

	"golang.org/x/net/dns/dnsmessage"
)

// names is the resolver of connections that have none of their own: connections to one server ask
// for its name once.
var names = keeping(new(net.Dialer).DialContext)

// keptFor is how long an answer of the DNS is kept at most: a process that stays up has to notice
// that a server has moved.
const keptFor = time.Minute

// keeping is a resolver that keeps what name servers answer by UDP until it expires, for a minute
// at most. A failure is not kept, and neither is the answer that a name does not exist. dial opens
// a connection to a name server. Windows and macOS have a resolver and a cache of their own, which
// are used instead.
func keeping(dial func(ctx context.Context, network, address string) (net.Conn, error)) *net.Resolver {
	kept := &answers{all: map[string]answer{}}
	return &net.Resolver{Dial: func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := dial(ctx, network, address)
		if udp, ok := conn.(*net.UDPConn); ok {
			return &asking{UDPConn: udp, server: address, kept: kept}, nil
		}
		return conn, err
	}}
}

// answers are kept by name server and question, both without their IDs.
type answers struct {
	mu  sync.Mutex
	all map[string]answer
}

type answer struct {
	octets []byte
	until  time.Time
}

func (a *answers) find(key string) []byte {
	a.mu.Lock()
	defer a.mu.Unlock()
	if found := a.all[key]; time.Now().Before(found.until) {
		return found.octets
	}
	return nil
}

func (a *answers) keep(key string, octets []byte, d time.Duration) {
	a.mu.Lock()
	defer a.mu.Unlock()
	maps.DeleteFunc(a.all, func(_ string, old answer) bool { return !time.Now().Before(old.until) })
	a.all[key] = answer{octets, time.Now().Add(d)}
}

// asking is a connection to a name server. The resolver of Go writes one question to it, and reads
// datagrams until one is the answer. A question whose answer is kept does not go out.
type asking struct {
	*net.UDPConn
	server   string
	kept     *answers
	question []byte
	found    []byte // the kept answer to it
}

const idLength = 2 // of a message, octets (RFC 1035 4.1.1)

func (a *asking) key() string { return a.server + " " + string(a.question[idLength:]) }

func (a *asking) Write(p []byte) (int, error) {
	a.question = bytes.Clone(p)
	if a.found = a.kept.find(a.key()); a.found != nil {
		return len(p), nil
	}
	return a.UDPConn.Write(p)
}

func (a *asking) Read(p []byte) (int, error) {
	if a.found != nil {
		n := copy(p, slices.Concat(a.question[:idLength], a.found))
		a.found = nil
		return n, nil
	}
	n, err := a.UDPConn.Read(p)
	if d := lifetime(a.question, p[:n]); err == nil && d > 0 {
		a.kept.keep(a.key(), bytes.Clone(p[idLength:n]), d)
	}
	return n, err
}

// lifetime is how long an answer may be kept, 0 when it is none to the question or may not be. That
// a name has no such record may be if the answer has the SOA of its zone (RFC 2308 5).
func lifetime(question, octets []byte) time.Duration {
	var q, a dnsmessage.Message
	if q.Unpack(question) != nil || a.Unpack(octets) != nil || a.ID != q.ID || !a.Response || a.Truncated ||
		a.RCode != dnsmessage.RCodeSuccess || !slices.Equal(a.Questions, q.Questions) {
		return 0
	}
	records := a.Answers
	if !holds(records, q.Questions[0].Type) {
		if !holds(a.Authorities, dnsmessage.TypeSOA) {
			return 0
		}
		records = slices.Concat(records, a.Authorities)
	}
	least := keptFor
	for _, r := range records {
		least = min(least, time.Duration(r.Header.TTL)*time.Second)
		if soa, ok := r.Body.(*dnsmessage.SOAResource); ok {
			least = min(least, time.Duration(soa.MinTTL)*time.Second)
		}
	}
	return least
}

func holds(records []dnsmessage.Resource, t dnsmessage.Type) bool {
	return slices.ContainsFunc(records, func(r dnsmessage.Resource) bool { return r.Header.Type == t })
}
