package pass

import (
	"log/slog"
	"strings"
	"testing"

	"postrider/internal/tasks"
)

// TestLogOfASkippedMessage: it has the reason, and not what the relay replied before.
func TestLogOfASkippedMessage(t *testing.T) {
	log := &syncBuffer{}
	d := &deliverer{pass: &Pass{}, log: slog.New(slog.NewTextHandler(log, nil))}
	d.logEnd(&job{}, tasks.Result{
		Status: tasks.Skipped, Reason: "too_large: 2 MiB",
		Deliveries: []tasks.Delivery{{Recipient: team, Code: 450, Reply: "greylisted"}},
	})
	if got := log.String(); !strings.Contains(got, `reason="too_large: 2 MiB"`) || strings.Contains(got, "450") {
		t.Errorf("the log is %q, want the reason and no reply", got)
	}
}
