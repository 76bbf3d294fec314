package pass

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"postrider/internal/imapsrc"
	"postrider/internal/inbox"
	"postrider/internal/tasks"
)

// TestAuditDoesNotRepairBesideARun names the other run, and registers nothing.
func TestAuditDoesNotRepairBesideARun(t *testing.T) {
	r := newRig(t, nil)
	r.add(inbox.StartAll)
	r.late(3, 2)
	in := r.stored()
	_, _, err := r.store.AcquireScan(t.Context(), in.ID, "another run", time.Minute)
	check(t, err)
	found, _ := r.audit(AuditOptions{Repair: true})
	wantCounts(t, found.Folders[0], map[Account]int{AsForwarded: 2, AsMissing: 1})
	if !strings.Contains(found.Error, "another run") || !strings.Contains(found.Error, "nothing was registered") {
		t.Errorf("the error is %q, want one that names the other run and says that nothing was registered", found.Error)
	}
}

// TestAuditLosesItsLease: it does not disturb the run that has the lease now.
func TestAuditLosesItsLease(t *testing.T) {
	t.Run("taken over", func(t *testing.T) {
		r := newRig(t, nil)
		r.add(inbox.StartAll)
		r.late(3, 2)
		in := r.stored()
		r.Inboxes = &acting{Inboxes: r.Inboxes, after: func() {
			r.clock.advance(time.Hour)
			_, _, err := r.store.AcquireScan(t.Context(), in.ID, "another run", time.Minute)
			check(t, err)
		}}
		found, _ := r.audit(AuditOptions{Repair: true})
		if found.Error != errTakenOver.Error() || len(found.Folders[0].Missing) != 1 || len(r.tasks()) != 2 {
			t.Errorf("the audit found %+v, with %d tasks; want the lease to be lost, and nothing registered",
				found, len(r.tasks()))
		}
		if _, busy, err := r.store.AcquireScan(t.Context(), in.ID, "a third", time.Minute); err != nil || busy == nil {
			t.Errorf("the lease is free (%v), want it to be the other run's", err)
		}
	})
	t.Run("not renewed", func(t *testing.T) {
		r := newRig(t, nil)
		r.add(inbox.StartAll)
		r.late(3, 2)
		r.Config.Lease = 30 * time.Millisecond
		r.Inboxes = losing{r.Inboxes}
		r.behind(func(src Source) Source { return stuck{src} })
		found, _ := r.audit(AuditOptions{Repair: true})
		if found.Error != errTakenOver.Error() {
			t.Errorf("the error is %q, want %q", found.Error, errTakenOver)
		}
	})
}

// losing is Inboxes whose lease another run has taken.
type losing struct{ Inboxes }

func (losing) RenewScan(context.Context, inbox.Scan, time.Duration) error { return inbox.ErrScanLost }

// stuck is a server that sends no body.
type stuck struct{ Source }

func (stuck) Bodies(ctx context.Context, _ []uint32, _ eachMessage) (imapsrc.Result, error) {
	select {
	case <-ctx.Done():
		return imapsrc.Result{}, ctx.Err()
	case <-time.After(10 * time.Second):
		return imapsrc.Result{}, errors.New("nobody has stopped it")
	}
}

// TestAuditRepairsBehindTheCursorAlone: after a rewind the next run registers what was missing, and
// everything before it.
func TestAuditRepairsBehindTheCursorAlone(t *testing.T) {
	r := newRig(t, nil)
	r.add(inbox.StartLatest)
	msgs := mails(5)
	r.put("INBOX", msgs...)
	r.run()
	fresh := mails(3)
	late := r.put("INBOX", fresh...)[1]
	restore := r.behind(func(src Source) Source { return hiding{src, late} })
	r.run()
	restore()
	in := r.stored()
	store := r.Inboxes
	r.Inboxes = &acting{Inboxes: store, before: func() { r.rewind(in.Folders[0]) }}
	found, _ := r.audit(AuditOptions{Repair: true})
	r.Inboxes = store
	if len(found.Folders[0].Missing) != 0 || found.Folders[0].Registered != 0 {
		t.Errorf("the audit found %+v; want nothing missing and nothing registered, that is the next run's",
			*found.Folders[0])
	}
	r.run()
	r.wantArrived(msgs, fresh)
}

// TestAuditRepairFails halfway: what was not registered is still missing, and reported.
func TestAuditRepairFails(t *testing.T) {
	r := newRig(t, nil)
	r.add(inbox.StartAll)
	msgs := r.late(14, 1, 2, 3, 4, 5, 6, 7, 8, 9)
	r.Queue = &failing{Queue: r.queue, page: 2}
	found, _ := r.audit(AuditOptions{Repair: true})
	wantCounts(t, found.Folders[0], map[Account]int{AsForwarded: 5, AsMissing: 5})
	if found.Folders[0].Registered != 4 || !strings.Contains(found.Error, "disk full") {
		t.Errorf("%d registered, error %q; want 4 and the reason", found.Folders[0].Registered, found.Error)
	}
	r.Queue = r.queue
	r.audit(AuditOptions{Repair: true})
	r.run()
	r.wantArrived(msgs)
}

// failing is a queue that rejects the nth page.
type failing struct {
	tasks.Queue
	page int
}

func (q *failing) Register(ctx context.Context, p tasks.Page) ([]tasks.Registration, error) {
	if q.page--; q.page == 0 {
		return nil, errors.New("disk full")
	}
	return q.Queue.Register(ctx, p)
}
