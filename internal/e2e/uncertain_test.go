package e2e

import (
	"bytes"
	"slices"
	"strings"
	"testing"
	"time"

	"postrider/internal/testserver"
	"postrider/internal/testserver/smtpsink"
)

// TestKilledWhileSending kills a pass while the relay has two messages and has not answered yet.
// The routes decide: one message waits for an operator, the other is sent again, and its copies are
// the same.
func TestKilledWhileSending(t *testing.T) {
	onEach(t, all, func(t *testing.T, w *world) {
		at, answer := make(chan struct{}, 2), make(chan struct{})
		w.startSink(func(e smtpsink.Event) smtpsink.Action {
			if e.Stage != "dot" || e.N > 2 {
				return smtpsink.Action{}
			}
			at <- struct{}{}
			return smtpsink.Action{Block: answer, AcceptAndDrop: true}
		})
		w.extra = "alerts: {uncertain: 0}"
		w.routes = `
  - {name: careful, match: {subject: careful}, to: [a@firm.example, b@firm.example], uncertain: hold}
  - {name: lenient, match: {subject: lenient}, to: [a@firm.example, b@firm.example], uncertain: retry}
`
		w.configure()
		w.addInbox("desk@firm.example", "--start", "all")
		for _, subject := range []string{"careful", "lenient"} {
			letter := testserver.Mail("clerk@court.example", "desk@firm.example", subject, "The body.")
			w.imap.Append(t, "desk@firm.example", "INBOX", letter)
		}
		p := w.start(nil, "run")
		for range 2 {
			select {
			case <-at:
			case <-time.After(time.Minute):
				t.Fatal("the relay did not get both messages")
			}
		}
		_ = p.cmd.Process.Kill()
		<-p.ended()
		close(answer)
		w.eventually(func() bool { return len(w.sink.Messages()) == 2 })
		w.endLeases()
		w.start(nil, "run").wait()
		held, sent := w.tasks("--status", "uncertain"), w.tasks("--status", "forwarded")
		if len(held) != 1 || len(sent) != 1 {
			t.Fatalf("%d messages are held and %d forwarded, want one each", len(held), len(sent))
		}
		if copies := w.copies("careful"); len(copies) != 1 {
			t.Errorf("%d copies of the message that is held arrived, want 1", len(copies))
		}
		wantSame(t, w.copies("lenient"))
		const alert = "uncertain messages: 1, more than alerts.uncertain (0)"
		if res := w.must(75, "status"); !strings.Contains(res.stdout, alert) {
			t.Errorf("status prints\n%s\nwant the alert of the uncertain message", res.stdout)
		}
		if res := w.must(75, "run"); strings.Count(res.stderr, alert) > 1 {
			t.Errorf("run prints\n%s\nwant the alert of the uncertain message once, "+
				"or not when a pass before printed it", res.stderr)
		}
		w.must(0, "task", "resolve", "--delivered", "1")
		w.must(0, "run")
		w.must(0, "status")
		if n := len(w.sink.Messages()); n != 3 {
			t.Errorf("%d messages arrived in all, want 3", n)
		}
	})
}

// copies returns the messages with that subject that arrived.
func (w *world) copies(subject string) []smtpsink.Message {
	return slices.DeleteFunc(w.sink.Messages(), func(m smtpsink.Message) bool {
		return !bytes.Contains(m.Header, []byte("\r\nSubject: "+subject+"\r\n"))
	})
}

// wantSame checks that there are two copies of one message, with the same trace field, Message-ID,
// Date and envelope.
func wantSame(t *testing.T, copies []smtpsink.Message) {
	t.Helper()
	if len(copies) != 2 {
		t.Fatalf("%d copies of the message that is sent again arrived, want 2", len(copies))
	}
	a, b := copies[0], copies[1]
	if !bytes.Equal(a.Data, b.Data) || a.From != b.From ||
		!slices.Equal(a.To, b.To) || !slices.Equal(a.Params, b.Params) {
		t.Errorf("the first copy is %q %q %q\n%s\nthe second %q %q %q\n%s\nwant no difference",
			a.From, a.To, a.Params, a.Data, b.From, b.To, b.Params, b.Data)
	}
	for _, field := range []string{"X-Postrider-Trace: ", "\r\nMessage-ID: ", "\r\nDate: "} {
		if !bytes.Contains(a.Header, []byte(field)) {
			t.Errorf("the copies are\n%s\nwant %q in them", a.Data, strings.TrimSpace(field))
		}
	}
}
