package notify

import (
	"context"
	"strings"
	"testing"

	"postrider/internal/forward"
)

func TestStopped(t *testing.T) {
	b := newBench(t, config(t, "sqlite"))
	b.dies("one")
	ctx, cancel := context.WithCancel(b.ctx)
	cancel()
	b.Notify(ctx, true)
	for range 4 { // these are no failures, otherwise there would be a pause
		ctx, cancel = context.WithCancel(b.ctx)
		b.Begin = failing(cancel)
		b.Notify(ctx, true)
	}
	b.Begin = b.relay.Begin
	if b.logs.Len() > 0 {
		t.Errorf("the log is %q, want nothing about the stopped runs", b.logs)
	}
	b.wantSent("the next run", oneDead)
}

// TestTimeOver checks that a relay that is silent until the time is over has failed: without a
// pause each pass would wait for it.
func TestTimeOver(t *testing.T) {
	b := newBench(t, config(t, "sqlite"))
	b.Config.To = append(b.Config.To, "others@firm.example")
	b.dies("one")
	for range 4 { // after the third time it pauses
		ctx, cancel := context.WithCancel(b.ctx)
		b.Begin = failing(cancel)
		if ok := b.Mail(ended{ctx, context.DeadlineExceeded}); ok != (ctx.Err() == nil) {
			t.Errorf("Mail() = %v, want false if the relay was silent, and true if it was not asked", ok)
		}
		cancel()
	}
	if got := strings.Count(b.logs.String(), "channel=mail:"+operator); got != 3 {
		t.Errorf("the log has the failure %d times, want 3:\n%s", got, b.logs)
	}
}

// failing is a relay that calls the function and then fails.
func failing(f func()) func(context.Context, forward.Envelope, *forward.Content) (Transaction, error) {
	return func(context.Context, forward.Envelope, *forward.Content) (Transaction, error) {
		f()
		return &fakeTransaction{}, context.Canceled
	}
}
