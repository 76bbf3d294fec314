package sqlqueue

import (
	"context"
	"time"

	"gorm.io/gorm"

	"postrider/internal/db"
	"postrider/internal/tasks"
)

// Requeue implements tasks.Queue.
func (q *Queue) Requeue(ctx context.Context, who string, ids ...int64) (int, error) {
	return q.byPerson(ctx, who, "requeued", ids, func(tx *gorm.DB, id, micros int64, now time.Time) (int64, error) {
		res := tx.Exec(sqlRequeue, micros, now, now, id, tasks.FromByPerson(tasks.Received))
		if res.Error != nil || res.RowsAffected == 0 {
			return 0, res.Error
		}
		if reached, err := forget(tx, id); err != nil || !reached {
			return 1, err
		}
		return 1, tx.Exec(sqlRequeueDeliveries, id).Error
	})
}

// Skip implements tasks.Queue.
func (q *Queue) Skip(ctx context.Context, who string, ids ...int64) (int, error) {
	return q.byPerson(ctx, who, "skipped", ids, func(tx *gorm.DB, id, _ int64, now time.Time) (int64, error) {
		res := tx.Exec(sqlEnd, tasks.Skipped, db.Cut(tasks.ByPersonPrefix+who, maxText), now, now, id, tasks.FromByPerson(tasks.Skipped))
		return res.RowsAffected, res.Error
	})
}

// Resolve implements tasks.Queue. A task with recipients that do not have the message goes on: for those that were
// put off, and to say who was refused.
func (q *Queue) Resolve(ctx context.Context, who string, ids ...int64) (int, error) {
	return q.byPerson(ctx, who, "resolved", ids, func(tx *gorm.DB, id, micros int64, now time.Time) (int64, error) {
		var without int
		if err := tx.Raw(sqlWithout, id).Scan(&without).Error; err != nil {
			return 0, err
		}
		end, args := sqlEnd, []any{tasks.Forwarded, "", now, now}
		if without > 0 {
			end, args = sqlRequeue, []any{micros, now, now}
		}
		res := tx.Exec(end, append(args, id, tasks.FromByPerson(tasks.Forwarded))...)
		if res.Error != nil || res.RowsAffected == 0 {
			return 0, res.Error
		}
		return 1, tx.Exec(sqlResolveDeliveries, now, id).Error
	})
}

func (q *Queue) byPerson(ctx context.Context, who, what string, ids []int64,
	change func(tx *gorm.DB, id, micros int64, now time.Time) (int64, error),
) (int, error) {
	changed := 0
	err := q.db.Tx(ctx, func(tx *gorm.DB) error {
		changed = 0
		micros, now, err := q.now(tx)
		if err != nil {
			return err
		}
		for _, id := range ids {
			rows, err := change(tx, id, micros, now)
			if err != nil {
				return err
			}
			if rows == 0 {
				continue
			}
			changed++
			if err := event(tx, now, id, who, what, "by a person"); err != nil {
				return err
			}
		}
		return nil
	})
	if changed > 0 {
		q.bell.ring()
	}
	return changed, wrap(err, "change tasks")
}
