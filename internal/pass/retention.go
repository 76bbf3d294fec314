package pass

import (
	"context"
	"errors"
	"time"

	"postrider/internal/inbox"
	"postrider/internal/text"
)

// Retention is how long the registry keeps what has ended; 0 is for ever.
type Retention struct {
	Forwarded time.Duration // tasks, since they were forwarded
	Events    time.Duration // lines of the audit trail
}

// portion is how many rows one transaction deletes. It is short, so that other runs are not held
// up.
const portion = 500

// expireFor is how long a pass deletes at most. In a registry that has grown for years the first
// pass would take too long otherwise.
const expireFor = time.Minute

// Tidy ends and deletes what is old, as a pass does at its end: of these inboxes what Retention
// does not keep, and what workers that died left behind in disabled inboxes.
func (p *Pass) Tidy(ctx context.Context, boxes []inbox.Inbox) {
	p.expire(ctx, boxes, make([]InboxReport, len(boxes)))
}

// expire deletes what is old enough, of the inboxes that this pass worked on, and ends what is
// abandoned. What it cannot do, or not in time, waits for the next pass. That is an error only when
// the database is gone.
func (p *Pass) expire(ctx context.Context, boxes []inbox.Inbox, reports []InboxReport) {
	keep := p.Config.Retention
	if p.Config.DryRun {
		return
	}
	last, until := -1, p.Now().Add(expireFor)
	var worked []int64
	for i, in := range boxes {
		if reports[i].Busy == "" {
			last, worked = i, append(worked, in.ID)
		}
	}
	if last < 0 {
		return
	}
	expire := func() (int, error) { return p.Queue.Expire(ctx, worked, keep.Forwarded, portion) }
	expireEvents := func() (int, error) { return p.Queue.ExpireEvents(ctx, keep.Events, portion) }
	err := errors.Join(p.endAbandoned(ctx),
		p.portions(ctx, until, keep.Forwarded, expire),
		p.portions(ctx, until, keep.Events, expireEvents))
	if err == nil {
		return
	}
	p.Log.Warn("not all expired tasks and events could be deleted; the next pass continues", "error", err)
	if _, err := p.Queue.DueOf(ctx, worked[:1]); err != nil && ctx.Err() == nil {
		reports[last].Error = "the database is not available: " + text.Error(err)
	}
}

// endAbandoned ends what workers left behind in disabled inboxes: equal messages may wait for it.
func (p *Pass) endAbandoned(ctx context.Context) error {
	if ctx.Err() != nil {
		return nil
	}
	n, err := p.Queue.EndAbandoned(ctx)
	if n > 0 {
		p.Log.Warn("tasks of disabled inboxes are uncertain: their workers crashed while sending them", "tasks", n)
	}
	if ctx.Err() != nil {
		return nil
	}
	return err
}

// portions deletes until nothing is left that is older than age, or the time is up, or ctx ends.
func (p *Pass) portions(ctx context.Context, until time.Time, age time.Duration, remove func() (int, error)) error {
	for n := portion; age > 0 && n == portion && ctx.Err() == nil && p.Now().Before(until); {
		var err error
		if n, err = remove(); err != nil && ctx.Err() == nil {
			return err
		}
	}
	return nil
}
