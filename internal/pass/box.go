package pass

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"sync"
	"time"

	"postrider/internal/imapsrc"
	"postrider/internal/inbox"
	"postrider/internal/tasks"
)

// box is one inbox while a pass works on it.
type box struct {
	*running
	in     inbox.Inbox
	log    *slog.Logger
	mail   *mailbox
	shelf  *shelf
	token  int64   // of the scan lease
	helper *feeder // its claims may be in work yet when the box has taken the scan over

	mu     sync.Mutex
	report InboxReport
}

// box is the inbox, not connected to yet. Close its mail.
func (r *running) box(in inbox.Inbox) *box {
	b := &box{running: r, in: in, log: r.Log.With("inbox", in.Address), shelf: newShelf(), report: InboxReport{Email: in.Address}}
	b.helper = &feeder{box: b, helping: true}
	b.mail = newMailbox(func(ctx context.Context) (Source, error) { return r.Dial(ctx, b.in) }, b.log)
	return b
}

// inbox works on one inbox and reports on it. Unless help is set, one that a run of another host scans is left for later.
func (r *running) inbox(ctx context.Context, in inbox.Inbox, help bool) (report InboxReport, later bool) {
	b := r.box(in)
	defer b.mail.close()
	defer b.shelf.clear()
	leave, err := r.hosts.enter(ctx, in.Host)
	if err != nil {
		return b.report, false // stopped while it waited
	}
	defer leave()
	if r.Config.DryRun {
		err = b.preview(ctx)
	} else {
		later, err = b.underLease(ctx, help)
	}
	b.failedWith(ctx, err)
	return b.report, later
}

// failedWith tells why the inbox could not be worked through, unless the pass was stopped.
func (b *box) failedWith(ctx context.Context, err error) {
	if err != nil && ctx.Err() == nil {
		b.report.Error = oneLine(err)
		b.log.Error("the inbox could not be worked through", "error", err)
	}
}

// underLease scans the inbox when nobody does, helps when another host does, and steps aside for a run of this one.
func (b *box) underLease(ctx context.Context, help bool) (later bool, err error) {
	token, busy, err := b.acquire(ctx)
	switch {
	case err != nil:
		return false, err
	case busy == nil:
		return false, b.scanning(ctx, token, b.work)
	case b.ours(busy):
		b.stepAside(busy, "it is a run of this host")
		return false, nil
	case help:
		return false, b.help(ctx, busy)
	}
	return true, nil
}

// acquire asks for the scan lease. A server that wants to be left alone is an error.
func (b *box) acquire(ctx context.Context) (token int64, busy *inbox.Busy, err error) {
	if ctx.Err() != nil {
		return 0, nil, ctx.Err()
	}
	// Not interrupted: a lease that nobody hears of would keep the next pass away.
	token, busy, err = b.Inboxes.AcquireScan(context.WithoutCancel(ctx), b.in.ID, b.Config.Worker, b.ttl())
	if err == nil && busy != nil && busy.Paused {
		err = fmt.Errorf("the server asked to be left alone until %s", busy.Until.Format(time.RFC3339))
	}
	return token, busy, err
}

// ttl is for how long leases of an inbox are good. They are renewed while they are held.
func (b *box) ttl() time.Duration { return min(b.Config.Lease, time.Minute) }

// holding does work while renew keeps a lease. Once that is lost, the context of work ends.
func (b *box) holding(ctx context.Context, renew, work func(context.Context) error) error {
	held, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	stop := every(context.WithoutCancel(ctx), b.ttl()/3, func(ctx context.Context) {
		switch err := renew(ctx); {
		case scanLost(err) || errors.Is(err, inbox.ErrHelpLost):
			cancel(err)
		case err != nil:
			b.log.Warn("a lease of the inbox could not be renewed", "error", err)
		}
	})
	err := work(held)
	stop()
	if err != nil && held.Err() != nil && ctx.Err() == nil {
		return context.Cause(held)
	}
	return err
}

// errTakenOver is told instead of what the loss of the scan lease made fail.
var errTakenOver = errors.New("this run was held up for longer than its lease, and another one has taken the inbox over; " +
	"nothing is lost, that one goes on")

func scanLost(err error) bool {
	return errors.Is(err, inbox.ErrScanLost) || errors.Is(err, tasks.ErrScanLost)
}

// scanning does work under the scan lease. A lease that is lost ends it: somebody else is at the inbox.
func (b *box) scanning(ctx context.Context, token int64, work func(context.Context) error) error {
	b.token = token
	id := b.in.ID // current changes b.in while the lease is renewed
	err := b.holding(ctx, func(ctx context.Context) error { return b.Inboxes.RenewScan(ctx, id, token, b.ttl()) },
		func(ctx context.Context) error {
			if err := b.helper.landed(); err != nil {
				return err
			}
			if err := b.current(ctx); err != nil {
				return err
			}
			return work(ctx)
		})
	after := context.WithoutCancel(ctx)
	if ctx.Err() == nil && !scanLost(err) {
		err = errors.Join(err, b.Inboxes.FinishScan(after, b.in.ID, token, errText(err)))
	}
	if scanLost(err) {
		b.log.Info("the scan lease was lost", "error", err)
		return errTakenOver
	}
	if pause := backOff(err); pause > 0 {
		b.log.Warn("the server wants to be left alone; passes step aside until then", "for", pause)
		return errors.Join(err, b.Inboxes.PauseScan(after, b.in.ID, token, pause))
	}
	return errors.Join(err, b.Inboxes.ReleaseScan(after, b.in.ID, token))
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
	if len(folders) == 0 || scanLost(openErr) {
		return openErr
	}
	b.expectDue(ctx)
	pages := make(chan struct{})
	scanCtx, stopScan := context.WithCancel(ctx)
	defer stopScan()
	feedCtx, stopFeed := context.WithCancel(ctx)
	defer stopFeed()
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
		if scanLost(scanErr) {
			stopFeed()
		}
	})
	both.Go(func() {
		feedErr = b.feed(feedCtx, maps.Clone(folders), pages)
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
