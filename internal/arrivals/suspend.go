package arrivals

import (
	"context"
	"fmt"
	"sync"
	"time"

	"postrider/internal/tasks"
)

// Review notes the recipients whose mail bounced too often since it was reviewed last, and forgets
// those that do not any more. Doing it twice changes nothing.
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
		case again && (n.Resumed != nil || b.cfg.Suspend && !n.Suspended):
			err = b.note(ctx, n.Recipient, count, n)
		case n.Resumed != nil && now.Sub(*n.Resumed) > b.cfg.Within, n.Resumed == nil && !n.Suspended && !again:
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

// tooMany are the recipients whose mail bounced too often within that time, with how often.
func (b *Book) tooMany(ctx context.Context, within time.Duration) (map[string]int, error) {
	counts, err := b.queue.Bounces(ctx, within, b.cfg.After)
	if err != nil {
		return nil, err
	}
	out := map[string]int{}
	for recipient, n := range counts {
		out[tasks.Mailbox(recipient)] += n
	}
	return out, nil
}

// since is tooMany for one recipient, since it was resumed.
func (b *Book) since(ctx context.Context, recipient string, age time.Duration) (int, bool, error) {
	counts, err := b.tooMany(ctx, min(max(age, 0), b.cfg.Within))
	n, ok := counts[recipient]
	return n, ok, err
}

func (b *Book) note(ctx context.Context, recipient string, count int, old *Noted) error {
	if err := b.store.note(ctx, recipient, count, b.cfg.Suspend, old); err != nil {
		return err
	}
	b.suspended.forget()
	what := "mail to a recipient bounces again and again"
	if b.cfg.Suspend {
		what += "; nothing more is sent to it"
	}
	b.log.Warn(what, "recipient", recipient, "bounces", count, "within", b.cfg.Within)
	return nil
}

// remembered is who is suspended, as it was read last.
type remembered struct {
	mu  sync.Mutex
	at  time.Time
	all map[string]Noted // by Mailbox; nil before it was read
}

// fresh is how long what was read is used. Somebody else may suspend a recipient.
const fresh = time.Minute

func (r *remembered) forget() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.all = nil
}

// get is what was read, or nil.
func (r *remembered) get(now time.Time) map[string]Noted {
	r.mu.Lock()
	defer r.mu.Unlock()
	if now.Sub(r.at).Abs() > fresh {
		return nil
	}
	return r.all
}

func (r *remembered) set(now time.Time, all map[string]Noted) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.at, r.all = now, all
}

// Suspended says why nothing is sent to a recipient, and how to change that. It is empty for one
// that is not suspended. A recipient that another process suspends is noticed within a minute, one
// that is resumed at once.
func (b *Book) Suspended(ctx context.Context, recipient string) (why string, _ error) {
	all := b.suspended.get(b.now())
	n, ok := all[tasks.Mailbox(recipient)]
	if all == nil || ok {
		var err error
		if all, err = b.read(ctx); err != nil {
			return "", err
		}
		n, ok = all[tasks.Mailbox(recipient)]
	}
	if !ok {
		return "", nil
	}
	return fmt.Sprintf("nothing is sent to it since %s, because its mail bounced %d times (%s); to lift that: postrider recipient resume %s",
		n.Since.Format(time.DateOnly), n.Bounces, n.Why, recipient), nil
}

// read reads who is suspended, and remembers it.
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
	b.suspended.set(b.now(), all)
	return all, nil
}
