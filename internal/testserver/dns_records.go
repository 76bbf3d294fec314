package testserver

import (
	"strings"
	"testing"

	"golang.org/x/net/dns/dnsmessage"
)

// AddTXT gives a name one more TXT record; all of them have to be given so.
func (s *DNS) AddTXT(t testing.TB, name, text string) {
	t.Helper()
	s.add(t, name, dnsmessage.TypeTXT, &dnsmessage.TXTResource{TXT: inStrings(text)})
}

// SetA gives a name an IPv4 address.
func (s *DNS) SetA(t testing.TB, name string, ip [4]byte) {
	t.Helper()
	s.add(t, name, dnsmessage.TypeA, &dnsmessage.AResource{A: ip})
}

// SetMX gives a name an MX record.
func (s *DNS) SetMX(t testing.TB, name, host string, preference uint16) {
	t.Helper()
	s.add(t, name, dnsmessage.TypeMX, &dnsmessage.MXResource{Pref: preference, MX: dnsName(t, host)})
}

// SetSRV gives a name, such as _imaps._tcp.firm.example, an SRV record.
func (s *DNS) SetSRV(t testing.TB, name, target string, port, priority, weight uint16) {
	t.Helper()
	s.add(t, name, dnsmessage.TypeSRV, &dnsmessage.SRVResource{
		Priority: priority, Weight: weight, Port: port, Target: dnsName(t, target),
	})
}

func (s *DNS) add(t testing.TB, name string, kind dnsmessage.Type, body dnsmessage.ResourceBody) {
	s.mu.Lock()
	defer s.mu.Unlock()
	key := strings.ToLower(name) + "."
	s.others[key] = append(s.others[key], dnsmessage.Resource{
		Header: dnsmessage.ResourceHeader{Name: dnsName(t, name), Type: kind, Class: dnsmessage.ClassINET, TTL: 60},
		Body:   body,
	})
}

// dnsName is a name with its dot; the root is ".".
func dnsName(t testing.TB, name string) dnsmessage.Name {
	t.Helper()
	n, err := dnsmessage.NewName(strings.TrimSuffix(name, ".") + ".")
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// ofType are the records that answer a question.
func ofType(records []dnsmessage.Resource, asked dnsmessage.Question) (out []dnsmessage.Resource) {
	for _, r := range records {
		if r.Header.Type == asked.Type {
			out = append(out, r)
		}
	}
	return out
}
