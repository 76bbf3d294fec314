package pass

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"postrider/internal/inbox"
	"postrider/internal/tasks"
)

// scanLease is the right to scan one inbox.
type scanLease struct {
	leases ScanLeases
	in     inbox.Inbox // as it is since the lease is held: nobody else moves its cursors
	token  int64
	ttl    time.Duration
}

// acquireScan asks for the scan lease of an inbox. A server that asked to be left alone is an
// error.
func acquireScan(ctx context.Context, p *Pass, in inbox.Inbox) (*scanLease, *inbox.Busy, error) {
	if ctx.Err() != nil {
		return nil, nil, ctx.Err()
	}
	ttl := min(p.Config.Lease, time.Minute)
	// Not interrupted: a lease that nobody knows of would keep the next pass away.
	token, busy, err := p.Inboxes.AcquireScan(context.WithoutCancel(ctx), in.ID, p.Config.Worker, ttl)
	switch {
	case err != nil:
		return nil, nil, err
	case busy != nil && busy.Paused:
		return nil, nil, fmt.Errorf("the server asked to be left alone until %s", busy.Until.Format(time.RFC3339))
	case busy != nil:
		return nil, busy, nil
	}
	lease := &scanLease{leases: p.Inboxes, in: in, token: token, ttl: ttl}
	// What was read before the lease may be old by now.
	if lease.in, err = p.Inboxes.Get(ctx, in.Address); err != nil {
		return nil, nil, errors.Join(err, p.Inboxes.ReleaseScan(context.WithoutCancel(ctx), in.ID, token))
	}
	if !lease.in.Active {
		lease.in.Folders = nil // disabled since
	}
	return lease, nil, nil
}

// scan is what cursors are changed under.
func (l *scanLease) scan() inbox.Scan { return inbox.Scan{InboxID: l.in.ID, Token: l.token} }

// errTakenOver is reported instead of what the loss of the scan lease made fail.
var errTakenOver = errors.New("this run was held up for longer than its lease, and another one has " +
	"taken the inbox over; nothing is lost, that one goes on")

func scanLost(err error) bool {
	return errors.Is(err, inbox.ErrScanLost) || errors.Is(err, tasks.ErrScanLost)
}

// hold works under the lease, records how the scan ended, and gives the lease back. When the lease
// is lost, the context of work ends.
func (l *scanLease) hold(ctx context.Context, log *slog.Logger, work func(context.Context) error) error {
	err := l.renewing(ctx, log, work)
	after := context.WithoutCancel(ctx)
	if ctx.Err() == nil && !scanLost(err) {
		err = errors.Join(err, l.leases.FinishScan(after, l.in.ID, l.token, errText(err)))
	}
	if scanLost(err) {
		log.Info("the scan lease was lost", "error", err)
		return errTakenOver
	}
	if pause := backOff(err); pause > 0 {
		log.Warn("the server asked to be left alone; no run connects until then", "for", pause)
		return errors.Join(err, l.leases.PauseScan(after, l.in.ID, l.token, pause))
	}
	return errors.Join(err, l.leases.ReleaseScan(after, l.in.ID, l.token))
}

// renewing works while it renews the lease.
func (l *scanLease) renewing(ctx context.Context, log *slog.Logger, work func(context.Context) error) error {
	held, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	stop := every(context.WithoutCancel(ctx), l.ttl/3, func(ctx context.Context) {
		switch err := l.leases.RenewScan(ctx, l.in.ID, l.token, l.ttl); {
		case scanLost(err):
			cancel(err)
		case err != nil:
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

func errText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}
