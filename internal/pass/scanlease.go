package pass

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"postrider/internal/imapsrc"
	"postrider/internal/inbox"
	"postrider/internal/tasks"
)

// LongestScanLease is how long a scan lease lasts at most, unless it is renewed.
const LongestScanLease = time.Minute

// scanLease is the right to scan one inbox.
type scanLease struct {
	leases ScanLeases
	in     inbox.Inbox // as it is since the lease is held; its labels are as the pass found them
	by     inbox.Scan  // what cursors are changed under
	ttl    time.Duration
}

// acquireScan asks for the scan lease of an inbox. A server that asked clients to back off is an
// error.
func acquireScan(ctx context.Context, p *Pass, in inbox.Inbox) (*scanLease, *inbox.Busy, error) {
	if ctx.Err() != nil {
		return nil, nil, ctx.Err()
	}
	ttl := min(p.Config.Lease, LongestScanLease)
	// Not interrupted: a lease that nobody knows of would keep the next pass away.
	got, busy, err := p.Inboxes.AcquireScan(context.WithoutCancel(ctx), in.ID, p.Config.Worker, ttl)
	switch {
	case err != nil:
		return nil, nil, err
	case busy != nil && busy.Paused:
		return nil, nil, &PausedError{busy.Until}
	case busy != nil:
		return nil, busy, nil
	}
	got.Inbox.Labels = in.Labels // those of the deliverer, so that both decide alike
	if !got.Inbox.Active {
		got.Inbox.Folders = nil // disabled since
	}
	return &scanLease{leases: p.Inboxes, in: got.Inbox, by: got.Scan(), ttl: ttl}, nil, nil
}

// PausedError says that the server of an inbox asked clients to back off.
type PausedError struct{ Until time.Time }

func (e *PausedError) Error() string {
	return "the server asked clients to back off until " + e.Until.Format(time.RFC3339)
}

// errTakenOver replaces the errors that follow from a lost scan lease.
var errTakenOver = errors.New("this run was blocked for longer than its lease, so another run took over the inbox; " +
	"nothing is lost")

func scanLost(err error) bool {
	return errors.Is(err, inbox.ErrScanLost) || errors.Is(err, tasks.ErrScanLost)
}

// hold works under the lease, records how the scan ended and which folders work scanned, and gives
// the lease back. When the lease is lost, the context of work ends.
func (l *scanLease) hold(ctx context.Context, log *slog.Logger, work func(context.Context) ([]int64, error)) error {
	var end inbox.ScanEnd
	err := l.renewing(ctx, log, func(ctx context.Context) (err error) {
		end.Folders, err = work(ctx)
		return err
	})
	if !scanLost(err) {
		if end.Pause = imapsrc.BackOffOf(err); end.Pause > 0 {
			log.Warn("the server asked clients to back off; no run connects to this inbox for that time",
				"pause", end.Pause)
		}
		if end.Interrupted = ctx.Err() != nil; err != nil && !end.Interrupted {
			end.Failure, end.LoginNeeded = err.Error(), imapsrc.KindOf(err) == imapsrc.KindLogin
		}
		err = errors.Join(err, l.leases.FinishScan(context.WithoutCancel(ctx), l.by, end))
	}
	if scanLost(err) {
		log.Info("the scan lease was lost", "error", err)
		return errTakenOver
	}
	return err
}

// renewing works while it renews the lease.
func (l *scanLease) renewing(ctx context.Context, log *slog.Logger, work func(context.Context) error) error {
	held, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	stop := tasks.Every(context.WithoutCancel(ctx), l.ttl/3, func(ctx context.Context) {
		switch err := l.leases.RenewScan(ctx, l.by, l.ttl); {
		case scanLost(err):
			cancel(err)
		case err != nil && ctx.Err() == nil:
			log.Warn("the scan lease of the inbox could not be renewed", "error", err)
		}
	})
	err := work(held)
	stop()
	if err != nil && held.Err() != nil && ctx.Err() == nil {
		return context.Cause(held)
	}
	return err
}
