package sqlqueue

import (
	"testing"
	"time"

	"gorm.io/gorm"

	"postrider/internal/tasks"
)

// TestEnabledMeanwhile: an inbox is enabled after its abandoned claim was found. The claim stays,
// for the next one to take over.
func TestEnabledMeanwhile(t *testing.T) {
	onEach(t, func(t *testing.T, r registry) {
		q := New(r.DB)
		e := newExample(t, r, q)
		c := e.claim()
		ds := c.Task.Deliveries
		ds[0].Status = tasks.Sending
		must := func(err error) {
			t.Helper()
			if err != nil {
				t.Fatal(err)
			}
		}
		must(q.Sending(t.Context(), c, tasks.Form{Mode: "redirect"}, ds))
		must(q.Disable(t.Context(), tasks.By{Who: "op"}, e.inbox))
		r.age(t, 2*time.Hour)
		var ids []int64
		must(q.db.View(t.Context(), func(tx *gorm.DB) (err error) {
			ids, err = q.abandoned(tx)
			return err
		}))
		for _, step := range []struct {
			active int
			want   tasks.Status
		}{{1, tasks.InProgress}, {0, tasks.Uncertain}} {
			r.exec(t, `UPDATE monitored_emails SET is_active = ? WHERE id = ?`, step.active, e.inbox)
			must(q.db.Change(t.Context(), func(tx *gorm.DB, now time.Time) error {
				_, err := q.endAbandoned(tx, now, ids)
				return err
			}))
			got, err := q.Get(t.Context(), c.Task.ID)
			must(err)
			if got.Status != step.want || len(ids) != 1 {
				t.Errorf("active %d: the task is %s, of %d abandoned ones; want %s, of one",
					step.active, got.Status, len(ids), step.want)
			}
		}
	})
}
