package notify

import (
	"errors"
	"strings"
	"testing"
	"time"

	"postrider/internal/forward"
	"postrider/internal/limits"
)

func TestNotSent(t *testing.T) {
	for _, tt := range []struct {
		name   string
		relay  *fakeRelay
		logged string
	}{
		{
			"the relay is down",
			&fakeRelay{err: &forward.Error{Relay: "r:25", Stage: forward.StageConnect, Err: errors.New("refused")}},
			"relay r:25: connect: refused",
		},
		{"refused", &fakeRelay{status: forward.Refused}, "refused: the relay says 550 5.1.1 no"},
		{"deferred", &fakeRelay{status: forward.Deferred}, "deferred: the relay says 550"},
		{"the reply is lost", &fakeRelay{status: forward.Unknown}, "unknown: the relay says 550"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b := newBench(t, config(t, "sqlite"))
			b.dies("one")
			b.relay.err, b.relay.status = tt.relay.err, tt.relay.status
			for i := range 4 { // after the third time it pauses
				b.wantSent("it cannot be sent")
				if got := strings.Count(b.logs.String(), tt.logged); got != min(i+1, 3) {
					t.Fatalf("after %d passes the log has %q %d times, want %d:\n%s",
						i+1, tt.logged, got, min(i+1, 3), b.logs)
				}
			}
			waiting, err := b.Store.Waiting(b.ctx, b.Config)
			b.check(err)
			if len(waiting) != 1 || waiting[0].Channel != "mail:"+operator || waiting[0].Waiting != 1 ||
				!strings.Contains(waiting[0].LastError, tt.logged) {
				t.Errorf("Waiting() = %+v, want one message for %s and the error %q", waiting, operator, tt.logged)
			}
			b.relay.err, b.relay.status = nil, ""
			b.later()
			b.wantSent("it can be sent", oneDead)
			if waiting, err = b.Store.Waiting(b.ctx, b.Config); err != nil || len(waiting) != 0 {
				t.Errorf("Waiting() = %+v, %v; want nothing", waiting, err)
			}
		})
	}
}

// TestLeft checks that a notice is sent in another transaction when a connection ends before the
// content, and does not count as sent.
func TestLeft(t *testing.T) {
	b := newBench(t, config(t, "sqlite"))
	b.dies("one")
	b.relay.left = 1
	b.wantSent("a connection ends before the content", oneDead)
	b.wantSent("it was sent")
}

// TestLimited checks that a notice waits for a limit of the relay's provider, and that this is not
// a failure.
func TestLimited(t *testing.T) {
	b := newBench(t, config(t, "sqlite"))
	b.dies("one")
	b.relay.err = &limits.Reached{Key: "smtp.limits.per_hour", Limit: 5, Until: time.Now(), Wait: time.Minute}
	for range 5 {
		b.wantSent("the limit is used up")
	}
	if log := b.logs.String(); strings.Contains(log, "WARN") ||
		strings.Count(log, "smtp.limits.per_hour (5) is used up") != 5 {
		t.Errorf("the log is\n%s\nwant the limit each time, and no warning", log)
	}
	b.relay.err = nil
	b.wantSent("the limit has room again", oneDead)
}
