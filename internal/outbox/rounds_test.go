package outbox

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

// TestRun: what happens is published when it is reported, to one destination while another hangs.
func TestRun(t *testing.T) {
	d := newDesk(t)
	d.Log = slog.New(slog.NewTextHandler(io.Discard, nil))
	ctx, cancel := context.WithCancel(t.Context())
	hangs, came := make(chan struct{}), make(chan struct{}, 10)
	d.crm.takes(func(Message) error { <-hangs; return nil })
	d.bus.takes(func(Message) error { came <- struct{}{}; return nil })
	woken, done := make(chan struct{}, 1), make(chan struct{})
	go func() {
		defer close(done)
		d.Run(ctx, woken, nil)
	}()
	for id := range int64(3) {
		d.happen(Occurrence{Kind: Dead, TaskID: id + 1})
		wake(woken)
		<-came
	}
	cancel()
	close(hangs)
	<-done
}

// TestPace: what happens in quick succession is expanded together.
func TestPace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, looks := newDesk(t), 0
		d.Plan = func(ctx context.Context, os []Occurrence) ([]Planned, error) {
			looks++
			return to("crm")(ctx, os)
		}
		woken, last := make(chan struct{}, 1), make(chan struct{})
		go func() {
			defer close(last)
			for id := range int64(50) {
				d.happen(Occurrence{Kind: Dead, TaskID: id + 1})
				wake(woken)
				time.Sleep(10 * time.Millisecond)
			}
		}()
		d.Run(t.Context(), woken, last)
		if looks > 6 {
			t.Errorf("%d looks found something in half a second, want one in a tenth of a second", looks)
		}
		if n := len(d.crm.got); n != 50 {
			t.Errorf("%d of 50 events were published", n)
		}
	})
}

// TestCommittedLate: what is committed just after it was reported is published soon, and not a
// second later.
func TestCommittedLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t)
		woken, last, began := make(chan struct{}, 1), make(chan struct{}), time.Now()
		var took time.Duration
		d.crm.takes(func(Message) error { took = time.Since(began); close(last); return nil })
		go func() {
			time.Sleep(time.Second) // the first look is over
			wake(woken)
			began = time.Now()
			time.Sleep(10 * time.Millisecond)
			d.happen(Occurrence{Kind: Dead, TaskID: 1})
		}()
		d.Run(t.Context(), woken, last)
		if took > 100*time.Millisecond {
			t.Errorf("it was published %s after it was reported, want at once", took)
		}
	})
}

// TestDatabaseAway: that the database cannot be used is logged in the last round of a pass.
func TestDatabaseAway(t *testing.T) {
	var log strings.Builder
	news, last, n := make(chan struct{}, 1), make(chan struct{}), 0
	r := rounds{log: slog.New(slog.NewTextHandler(&log, nil)), news: news, last: last}
	r.run(t.Context(), func() error {
		if n++; n == 3 {
			if log.Len() > 0 {
				t.Errorf("the log has, before the last round,\n%s", &log)
			}
			close(last)
		}
		wake(news)
		return fmt.Errorf("read: %w", syscall.ECONNREFUSED)
	})
	if n != 4 || strings.Count(log.String(), "cannot process the outbox; the next pass continues") != 1 {
		t.Errorf("%d rounds, and the log has\n%s\nwant 4 and one line", n, &log)
	}
}

// TestOutboxFails: an error of the outbox alone is logged once in a row, also by a process that
// stays up.
func TestOutboxFails(t *testing.T) {
	var log strings.Builder
	full := errors.New("the table is full")
	errs := []error{syscall.ECONNREFUSED, full, full, nil, full}
	news := make(chan struct{}, 1)
	ctx, cancel := context.WithCancel(t.Context())
	r := rounds{log: slog.New(slog.NewTextHandler(&log, nil)), news: news}
	r.run(ctx, func() error {
		if len(errs) == 0 {
			cancel()
			return nil
		}
		err := errs[0]
		errs = errs[1:]
		wake(news)
		return err
	})
	if n := strings.Count(log.String(), "cannot process the outbox; trying again"); n != 2 {
		t.Errorf("the log has\n%s\nwant two lines", &log)
	}
}
