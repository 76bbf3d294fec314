package sqlqueue

import (
	"context"
	"slices"
	"time"

	"gorm.io/gorm"

	"postrider/internal/db"
	"postrider/internal/tasks"
)

// Requeue implements tasks.Queue.
func (q *Queue) Requeue(ctx context.Context, by tasks.By, ids ...int64) (int, error) {
	return q.byOperator(ctx, by, "requeued", ids, sqlTakeAgain, tasks.FromByOperator(tasks.Received), requeue)
}

func requeue(tx *gorm.DB, now time.Time, id int64) error {
	if err := db.Run(tx, sqlDoubt, id, id); err != nil {
		return err
	}
	if err := db.Run(tx, sqlRequeueDeliveries, id, id); err != nil {
		return err
	}
	if err := db.Run(tx, sqlForgetArrivals, id, id); err != nil {
		return err
	}
	return again(tx, now, id)
}

// again lets a task begin again with all its attempts.
func again(tx *gorm.DB, now time.Time, id int64) error {
	if err := db.Run(tx, sqlForgetAttempts, id); err != nil {
		return err
	}
	return restart(tx, now, id)
}

// restart makes a task received again, to be decided again.
func restart(tx *gorm.DB, now time.Time, id int64) error {
	return db.Run(tx, sqlRestart, now.UnixMicro(), now, id)
}

// end ends a task.
func (q *Queue) end(
	tx *gorm.DB, now time.Time, id int64, status tasks.Status, skip tasks.SkipReason, reason string,
) error {
	if err := db.Run(tx, sqlEnd, status, skip, cut(reason), now, id); err != nil {
		return err
	}
	return q.noteEnd(tx, now, id, status)
}

// Skip implements tasks.Queue.
func (q *Queue) Skip(ctx context.Context, by tasks.By, ids ...int64) (int, error) {
	from := tasks.FromByOperator(tasks.Skipped)
	return q.byOperator(ctx, by, "skipped", ids, sqlTake, from, func(tx *gorm.DB, now time.Time, id int64) error {
		if err := q.end(tx, now, id, tasks.Skipped, tasks.SkipOperator, tasks.BySkip(by)); err != nil {
			return err
		}
		own, waiting, err := around(tx, []int64{id})
		if err != nil {
			return err
		}
		ds := own[id]
		if err := q.keep(tx, id, ds); err != nil {
			return err
		}
		return wake(tx, now, waiting, map[int64][]string{id: tasks.Settles(tasks.Skipped, ds)})
	})
}

// keep has a task own its recipients in its inbox and everywhere, unless another task does: an
// operator does not say for which scope.
func (q *Queue) keep(tx *gorm.DB, id int64, ds []tasks.Delivery) error {
	t, err := taskByID(tx, id)
	if err != nil {
		return err
	}
	t.Deliveries = ds
	keys := slices.Concat(keysOf(t, tasks.DedupeInbox), keysOf(t, tasks.DedupeAll))
	o, err := ownersOf(tx, keys, q.db.Share)
	if err != nil {
		return err
	}
	for _, k := range keys {
		o.take(k, id)
	}
	return o.save(tx)
}

// Resolve implements tasks.Queue. A task with recipients that do not have the message goes on: for
// those that were deferred, and to report those that were refused.
func (q *Queue) Resolve(ctx context.Context, by tasks.By, ids ...int64) (int, error) {
	from := tasks.FromByOperator(tasks.Forwarded)
	return q.byOperator(ctx, by, "resolved", ids, sqlTake, from, func(tx *gorm.DB, now time.Time, id int64) error {
		if err := db.Run(tx, sqlResolveDeliveries, now, id); err != nil {
			return err
		}
		own, waiting, err := around(tx, []int64{id})
		if err != nil {
			return err
		}
		ds := own[id]
		status := tasks.Forwarded
		if len(tasks.Without(ds)) > 0 {
			status = tasks.Received
			err = again(tx, now, id)
		} else {
			err = q.end(tx, now, id, status, "", "")
		}
		if err != nil {
			return err
		}
		return wake(tx, now, waiting, map[int64][]string{id: tasks.Settles(status, ds)})
	})
}

// Purge implements tasks.Queue. The ledger, the audit trail and who got which content stay.
func (q *Queue) Purge(ctx context.Context, by tasks.By, ids ...int64) (int, error) {
	do := func(tx *gorm.DB, now time.Time, id int64) error {
		t, err := taskByID(tx, id)
		if err != nil {
			return err
		}
		return purge(tx, now, tasks.PurgedAs(t.Status, t.Skip), []int64{id})
	}
	return q.byOperator(ctx, by, "purged", ids, sqlTake, tasks.Purgeable, do)
}

// byOperator changes those tasks that stand in one of the states and that take matches. Their
// receipts become stale.
func (q *Queue) byOperator(ctx context.Context, by tasks.By, what string, ids []int64, take string, from []tasks.Status,
	do func(tx *gorm.DB, now time.Time, id int64) error,
) (changed int, _ error) {
	from = slices.DeleteFunc(slices.Clone(from), func(s tasks.Status) bool { return !by.Means(s) })
	err := q.db.Change(ctx, func(tx *gorm.DB, now time.Time) error {
		var done []int64
		for _, id := range ids {
			taken, err := update(tx, take, touched(now, id, from)...)
			if err != nil {
				return err
			}
			if !taken {
				continue
			}
			done = append(done, id)
			if err := do(tx, now, id); err != nil {
				return err
			}
			if err := event(tx, now, id, by.Who, what, by.Detail()); err != nil {
				return err
			}
		}
		changed = len(done)
		return q.withdrawDisabled(tx, now, done)
	})
	return changed, wrap(err, "change tasks")
}

// Forget implements tasks.Queue.
func (q *Queue) Forget(ctx context.Context, who string, folderID, epoch int64, uids ...uint32) (int, error) {
	var ids []int64
	err := q.db.Change(ctx, func(tx *gorm.DB, now time.Time) (err error) {
		ids, err = db.Query(tx, db.Value[int64], sqlLost, folderID, epoch, uids)
		if err != nil || len(ids) == 0 {
			return err
		}
		for _, id := range ids {
			if err := event(tx, now, id, who, "forgotten", "deleted by something other than postrider"); err != nil {
				return err
			}
		}
		for _, query := range []string{sqlForget, sqlGiveUpAll} {
			if err := db.Run(tx, query, ids); err != nil {
				return err
			}
		}
		return q.requeueDuplicates(tx, now, who, ids)
	})
	return len(ids), wrap(err, "forget tasks of folder %d that something other than postrider deleted", folderID)
}

// requeueDuplicates requeues the duplicates of lost tasks, and wakes those that wait for one.
func (q *Queue) requeueDuplicates(tx *gorm.DB, now time.Time, who string, lost []int64) error {
	ids, err := db.Query(tx, db.Value[int64], sqlDuplicates, lost)
	if err != nil {
		return err
	}
	for _, id := range ids {
		taken, err := update(tx, sqlTake, touched(now, id, []tasks.Status{tasks.Skipped})...)
		if err != nil {
			return err
		}
		if !taken {
			continue
		}
		if err := requeue(tx, now, id); err != nil {
			return err
		}
		const why = "the task that it duplicated was deleted by something other than postrider"
		if err := event(tx, now, id, who, "requeued", why); err != nil {
			return err
		}
	}
	waiting, err := waitingFor(tx, lost)
	if err != nil {
		return err
	}
	return wake(tx, now, waiting, waitedFor(waiting))
}

// waitedFor are the recipients by the tasks that are waited for: all is settled when these are
// gone.
func waitedFor(waiting []deliveryRow) map[int64][]string {
	out := map[int64][]string{}
	for _, w := range waiting {
		out[w.DuplicateOf] = append(out[w.DuplicateOf], w.Recipient)
	}
	return out
}
