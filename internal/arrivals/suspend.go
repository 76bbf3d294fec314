package arrivals

import (
	"context"
	"fmt"
	"maps"
	"time"

	"postrider/internal/address"
	"postrider/internal/text"
)

// Review notes the recipients whose mail bounces too often, and forgets those whose mail no longer
// does. Without Config.Suspend nobody stays suspended. Doing it twice changes nothing.
func (b *Book) Review(ctx context.Context) error {
	counts, err := b.tooMany(ctx, b.cfg.Within)
	if err != nil {
		return err
	}
	noted, now, err := b.store.Noted(ctx)
	if err != nil {
		return err
	}
	for i := range noted {
		n := &noted[i]
		count, again := counts[n.Recipient]
		delete(counts, n.Recipient)
		if again && n.Resumed != nil {
			if count, again, err = b.since(ctx, n.Recipient, now.Sub(*n.Resumed)); err != nil {
				return err
			}
		}
		switch {
		case again && n.Resumed != nil:
			err = b.note(ctx, n.Recipient, count, n)
		case again && n.Suspended != b.cfg.Suspend:
			err = b.store.suspend(ctx, *n, b.cfg.Suspend)
			b.suspended.Store(nil)
		case n.Resumed != nil && now.Sub(*n.Resumed) > b.cfg.Within,
			n.Resumed == nil && !again && (!n.Suspended || !b.cfg.Suspend):
			err = b.store.forget(ctx, *n)
		}
		if err != nil {
			return err
		}
	}
	for recipient, count := range counts {
		if err := b.note(ctx, recipient, count, nil); err != nil {
			return err
		}
	}
	return nil
}

// bounced is how often the mail of a recipient bounced.
type bounced struct {
	times int
	as    []string // the spellings of its address
}

// tooMany are the recipients whose mail bounced too often within that time, by address.Mailbox.
func (b *Book) tooMany(ctx context.Context, within time.Duration) (map[string]bounced, error) {
	counts, err := b.queue.Bounces(ctx, within)
	if err != nil {
		return nil, err
	}
	out := map[string]bounced{}
	for recipient, n := range counts {
		key := address.Mailbox(recipient)
		out[key] = bounced{out[key].times + n, append(out[key].as, recipient)}
	}
	maps.DeleteFunc(out, func(_ string, all bounced) bool { return all.times < b.cfg.After })
	return out, nil
}

// since is tooMany for one recipient. age is the time since it was resumed.
func (b *Book) since(ctx context.Context, recipient string, age time.Duration) (bounced, bool, error) {
	counts, err := b.tooMany(ctx, min(max(age, 0), b.cfg.Within))
	n, ok := counts[recipient]
	return n, ok, err
}

func (b *Book) note(ctx context.Context, recipient string, count bounced, old *Noted) error {
	if err := b.store.note(ctx, recipient, count, b.cfg.Suspend, old); err != nil {
		return err
	}
	b.suspended.Store(nil)
	what := "mail to a recipient bounces repeatedly"
	if b.cfg.Suspend {
		what += "; nothing more is sent to it"
	}
	b.log.Warn(what, "recipient", recipient, "bounces", count.times, "within", b.cfg.Within)
	return nil
}

// remembered are the suspended recipients as they were read at a time.
type remembered struct {
	at  time.Time
	all map[string]Noted // by address.Mailbox
}

// fresh is how long what was read is used. Another process may suspend a recipient in the meantime.
const fresh = time.Minute

// Suspended says why nothing is sent to a recipient, and how to change that. It is empty for one
// that is not suspended. If another process suspends a recipient, that is noticed within a minute.
// If it resumes one, that is noticed at once.
func (b *Book) Suspended(ctx context.Context, recipient string) (why string, _ error) {
	if !b.cfg.Suspend {
		return "", nil
	}
	key := address.Mailbox(recipient)
	if r := b.suspended.Load(); r != nil && b.now().Sub(r.at).Abs() <= fresh {
		if _, ok := r.all[key]; !ok {
			return "", nil
		}
	}
	all, err := b.read(ctx)
	n, ok := all[key]
	if err != nil || !ok {
		return "", err
	}
	return fmt.Sprintf("suspended since %s because its mail bounced %s (%s); "+
		"to send to it again: postrider recipient resume %s",
		n.Since.Format(time.DateOnly), text.Count(n.Bounces, "time"), n.Why, text.Arg(recipient)), nil
}

// read reads which recipients are suspended, and remembers them.
func (b *Book) read(ctx context.Context) (map[string]Noted, error) {
	noted, _, err := b.store.Noted(ctx)
	if err != nil {
		return nil, err
	}
	all := map[string]Noted{}
	for _, n := range noted {
		if n.Suspended {
			all[n.Recipient] = n
		}
	}
	b.suspended.Store(&remembered{b.now(), all})
	return all, nil
}
