package cmd

import (
	"bytes"
	"testing"

	"postrider/internal/config"
	"postrider/internal/outbox"
	"postrider/internal/outbox/cloudevent"
)

// TestPrintStandings: what waits, what of it failed, and what is dead; nothing that is zero.
func TestPrintStandings(t *testing.T) {
	for want, counts := range map[string]map[outbox.Status]int{
		"actions on the servers: 3 waiting, 2 of them failed before " +
			"(postrider event list --destination imap --status waiting), " +
			"1 dead (postrider event list --destination imap --status dead)\n": {
			outbox.Waiting: 2, outbox.InProgress: 1, outbox.DeadLetter: 1,
		},
		"actions on the servers: 2 dead (postrider event list --destination imap --status dead)\n": {
			outbox.DeadLetter: 2,
		},
		"": {outbox.Done: 4},
	} {
		var out bytes.Buffer
		st := outbox.Standing{Name: outbox.Server, Counts: counts, Failing: counts[outbox.Waiting]}
		if (&app{out: &out}).printStandings([]outbox.Standing{st}); out.String() != want {
			t.Errorf("%v: it prints %q, want %q", counts, out.String(), want)
		}
	}
}

// TestEventSource: the source is a URI whatever the domain of forward.from, or the host of the
// relay.
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
