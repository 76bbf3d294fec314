package testserver

import (
	"encoding/binary"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/net/dns/dnsmessage"
)

// DNS is a name server inside the process that has TXT records, and others that a test gives it
// (dns_records.go). It asks no other server.
type DNS struct {
	Address string // with its port

	mu      sync.Mutex
	records map[string]string // by name, in lower case and with its dot
	failing map[string]bool
	others  map[string][]dnsmessage.Resource // by name, as records
	asked   map[string]int                   // how often, by name
}

// NameServer starts a name server, which ends with the test. Names that have no record do not
// exist.
func NameServer(t testing.TB, records map[string]string) *DNS {
	t.Helper()
	conn, stream := listenDNS(t)
	s := &DNS{
		Address: conn.LocalAddr().String(), records: map[string]string{}, failing: map[string]bool{},
		others: map[string][]dnsmessage.Resource{}, asked: map[string]int{},
	}
	for name, text := range records {
		s.Set(name, text)
	}
	s.start(t, conn, stream)
	return s
}

// start serves until the test is over.
func (s *DNS) start(t testing.TB, conn net.PacketConn, stream net.Listener) {
	var serving sync.WaitGroup
	serving.Go(func() { s.serve(conn) })
	serving.Go(func() { s.serveStreams(stream) })
	t.Cleanup(func() {
		_ = conn.Close()
		_ = stream.Close()
		serving.Wait()
	})
}

// OnPort53 also listens on the port that programs ask which take no other, and returns the address,
// on loopback. Only root may do that.
func (s *DNS) OnPort53(t testing.TB) (ip string) {
	t.Helper()
	const tries = 20
	for range tries {
		ip = fmt.Sprintf("127.53.%d.%d", rand.IntN(256), 1+rand.IntN(254))
		stream, err := net.Listen("tcp", net.JoinHostPort(ip, "53"))
		if err != nil {
			continue // another test has it
		}
		conn, err := net.ListenPacket("udp", stream.Addr().String())
		if err == nil {
			s.start(t, conn, stream)
			return ip
		}
		_ = stream.Close()
	}
	t.Fatalf("listen on port 53 of an address on loopback: none is free in %d tries", tries)
	return ""
}

// listenDNS listens for datagrams and streams on one port.
func listenDNS(t testing.TB) (net.PacketConn, net.Listener) {
	t.Helper()
	for range 20 {
		stream, err := net.Listen("tcp", address(0))
		if err != nil {
			t.Fatal(err)
		}
		conn, err := net.ListenPacket("udp", stream.Addr().String())
		if err == nil {
			return conn, stream
		}
		_ = stream.Close() // somebody else has that port for datagrams
	}
	t.Fatal("no port is free for datagrams and streams alike")
	return nil, nil
}

// Set gives a name a TXT record.
func (s *DNS) Set(name, text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.records[strings.ToLower(name)+"."] = text
}

// Fail makes it answer SERVFAIL to that name.
func (s *DNS) Fail(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.failing[strings.ToLower(name)+"."] = true
}

// Asked is how many questions came for that name.
func (s *DNS) Asked(name string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.asked[strings.ToLower(name)+"."]
}

func (s *DNS) serve(conn net.PacketConn) {
	buf := make([]byte, 4<<10)
	for {
		n, from, err := conn.ReadFrom(buf)
		if err != nil {
			return
		}
		if reply := s.reply(buf[:n], maxDatagram); reply != nil {
			_, _ = conn.WriteTo(reply, from)
		}
	}
}

// maxDatagram is the longest answer by UDP (RFC 1035 4.2.1); of a longer one it says that it is cut
// off.
const maxDatagram = 512

// serveStreams takes a question a connection, as RFC 1035 4.2.2 has it.
func (s *DNS) serveStreams(l net.Listener) {
	for {
		conn, err := l.Accept()
		if err != nil {
			return
		}
		_ = conn.SetDeadline(time.Now().Add(5 * time.Second))
		var size uint16
		if binary.Read(conn, binary.BigEndian, &size) == nil {
			buf := make([]byte, size)
			if _, err := io.ReadFull(conn, buf); err == nil {
				reply := s.reply(buf, math.MaxUint16)
				_, _ = conn.Write(append(binary.BigEndian.AppendUint16(nil, uint16(len(reply))), reply...))
			}
		}
		_ = conn.Close()
	}
}

// reply is the answer to a question in octets; nil when that is none.
func (s *DNS) reply(question []byte, longest int) []byte {
	var q dnsmessage.Message
	if q.Unpack(question) != nil || len(q.Questions) != 1 {
		return nil
	}
	m := s.answer(q)
	reply, err := m.Pack()
	if err == nil && len(reply) > longest {
		m.Answers, m.Truncated = nil, true
		reply, err = m.Pack()
	}
	if err != nil {
		return nil
	}
	return reply
}

func (s *DNS) answer(q dnsmessage.Message) *dnsmessage.Message {
	s.mu.Lock()
	defer s.mu.Unlock()
	asked := q.Questions[0]
	name := strings.ToLower(asked.Name.String())
	s.asked[name]++
	m := &dnsmessage.Message{
		Header: dnsmessage.Header{
			ID: q.ID, Response: true, Authoritative: true,
			RecursionAvailable: true, RecursionDesired: q.RecursionDesired,
		},
		Questions: q.Questions,
	}
	text, known := s.records[name]
	switch {
	case s.failing[name]:
		m.RCode = dnsmessage.RCodeServerFailure
	case len(s.others[name]) > 0:
		if m.Answers = ofType(s.others[name], asked); len(m.Answers) == 0 {
			m.Authorities = []dnsmessage.Resource{noneFor(asked.Name, 60)}
		}
	case !known:
		m.RCode = dnsmessage.RCodeNameError
	case asked.Type == dnsmessage.TypeTXT:
		m.Answers = []dnsmessage.Resource{{
			Header: dnsmessage.ResourceHeader{
				Name: asked.Name, Type: dnsmessage.TypeTXT, Class: dnsmessage.ClassINET, TTL: 60,
			},
			Body: &dnsmessage.TXTResource{TXT: inStrings(text)},
		}}
	}
	return m
}

// noneFor is the SOA record by which resolvers know for how many seconds a name has no record of
// that type (RFC 2308 5).
func noneFor(name dnsmessage.Name, seconds uint32) dnsmessage.Resource {
	return dnsmessage.Resource{
		Header: dnsmessage.ResourceHeader{Name: name, Class: dnsmessage.ClassINET, TTL: seconds},
		Body:   &dnsmessage.SOAResource{NS: name, MBox: name, MinTTL: seconds},
	}
}

// inStrings cuts a text into the strings of a TXT record, of 255 octets at most (RFC 1035 3.3).
func inStrings(text string) []string {
	const longest = 255
	var out []string
	for len(text) > longest {
		out, text = append(out, text[:longest]), text[longest:]
	}
	return append(out, text)
}
