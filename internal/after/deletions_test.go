package after

import (
	"slices"
	"testing"
	"time"

	"postrider/internal/inbox"
	"postrider/internal/outbox"
	"postrider/internal/tasks"
)

// TestDeletions: only what a worker will delete is announced, and not before delete_after has
// passed.
func TestDeletions(t *testing.T) {
	const delay = 2 * time.Hour
	ended := time.Date(2026, 2, 28, 12, 0, 0, 0, time.UTC)
	due, inTime := ended.Add(time.Hour), ended.Add(3*time.Hour)
	for name, c := range map[string]struct {
		change func(r *rig, task *tasks.Task)
		want   []time.Time
	}{
		"delete_after is longer now": {func(*rig, *tasks.Task) {}, []time.Time{ended.Add(delay)}},
		"delete_after is shorter now": {func(r *rig, _ *tasks.Task) {
			r.entries[0].VisibleAt = &inTime
		}, []time.Time{inTime}},
		"requeued": {func(_ *rig, task *tasks.Task) { task.Status = tasks.Received }, nil},
		"purged":   {func(_ *rig, task *tasks.Task) { *task = tasks.Task{} }, nil},
		"a recipient without it": {func(_ *rig, task *tasks.Task) {
			task.Deliveries[0].Status = tasks.Failed
		}, nil},
		"a notice was forwarded":      {func(_ *rig, task *tasks.Task) { task.Form.Mode = "notice" }, nil},
		"a route may match":           {func(_ *rig, task *tasks.Task) { task.Keep = tasks.KeepUndecided }, nil},
		"the inbox's own copy":        {func(_ *rig, task *tasks.Task) { task.Keep = tasks.KeepOwnCopy }, nil},
		"not allowed":                 {func(r *rig, _ *tasks.Task) { r.in.AllowDelete = false }, nil},
		"another action":              {func(r *rig, _ *tasks.Task) { r.entries[0].Action = "move:Done" }, nil},
		"an inbox that is not chosen": {func(r *rig, _ *tasks.Task) { r.entries[0].InboxID++ }, nil},
		"not wanted any more": {func(r *rig, _ *tasks.Task) {
			r.worker.Wants = func(outbox.Kind, string, string) (time.Duration, bool) { return delay, false }
		}, nil},
		"another inbox watches the folder": {func(r *rig, _ *tasks.Task) {
			r.others = []inbox.Inbox{{ID: 8, Address: "boss@firm.example", Folders: watches("INBOX")}}
		}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, 1)
			r.worker.Wants = func(outbox.Kind, string, string) (time.Duration, bool) { return delay, true }
			r.wants("delete", 1)
			r.entries[0].VisibleAt = &due
			task := r.tasks[1]
			task.FinishedAt = &ended
			c.change(r, &task)
			r.tasks[1] = task
			all, err := r.worker.Deletions(t.Context(), []inbox.Inbox{r.in})
			check(t, err)
			var got []time.Time
			for _, d := range all {
				got = append(got, d.At)
			}
			if !slices.Equal(got, c.want) {
				t.Errorf("deletions are at %v, want %v", got, c.want)
			}
		})
	}
}
