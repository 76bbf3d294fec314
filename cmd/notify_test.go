package cmd

import (
	"context"
	"testing"
	"time"
)

// TestBeyond checks how long notices may take after a pass.
func TestBeyond(t *testing.T) {
	signalled, signal := context.WithCancel(t.Context())
	for _, tt := range []struct {
		name    string
		timeout time.Duration // when the pass began; 0 for none
	}{{"no timeout", 0}, {"time is left", time.Hour}, {"the time is over", time.Nanosecond}} {
		t.Run(tt.name, func(t *testing.T) {
			ctx := signalled
			if tt.timeout > 0 {
				var cancel context.CancelFunc
				ctx, cancel = context.WithTimeout(signalled, tt.timeout)
				defer cancel()
			}
			until, _ := ctx.Deadline()
			got, cancel := beyond(ctx, signalled)
			defer cancel()
			end, ok := got.Deadline()
			if latest := time.Now(); until.Before(latest) {
				until = latest
			}
			if ok != (tt.timeout > 0) || ok && end.After(until.Add(noticeTime)) {
				t.Errorf("notices end at %s (%v), want an end with --timeout only, and by %s",
					end, ok, until.Add(noticeTime))
			}
			if got.Err() != nil {
				t.Errorf("notices have ended: %v, want some time for them", got.Err())
			}
		})
	}
	ctx, cancel := context.WithTimeout(signalled, time.Hour)
	defer cancel()
	got, cancel := beyond(ctx, signalled)
	defer cancel()
	signal()
	if got.Err() == nil {
		t.Error("notices go on after a signal, want that it ends them")
	}
}
