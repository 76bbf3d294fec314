package pass

import (
	"context"
	"errors"

	"postrider/internal/imapsrc"
	"postrider/internal/tasks"
)

// refused records why a message could not be fetched. A body that the server announces as larger
// than forward.max_size is handled like a message that the server describes as that large: it is
// skipped, or only its header is fetched, for a notice.
func (f *fetched) refused(why error) {
	var large *imapsrc.TooLargeError
	switch {
	case !errors.As(why, &large) || f.head:
		f.err = why
	case f.notice:
		f.head, f.announced = true, large.Size
	default:
		f.skip, f.announced = tooLarge(large.Size, large.Max), large.Size
	}
}

// tooLarge ends a claim whose message is found too large only now. If a recipient has the message
// or may have it, that is a failed attempt: the others must get the same.
func (d *deliverer) tooLarge(ctx context.Context, j *job, why string) (tasks.Status, error) {
	t := j.claim.Task
	if t.Begun() {
		return d.fail(ctx, j, t.Deliveries, errors.New(why))
	}
	return d.finish(ctx, j, tasks.Result{
		Status: tasks.Skipped, Skip: tasks.SkipTooLarge, Reason: why, Deliveries: t.Deliveries,
	})
}
