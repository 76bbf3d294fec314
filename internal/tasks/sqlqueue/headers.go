package sqlqueue

import (
	"context"
	"encoding/json"
	"slices"
	"time"

	"gorm.io/gorm"

	"postrider/internal/db"
	"postrider/internal/tasks"
)

// keepHeaders stores the headers of new tasks that events include.
func (b *batch) keepHeaders(tx *gorm.DB) error {
	var rows [][]any
	for _, t := range b.tasks {
		h := b.plan[t.entry].Entry.Header
		if h == nil {
			continue
		}
		text, err := json.Marshal(h)
		if err != nil {
			return err
		}
		rows = append(rows, []any{t.ID, b.now, text})
	}
	return db.Insert(tx, "monitored_emails_headers", "task_id, created_at, header", rows)
}

type headerRow struct {
	taskID int64
	text   []byte
}

func (r *headerRow) into() []any { return []any{&r.taskID, &r.text} }

// Headers are those of tasks, where they are known and can be read.
func (q *Queue) Headers(ctx context.Context, ids []int64) (map[int64]tasks.Header, error) {
	out := map[int64]tasks.Header{}
	for some := range slices.Chunk(ids, 500) {
		rows, err := db.Read(ctx, q.db, (*headerRow).into, sqlHeaders, some)
		if err != nil {
			return nil, wrap(err, "read headers of messages")
		}
		for _, r := range rows {
			var h tasks.Header
			if json.Unmarshal(r.text, &h) == nil {
				out[r.taskID] = h
			}
		}
	}
	return out, nil
}

// ExpireHeaders deletes the headers of tasks that ended longer than age ago, except those of which
// an event is still to be made, at most limit of them.
func (q *Queue) ExpireHeaders(ctx context.Context, age time.Duration, limit int) (n int, _ error) {
	err := q.db.Change(ctx, func(tx *gorm.DB, now time.Time) error {
		ids, err := db.Query(tx, db.Value[int64], sqlOldHeaders, now.Add(-age), now.Add(-age), limit)
		if n = len(ids); err != nil || n == 0 {
			return err
		}
		return db.Run(tx, sqlDeleteHeaders, ids)
	})
	return n, wrap(err, "delete headers of messages that ended long ago")
}
