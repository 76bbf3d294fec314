package testserver

import (
	"net"
	"strings"
	"sync"
	"testing"

	"golang.org/x/net/dns/dnsmessage"
)

// DNS is a name server inside the process that has TXT records, and asks nobody else.
type DNS struct {
	Address string // with its port

	mu      sync.Mutex
	records map[string]string // by name, in lower case and with its dot
	failing map[string]bool
}

// NameServer starts a name server, which ends with the test. Names that have no record do not exist.
func NameServer(t testing.TB, records map[string]string) *DNS {
	t.Helper()
	conn, err := net.ListenPacket("udp", address(0))
	if err != nil {
		t.Fatal(err)
	}
	s := &DNS{Address: conn.LocalAddr().String(), records: map[string]string{}, failing: map[string]bool{}}
	for name, text := range records {
		s.Set(name, text)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		s.serve(conn)
	}()
	t.Cleanup(func() {
		_ = conn.Close()
		<-done
	})
	return s
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

func (s *DNS) serve(conn net.PacketConn) {
	buf := make([]byte, 4<<10)
	for {
		n, from, err := conn.ReadFrom(buf)
		if err != nil {
			return
		}
		var q dnsmessage.Message
		if q.Unpack(buf[:n]) != nil || len(q.Questions) != 1 {
			continue
		}
		if reply, err := s.answer(q).Pack(); err == nil {
			_, _ = conn.WriteTo(reply, from)
		}
	}
}

func (s *DNS) answer(q dnsmessage.Message) *dnsmessage.Message {
	s.mu.Lock()
	defer s.mu.Unlock()
	asked := q.Questions[0]
	name := strings.ToLower(asked.Name.String())
	m := &dnsmessage.Message{
		Header:    dnsmessage.Header{ID: q.ID, Response: true, Authoritative: true, RecursionAvailable: true, RecursionDesired: q.RecursionDesired},
		Questions: q.Questions,
	}
	text, known := s.records[name]
	switch {
	case s.failing[name]:
		m.RCode = dnsmessage.RCodeServerFailure
	case !known:
		m.RCode = dnsmessage.RCodeNameError
	case asked.Type == dnsmessage.TypeTXT:
		m.Answers = []dnsmessage.Resource{{
			Header: dnsmessage.ResourceHeader{Name: asked.Name, Type: dnsmessage.TypeTXT, Class: dnsmessage.ClassINET, TTL: 60},
			Body:   &dnsmessage.TXTResource{TXT: inStrings(text)},
		}}
	}
	return m
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
