package e2e

import (
	"fmt"
	"strings"
	"syscall"
	"time"
)

// await waits until something holds, for a minute.
func (w *world) await(what string, holds func() bool) {
	w.t.Helper()
	w.awaitFor(time.Minute, what, holds)
}

func (w *world) awaitFor(most time.Duration, what string, holds func() bool) {
	w.t.Helper()
	deadline := time.After(most)
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !holds() {
		select {
		case <-deadline:
			w.t.Fatalf("waited in vain: %s", what)
		case <-tick.C:
		}
	}
}

// end sends SIGTERM, and expects an exit code.
func (w *world) end(p *process, code int) {
	w.t.Helper()
	_ = p.cmd.Process.Signal(syscall.SIGTERM)
	if res := p.wait(); res.code != code {
		w.t.Fatalf("watch ended with %d, want %d\n%s", res.code, code, res.stderr)
	}
}

// endLeases ends the leases of a killed process, because the tests cannot wait for them. If they
// were short enough for that, a process that is alive could lose one on a busy machine.
func (w *world) endLeases() {
	w.t.Helper()
	w.aged("monitored_emails", "scan_until")
	w.aged("monitored_emails_tasks", "visible_at")
}

// aged has what is due later be due now.
func (w *world) aged(table, column string) {
	w.t.Helper()
	w.sql("UPDATE " + table + " SET " + column + " = 1 WHERE " + column + " > 1")
}

// page waits until a process says where its status page is.
func (w *world) page(p *process) (url string) {
	w.t.Helper()
	w.await("the page is up", func() bool {
		_, rest, found := strings.Cut(p.stderr.String(), "address=")
		url, _, _ = strings.Cut(rest, "\n")
		return found && strings.HasSuffix(url, "/")
	})
	return url
}

// mayHaveArrived reports whether, by the audit trail, a message was being sent when another pass
// took it over, or the reply to its content did not come. note may miss that moment: a slow pass
// may itself try the message again.
func (w *world) mayHaveArrived(messageID string) bool {
	w.t.Helper()
	for _, one := range w.tasks() {
		if one.MessageID == messageID {
			trail := w.must(0, "task", "show", fmt.Sprint(one.ID), "--json").stdout
			return strings.Contains(trail, ", which was sending to ") ||
				strings.Contains(trail, "no usable reply to the final dot")
		}
	}
	return false
}
