package sqlqueue

import (
	"context"
	"slices"
	"time"

	"gorm.io/gorm"

	"postrider/internal/db"
	"postrider/internal/tasks"
)

// Reserve implements tasks.Queue.
func (q *Queue) Reserve(ctx context.Context, r tasks.Receipt, res tasks.Reservation) (ds []tasks.Delivery, _ error) {
	c := &change{receipt: r, target: tasks.InProgress}
	err := q.underReceipt(ctx, c, func(tx *gorm.DB, now time.Time) (bool, error) {
		held, err := update(tx, sqlHold, touched(now, []int64{r.TaskID}, []string{r.Token})...)
		if err != nil || !held {
			return false, err
		}
		ds, err = q.reserve(tx, now, r, res)
		return true, err
	})
	if err != nil {
		return nil, wrap(err, "task %d: record its decision", r.TaskID)
	}
	return ds, nil
}

func (q *Queue) reserve(tx *gorm.DB, now time.Time, r tasks.Receipt, res tasks.Reservation) ([]tasks.Delivery, error) {
	t, err := taskByID(tx, r.TaskID)
	if err != nil {
		return nil, err
	}
	own, waiting, err := around(tx, []int64{r.TaskID})
	if err != nil {
		return nil, err
	}
	before := own[r.TaskID]
	t.Deliveries = before
	if res.Identity != nil {
		if err := identify(tx, &t, *res.Identity); err != nil {
			return nil, err
		}
	}
	if d := res.Decision; d != nil && !t.Begun() {
		if err := redecide(tx, now, r, &t, waiting, d); err != nil {
			return nil, err
		}
	}
	t.Revision = res.Revision
	o, err := ownersOf(tx, keysOf(t, res.Dedupe), q.db.Share)
	if err != nil {
		return nil, err
	}
	o.own(&t, res.Dedupe)
	if err := o.save(tx); err != nil {
		return nil, err
	}
	changed := slices.DeleteFunc(slices.Clone(t.Deliveries), func(d tasks.Delivery) bool {
		return slices.Contains(before, d)
	})
	if err := upsert(tx, deliveryRows(t.ID, changed, now)); err != nil {
		return nil, err
	}
	id, date := t.Identity, storable(t.Identity.Date)
	return t.Deliveries, db.Run(tx, sqlReserved, id.Fingerprint, t.Read,
		cut(id.MessageID), cut(id.Subject), cut(id.Sender), db.OrZero(&date), id.Size,
		t.Revision, db.Cut(t.Route, 255), t.Priority, t.Keep, t.ID)
}

// identify records what message the task is of. The ledger knows it by its content from then on,
// unless only the header was read.
func identify(tx *gorm.DB, t *tasks.Task, id tasks.Identity) error {
	if err := db.Run(tx, sqlReadSeen, id.Fingerprint, t.Identity.Fingerprint, t.ID); err != nil {
		return err
	}
	t.Read = t.Read || id.Fingerprint != t.Identity.Fingerprint
	t.Identity = id
	return nil
}

// redecide replaces the recipients of a task: those who stay keep their history, and those who are
// no longer among them are given up.
func redecide(
	tx *gorm.DB, now time.Time, r tasks.Receipt, t *tasks.Task, waiting []deliveryRow, d *tasks.Decision,
) error {
	before := t.Deliveries
	t.Route, t.Priority, t.Keep, t.Deliveries = d.Route, d.Priority, d.Keep, tasks.Decided(d)
	var gone []string
	for _, old := range before {
		i := slices.IndexFunc(t.Deliveries, func(d tasks.Delivery) bool { return d.Recipient == old.Recipient })
		if i >= 0 {
			t.Deliveries[i] = old
		} else {
			gone = append(gone, old.Recipient)
		}
	}
	for _, n := range d.Notes {
		if err := noteOnce(tx, now, t.ID, r.Worker, n); err != nil {
			return err
		}
	}
	if len(gone) == 0 {
		return nil
	}
	given := map[int64][]string{t.ID: gone}
	if err := giveUp(tx, given); err != nil {
		return err
	}
	if err := db.Run(tx, sqlDropDeliveries, t.ID, gone); err != nil {
		return err
	}
	return wake(tx, now, waiting, given)
}
