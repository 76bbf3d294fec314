package cmd

import (
	"testing"

	"postrider/internal/config"
	"postrider/internal/outbox"
	"postrider/internal/outbox/cloudevent"
)

// TestEventSource: the source is a URI whatever the domain of forward.from, or the host of the relay.
func TestEventSource(t *testing.T) {
	for _, tt := range []struct{ from, relay, want string }{
		{"Forwarder <forwarder@firm.example>", "mail.example", "postrider://firm.example"},
		{"forwarder@bücher.example", "", "postrider://xn--bcher-kva.example"},
		{"forwarder@[192.0.2.1]", "", "postrider://192.0.2.1"},
		{"forwarder@[IPv6:2001:db8::1]", "", "postrider://[2001:db8::1]"},
		{"", "mail.example", "postrider://mail.example"},
		{"", "2001:db8::1", "postrider://[2001:db8::1]"},
		{"", "fe80::1%eth0", "postrider://[fe80::1%25eth0]"},
	} {
		s := services{cfg: &config.Config{Forward: config.Forward{From: tt.from}, SMTP: config.SMTP{Host: tt.relay}}}
		got := s.eventSource()
		if got != tt.want {
			t.Errorf("from %q over %q the source is %q, want %q", tt.from, tt.relay, got, tt.want)
		}
		e := cloudevent.Event{ID: "1", Source: got, Kind: outbox.Forwarded, Subject: "1", Data: cloudevent.Inbox{}}
		if _, err := cloudevent.Encode(e); err != nil {
			t.Errorf("from %q over %q: %v", tt.from, tt.relay, err)
		}
	}
}
