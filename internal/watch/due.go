package watch

import (
	"context"
	"time"
)

// deliver has the due tasks of all inboxes delivered, and returns in how long to look again: when
// the next task is due, but soon in any case, for what others have registered or put back.
func (w *Watch) deliver(ctx context.Context) time.Duration {
	ids, queue := w.ids(), w.current().Tasks
	if len(ids) == 0 {
		return dueEvery
	}
	due, err := queue.DueOf(ctx, ids)
	for id := range due {
		if k := w.keeper(id); k != nil {
			k.deliver()
		}
	}
	var in time.Duration
	ok := false
	if err == nil {
		in, ok, err = queue.NextDue(ctx, ids)
	}
	if err != nil {
		w.failed(ctx, err)
		return dueEvery
	}
	w.trouble.over(looking)
	if !ok {
		return dueEvery
	}
	return min(in+atOnce, dueEvery)
}

// atOnce is in how long tasks have to be due, one after the other, to be looked up together.
const atOnce = 100 * time.Millisecond
