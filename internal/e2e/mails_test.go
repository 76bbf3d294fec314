package e2e

import (
	"bytes"
	"fmt"
	"net/mail"
	"strings"
	"testing"

	"postrider/internal/testserver"
	"postrider/internal/testserver/smtpsink"
)

// mails makes n messages.
func mails(n int, subject string) [][]byte {
	body := strings.Repeat("The quick brown fox.\n", 20)
	out := make([][]byte, n)
	for i := range out {
		out[i] = testserver.Mail("alice@client.example", "desk@firm.example", fmt.Sprintf("%s %d", subject, i), body)
	}
	return out
}

func idOf(t *testing.T, raw []byte) string {
	t.Helper()
	m, err := mail.ReadMessage(bytes.NewReader(raw))
	if err != nil {
		t.Fatal(err)
	}
	return m.Header.Get("Message-ID")
}

// arrived counts the messages at the relay, by Message-ID.
func (w *world) arrived() map[string]int {
	w.t.Helper()
	out := map[string]int{}
	for _, m := range w.sink.Messages() {
		out[idOf(w.t, m.Header)]++
	}
	return out
}

// wantOnce checks that each of these messages, and nothing else, arrived exactly once.
func (w *world) wantOnce(groups ...[][]byte) {
	w.t.Helper()
	got := w.arrived()
	lost, twice, total := 0, 0, 0
	for _, group := range groups {
		for _, raw := range group {
			total++
			switch n := got[idOf(w.t, raw)]; {
			case n == 0:
				lost++
			case n > 1:
				twice++
			}
			delete(got, idOf(w.t, raw))
		}
	}
	if lost+twice+len(got) > 0 {
		w.t.Fatalf("of %d messages %d were lost and %d arrived more than once; %d others arrived",
			total, lost, twice, len(got))
	}
}

// put appends a message for each subject to an inbox.
func (w *world) put(address string, subjects ...string) {
	w.t.Helper()
	for _, subject := range subjects {
		raw := testserver.Mail("clerk@court.example", address, subject, "The body of "+subject)
		w.imap.Append(w.t, address, "INBOX", raw)
	}
}

// arrivedFor returns the messages that the relay accepted for this recipient only.
func (w *world) arrivedFor(address string) (out []smtpsink.Message) {
	for _, m := range w.sink.Messages() {
		if strings.Join(m.To, ",") == address {
			out = append(out, m)
		}
	}
	return out
}
