package pass

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"strings"
	"sync"
	"time"

	"postrider/internal/imapsrc"
	"postrider/internal/inbox"
	"postrider/internal/tasks"
)

// box is one inbox while a pass works on it.
type box struct {
	*running
	in    inbox.Inbox
	log   *slog.Logger
	mail  *mailbox
	shelf *shelf
	token int64 // of the scan lease

	mu     sync.Mutex
	report InboxReport
}

// inbox works on one inbox and reports on it.
func (r *running) inbox(ctx context.Context, in inbox.Inbox) InboxReport {
	b := &box{
		running: r, in: in, log: r.Log.With("inbox", in.Address), shelf: newShelf(),
		report: InboxReport{Email: in.Address},
	}
	b.mail = newMailbox(func(ctx context.Context) (Source, error) { return r.Dial(ctx, b.in) }, b.log)
	defer b.mail.close()
	defer b.shelf.clear()
	leave, err := r.hosts.enter(ctx, in.Host)
	if err != nil {
		return b.report // stopped while it waited
	}
	defer leave()
	if r.Config.DryRun {
		err = b.preview(ctx)
	} else {
		err = b.underLease(ctx)
	}
	if err != nil && ctx.Err() == nil {
		b.report.Error = strings.ReplaceAll(err.Error(), "\n", "; ")
		b.log.Error("the inbox could not be worked through", "error", err)
	}
	return b.report
}

// underLease holds the inbox's scan lease while it works. A lease that is lost ends the work: somebody else is at it.
func (b *box) underLease(ctx context.Context) error {
	ttl, id := min(b.Config.Lease, time.Minute), b.in.ID
	if ctx.Err() != nil {
		return ctx.Err()
	}
	// Not interrupted: a lease that nobody hears of would keep the next pass away.
	token, busy, err := b.Inboxes.AcquireScan(context.WithoutCancel(ctx), id, b.Config.Worker, ttl)
	if err != nil {
		return err
	}
	if busy != nil && busy.Paused {
		return fmt.Errorf("the server asked to be left alone until %s", busy.Until.Format(time.RFC3339))
	}
	if busy != nil {
		b.report.Busy = fmt.Sprintf("%s is working on it (until %s unless renewed)", busy.Holder, busy.Until.Format(time.RFC3339))
		b.log.Info("stepped aside: another run is working on this inbox", "holder", busy.Holder, "until", busy.Until)
		return nil
	}
	b.token = token
	work, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	stop := every(context.WithoutCancel(ctx), ttl/3, func(ctx context.Context) {
		switch err := b.Inboxes.RenewScan(ctx, id, token, ttl); {
		case errors.Is(err, inbox.ErrScanLost):
			cancel(err)
		case err != nil:
			b.log.Warn("the scan lease could not be renewed", "error", err)
		}
	})
	err = b.current(work)
	if err == nil {
		err = b.work(work)
	}
	if cause := context.Cause(work); err != nil && errors.Is(cause, inbox.ErrScanLost) {
		err = cause
	}
	stop()
	after := context.WithoutCancel(ctx)
	if ctx.Err() == nil {
		err = errors.Join(err, b.Inboxes.FinishScan(after, id, token, errText(err)))
	}
	if pause := backOff(err); pause > 0 {
		b.log.Warn("the server wants to be left alone; passes step aside until then", "for", pause)
		return errors.Join(err, b.Inboxes.PauseScan(after, id, token, pause))
	}
	return errors.Join(err, b.Inboxes.ReleaseScan(after, id, token))
}

// lease is what the cursors of this inbox are changed under.
func (b *box) lease() inbox.Scan { return inbox.Scan{InboxID: b.in.ID, Token: b.token} }

// current reads the inbox again, now that nobody else moves its cursors: what was read before the lease may be old by now.
func (b *box) current(ctx context.Context) error {
	in, err := b.Inboxes.Get(ctx, b.in.Address)
	if err != nil {
		return err
	}
	if !in.Active {
		in.Folders = nil // disabled meanwhile
	}
	b.in = in
	return nil
}

// backOff is for how long the server asked to be left alone, an hour at most.
func backOff(err error) time.Duration {
	var e *imapsrc.Error
	if !errors.As(err, &e) {
		return 0
	}
	return min(e.BackOff, time.Hour)
}

func errText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// work reads and works off at once. A folder that cannot be read does not keep the others from being worked off.
func (b *box) work(ctx context.Context) error {
	folders, openErr := b.open(ctx)
	if len(folders) == 0 {
		return openErr
	}
	b.expectDue(ctx)
	pages := make(chan struct{})
	scanCtx, stopScan := context.WithCancel(ctx)
	defer stopScan()
	var scanErr, feedErr error
	var both sync.WaitGroup
	both.Go(func() {
		defer close(pages)
		scanErr = b.scan(scanCtx, folders, func() error {
			select {
			case pages <- struct{}{}:
				return nil
			case <-scanCtx.Done():
				return scanCtx.Err()
			}
		})
	})
	both.Go(func() {
		feedErr = b.feed(ctx, maps.Clone(folders), pages)
		stopScan() // it has ended, or waits for a feed that has failed
	})
	both.Wait()
	if scanCtx.Err() != nil && ctx.Err() == nil && errors.Is(scanErr, context.Canceled) {
		scanErr = nil // it was stopped because of feedErr
	}
	return errors.Join(openErr, feedErr, scanErr)
}

// preview is a dry run: it reads, and tells what it finds.
func (b *box) preview(ctx context.Context) error {
	err := b.Queue.List(ctx, tasks.Filter{InboxID: b.in.ID, Due: true}, func(t tasks.Task) error {
		b.Observer.Due(t)
		return nil
	})
	if err != nil {
		return err
	}
	folders, err := b.open(ctx)
	return errors.Join(err, b.scan(ctx, folders, nil))
}

func (b *box) expectDue(ctx context.Context) {
	if due, err := b.Queue.Due(ctx, b.in.ID); err == nil { // it is for the progress bar alone
		b.Observer.Expect(due)
	}
}

// count adds tasks that ended their claim to the report.
func (b *box) count(s tasks.Status) {
	b.mu.Lock()
	b.report.count(s)
	b.mu.Unlock()
	b.Observer.Done(1)
}
