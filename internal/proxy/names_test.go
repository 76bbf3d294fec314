package proxy

import (
	"context"
	"errors"
	"net"
	"slices"
	"testing"
	"time"

	"golang.org/x/net/dns/dnsmessage"

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
		_, err := d.Dial(t.Context(), net.JoinHostPort(nowhere+".", port))
		if dns, ok := errors.AsType[*net.DNSError](err); !ok || !dns.IsNotFound {
			t.Errorf("a name that does not exist: %v, want that it was not found", err)
		}
	}
	if n := server.Asked(nowhere); n != 4 {
		t.Errorf("two connections to a name that does not exist asked for it %d times, want 4", n)
	}
}

// TestNameServersApart: what one name server has answered is not the answer of another, which may
// know more.
func TestNameServersApart(t *testing.T) {
	const name = "imap.firm.example"
	var address string
	r := keeping(func(ctx context.Context, network, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, network, address)
	})
	for _, ip := range [][4]byte{{127, 0, 0, 1}, {127, 0, 0, 2}} {
		server := testserver.NameServer(t, nil)
		server.SetA(t, name, ip)
		address = server.Address
		for range 2 {
			conn, err := r.Dial(t.Context(), "udp", server.Address)
			if err != nil {
				t.Fatal(err)
			}
			answer := ask(t, conn, name)
			if got := answer.Answers[0].Body.(*dnsmessage.AResource).A; got != ip {
				t.Errorf("the name server at %s says %v, want %v", server.Address, got, ip)
			}
		}
		if n := server.Asked(name); n != 1 {
			t.Errorf("the name server was asked %d times, want once", n)
		}
	}
}

// question asks for an IPv4 address.
func question(id uint16, name string) dnsmessage.Message {
	return dnsmessage.Message{
		Header: dnsmessage.Header{ID: id, RecursionDesired: true},
		Questions: []dnsmessage.Question{{
			Name: dnsmessage.MustNewName(name + "."), Type: dnsmessage.TypeA, Class: dnsmessage.ClassINET,
		}},
	}
}

func pack(t *testing.T, m dnsmessage.Message) []byte {
	t.Helper()
	octets, err := m.Pack()
	if err != nil {
		t.Fatal(err)
	}
	return octets
}

// ask asks a question on a connection, as the resolver of Go does, and closes it.
func ask(t *testing.T, conn net.Conn, name string) (answer dnsmessage.Message) {
	t.Helper()
	defer func() { _ = conn.Close() }()
	p := make([]byte, 1024)
	_, err := conn.Write(pack(t, question(7, name)))
	if err == nil {
		n := 0
		n, err = conn.Read(p)
		p = p[:n]
	}
	if err == nil {
		err = answer.Unpack(p)
	}
	if err != nil || len(answer.Answers) != 1 {
		t.Fatalf("the answer is %v, %v; want one address", answer, err)
	}
	return answer
}

// record is one of a type that is valid for so many seconds.
func record(body dnsmessage.ResourceBody, seconds uint32) []dnsmessage.Resource {
	h := dnsmessage.ResourceHeader{Name: dnsmessage.MustNewName("firm.example."), Class: dnsmessage.ClassINET}
	h.TTL = seconds
	return []dnsmessage.Resource{{Header: h, Body: body}}
}

// TestLifetime: only an answer to the question is kept, for as long as its shortest record.
func TestLifetime(t *testing.T) {
	const name = "imap.firm.example"
	asked := pack(t, question(7, name))
	here, root := &dnsmessage.AResource{A: [4]byte{127, 0, 0, 1}}, dnsmessage.MustNewName(".")
	addresses := slices.Concat(record(here, 30), record(here, 20))
	alias := record(&dnsmessage.CNAMEResource{CNAME: dnsmessage.MustNewName("mx.firm.example.")}, 60)
	none := record(&dnsmessage.SOAResource{NS: root, MBox: root, MinTTL: 40}, 50)
	for _, tc := range []struct {
		name   string
		change func(*dnsmessage.Message)
		want   time.Duration
	}{
		{"addresses", func(*dnsmessage.Message) {}, 20 * time.Second},
		{"for long", func(m *dnsmessage.Message) { m.Answers = record(here, 1<<31) }, keptFor},
		{"for no time", func(m *dnsmessage.Message) { m.Answers = record(here, 0) }, 0},
		{"none", func(m *dnsmessage.Message) { m.Answers, m.Authorities = nil, none }, 40 * time.Second},
		{"an alias of none", func(m *dnsmessage.Message) { m.Answers, m.Authorities = alias, none }, 40 * time.Second},
		{"an alias of none, without an SOA", func(m *dnsmessage.Message) { m.Answers = alias }, 0},
		{"none, without an SOA", func(m *dnsmessage.Message) { m.Answers = nil }, 0},
		{"no such name", func(m *dnsmessage.Message) {
			m.RCode, m.Answers, m.Authorities = dnsmessage.RCodeNameError, nil, none
		}, 0},
		{"a failure", func(m *dnsmessage.Message) { m.RCode = dnsmessage.RCodeServerFailure }, 0},
		{"cut off", func(m *dnsmessage.Message) { m.Truncated = true }, 0},
		{"a question", func(m *dnsmessage.Message) { m.Response = false }, 0},
		{"another ID", func(m *dnsmessage.Message) { m.ID++ }, 0},
		{"another question", func(m *dnsmessage.Message) { m.Questions = question(7, "firm.example").Questions }, 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			answer := question(7, name)
			answer.Response, answer.Answers = true, addresses
			tc.change(&answer)
			if got := lifetime(asked, pack(t, answer)); got != tc.want {
				t.Errorf("it is kept for %s, want %s", got, tc.want)
			}
		})
	}
	if got := lifetime(asked, []byte("no message")); got != 0 {
		t.Errorf("what is no message is kept for %s", got)
	}
}

// TestStrayDatagrams: datagrams that do not answer the question are read past, and not kept.
func TestStrayDatagrams(t *testing.T) {
	const name = "imap.firm.example"
	server, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = server.Close() }()
	go func() {
		for p := make([]byte, 1024); ; {
			n, from, err := server.ReadFrom(p)
			var m dnsmessage.Message
			if err != nil || m.Unpack(p[:n]) != nil {
				return
			}
			m.Response, m.Additionals = true, nil
			if m.Questions[0].Type == dnsmessage.TypeA {
				m.Answers = record(&dnsmessage.AResource{A: [4]byte{192, 0, 2, 7}}, 60)
				m.Answers[0].Header.Name = m.Questions[0].Name
			}
			right := pack(t, m)
			m.ID++
			for _, octets := range [][]byte{{}, []byte("x"), pack(t, m), right} {
				_, _ = server.WriteTo(octets, from)
			}
		}
	}()
	r := askingOnly(server.LocalAddr().String())
	for range 2 {
		addrs, err := r.LookupHost(t.Context(), name+".")
		if err != nil || len(addrs) != 1 || addrs[0] != "192.0.2.7" {
			t.Errorf("the addresses are %v, %v; want 192.0.2.7", addrs, err)
		}
	}
}
