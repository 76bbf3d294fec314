package sqlqueue

import (
	"context"
	"slices"
	"time"

	"gorm.io/gorm"

	"postrider/internal/db"
	"postrider/internal/tasks"
)

// Disable implements tasks.Queue. It is one transaction, however many tasks are live: either all
// tasks that wait for one of them are made due, or none.
func (q *Queue) Disable(ctx context.Context, by tasks.By, inboxID int64) error {
	err := q.db.Change(ctx, func(tx *gorm.DB, now time.Time) error {
		active, err := first(tx, db.Value[bool], sqlIsActive, inboxID)
		if err == nil {
			_, err = q.disable(tx, now, by.Who, inboxID)
		}
		if err != nil || !active {
			return err // disabled before: there is nothing to add to the trail
		}
		return db.Run(tx, sqlInboxEvent, inboxID, now, db.Cut(by.Who, 255), "disabled", cut(by.Detail()))
	})
	return wrap(err, "disable inbox %d", inboxID)
}

// portion is how many tasks one statement changes at most.
const portion = 500

// disable returns the live tasks. It changes the rows of the folders and of the live tasks, so that
// it conflicts with concurrent registrations and claims. The inbox comes last: MariaDB locks it
// when a task is changed.
func (q *Queue) disable(tx *gorm.DB, now time.Time, who string, inboxID int64) ([]int64, error) {
	if err := db.Run(tx, sqlChangeFolders, inboxID); err != nil {
		return nil, err
	}
	live, err := db.Query(tx, db.Value[int64], sqlLive, inboxID)
	if err != nil {
		return nil, err
	}
	slices.Sort(live)
	for part := range slices.Chunk(live, portion) {
		if err := db.Run(tx, sqlTouchLive, touched(now, part)...); err != nil {
			return nil, err
		}
		if err := q.withdraw(tx, now, who, part); err != nil {
			return nil, err
		}
	}
	return live, db.Run(tx, sqlDisable, now, inboxID)
}

// EndAbandoned implements tasks.Queue.
func (q *Queue) EndAbandoned(ctx context.Context) (ended int, _ error) {
	var ids []int64
	err := q.db.View(ctx, func(tx *gorm.DB) (err error) { // mostly there are none
		ids, err = q.abandoned(tx)
		return err
	})
	if err == nil && len(ids) > 0 {
		err = q.db.Change(ctx, func(tx *gorm.DB, now time.Time) (err error) {
			ended, err = q.endAbandoned(tx, now, ids)
			return err
		})
	}
	return ended, wrap(err, "end claims of disabled inboxes")
}

// abandoned are the tasks of disabled inboxes that are claimed, and whose leases have run out.
func (q *Queue) abandoned(tx *gorm.DB) (ids []int64, _ error) {
	disabled, err := db.Query(tx, db.Value[int64], sqlDisabled)
	if err != nil || len(disabled) == 0 {
		return nil, err
	}
	now, err := q.db.Now(tx)
	if err != nil {
		return nil, err
	}
	into := func(t *tasks.Task) []any { return []any{&t.ID, db.Micros(&t.VisibleAt)} }
	for some := range slices.Chunk(disabled, inboxesAtOnce) {
		claimed, err := db.Query(tx, into, sqlClaimed, some)
		if err != nil {
			return nil, err
		}
		for _, t := range claimed {
			if !t.VisibleAt.After(now) {
				ids = append(ids, t.ID)
			}
		}
	}
	return ids, nil
}

func (q *Queue) endAbandoned(tx *gorm.DB, now time.Time, ids []int64) (ended int, _ error) {
	for _, id := range ids {
		taken, err := update(tx, sqlTakeAbandoned, touched(now, id, now.UnixMicro())...)
		if err == nil && taken {
			ended++
			err = q.withdraw(tx, now, "", []int64{id})
		}
		if err != nil {
			return 0, err
		}
	}
	return ended, nil
}

// withdraw ends the claims of live tasks. When the relay may have the message, and its reply is not
// recorded yet, the claim ends only if its lease has run out. The tasks give up the recipients that
// they have not delivered to.
func (q *Queue) withdraw(tx *gorm.DB, now time.Time, who string, ids []int64) error {
	into := func(t *tasks.Task) []any { return []any{&t.ID, &t.Status, db.Micros(&t.VisibleAt), &t.Worker} }
	live, err := db.Query(tx, into, sqlStillLive, ids)
	if err != nil {
		return err
	}
	ds, err := deliveries(tx, ids)
	if err != nil {
		return err
	}
	var claimed, undecided []int64
	pending := map[int64][]string{}
	for _, t := range live {
		t.Deliveries = ds[t.ID]
		if t.Status == tasks.InProgress {
			switch sending := len(tasks.Recipients(t.Deliveries, tasks.Sending)) > 0; {
			case sending && t.VisibleAt.After(now):
				continue
			case sending:
				_, err = q.endLost(tx, t, tasks.Abandoned(t), now)
			default:
				claimed = append(claimed, t.ID)
				err = event(tx, now, t.ID, who, "released", tasks.Disabled)
			}
			if err != nil {
				return err
			}
		}
		undecided = append(undecided, t.ID)
		pending[t.ID] = tasks.Recipients(t.Deliveries, tasks.Pending)
	}
	if len(undecided) == 0 {
		return nil
	}
	if len(claimed) > 0 {
		if err := db.Run(tx, sqlUnclaim, now.UnixMicro(), claimed); err != nil {
			return err
		}
	}
	if err := db.Run(tx, sqlUndecide, undecided); err != nil {
		return err
	}
	return giveUpAndWake(tx, now, undecided, pending)
}

// withdrawDisabled has those of the tasks that wait in a disabled inbox give up the recipients that
// they have not delivered to, as withdraw does: their claims ended after Disable. Disable changes
// the rows of tasks before it changes the inbox, so it comes before this, or waits for it.
func (q *Queue) withdrawDisabled(tx *gorm.DB, now time.Time, ids []int64) error {
	if len(ids) == 0 {
		return nil
	}
	waiting, err := db.Query(tx, db.Value[int64], sqlOfDisabled, ids)
	if err != nil || len(waiting) == 0 {
		return err
	}
	return q.withdraw(tx, now, "", waiting) // none of them has a claim
}

// giveUpAndWake has tasks give up recipients, and makes the tasks that wait for these due.
func giveUpAndWake(tx *gorm.DB, now time.Time, ids []int64, given map[int64][]string) error {
	if err := giveUp(tx, given); err != nil {
		return err
	}
	waiting, err := waitingFor(tx, ids)
	if err != nil {
		return err
	}
	return wake(tx, now, waiting, given)
}
