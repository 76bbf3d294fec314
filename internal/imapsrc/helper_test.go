package imapsrc_test

import (
	"context"
	"errors"
	"runtime"
	"strings"
	"testing"
	"time"

	"postrider/internal/imapsrc"
)

// wantError checks the kind, and that the text is one line which holds all parts.
func wantError(t *testing.T, err error, kind imapsrc.Kind, parts ...string) *imapsrc.Error {
	t.Helper()
	var e *imapsrc.Error
	if !errors.As(err, &e) {
		t.Fatalf("error = %v; want an *Error of kind %s", err, kind)
	}
	if e.Kind != kind {
		t.Errorf("error is of kind %s (%v); want %s", e.Kind, err, kind)
	}
	text := err.Error()
	if !strings.HasPrefix(text, "imap ") || strings.ContainsAny(text, "\r\n\t\x00") {
		t.Errorf("error = %q; want one printable line that starts with imap and the host", text)
	}
	for _, part := range parts {
		if !strings.Contains(text, part) {
			t.Errorf("error = %q; want it to say %q", text, part)
		}
	}
	return e
}

func isCanceled(err error) bool { return errors.Is(err, context.Canceled) }

// watchHeap measures the heap until the returned function is called, which says by how much it grew at most.
func watchHeap(t *testing.T) (grown func() uint64) {
	t.Helper()
	runtime.GC()
	var start runtime.MemStats
	runtime.ReadMemStats(&start)
	stop, peak := make(chan struct{}), make(chan uint64)
	go func() {
		tick := time.NewTicker(time.Millisecond)
		defer tick.Stop()
		highest := start.HeapAlloc
		for {
			select {
			case <-stop:
				peak <- highest - start.HeapAlloc
				return
			case <-tick.C:
				var now runtime.MemStats
				runtime.ReadMemStats(&now)
				highest = max(highest, now.HeapAlloc)
			}
		}
	}()
	return func() uint64 {
		close(stop)
		return <-peak
	}
}
