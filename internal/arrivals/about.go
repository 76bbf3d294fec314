package arrivals

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"postrider/internal/bounce"
	"postrider/internal/tasks"
	"postrider/internal/text"
)

// statement is what a report says of one delivery.
type statement struct {
	task      int64
	recipient string // of the delivery
	arrival   tasks.Arrival
	earlier   bool // it is about an attempt before the task was requeued
}

func stated(t tasks.Task, d tasks.Delivery, f bounce.Fate) statement {
	a := arrivalOf(f, d.Recipient)
	return statement{t.ID, d.Recipient, a, t.Predates(a, d)}
}

// about finds the deliveries that a report is about. why says why there are none.
func (b *Book) about(ctx context.Context, r bounce.Report) (about []statement, why string, err error) {
	if b.cfg.Signer != nil {
		return b.byToken(ctx, r)
	}
	return b.byMessageID(ctx, r)
}

// byToken finds the one delivery that a token names.
func (b *Book) byToken(ctx context.Context, r bounce.Report) ([]statement, string, error) {
	ref, err := b.token(r)
	if err != nil {
		return nil, "it is not used, because " + refused[err], nil
	}
	t, err := b.queue.Get(ctx, ref.Task)
	if errors.Is(err, tasks.ErrNotFound) {
		return nil, fmt.Sprintf("task %d, which it is about, is no longer in the registry", ref.Task), nil
	}
	if err != nil {
		return nil, "", err
	}
	i := slices.IndexFunc(t.Deliveries, func(d tasks.Delivery) bool { return ref.Is(d.Recipient) })
	if i < 0 {
		return nil, fmt.Sprintf("the recipient that it is about is no longer a recipient of task %d", t.ID), nil
	}
	d := t.Deliveries[i]
	if !tasks.Reached(t.Deliveries[i : i+1]) {
		return nil, fmt.Sprintf("task %d: the delivery to %s is now %s; the report is not used",
			t.ID, d.Recipient, d.Status), nil
	}
	fates := r.Fates
	others := func(f bounce.Fate) bool { return !ref.Is(f.Original) && !ref.Is(f.Recipient) }
	if own := slices.DeleteFunc(slices.Clone(fates), others); len(own) > 0 {
		fates = own // else the recipient is an alias, and they are about its members
	}
	// A requeue does not repeat what was delivered before it, so a report about that counts.
	current := d.DeliveredAt == nil || d.DeliveredAt.After(t.QueuedAt)
	var out []statement // the one that says most
	for _, f := range fates {
		s := stated(t, d, f)
		s.earlier = s.earlier || current && !ref.QueuedAt(t.QueuedAt)
		if len(out) == 0 || s.arrival.Beyond(out[0].arrival) {
			out = []statement{s}
		}
	}
	return out, "it names no recipient", nil
}

// refused says what is wrong with a token.
var refused = map[error]string{
	bounce.ErrNotOurs: "it was not sent to one of our reverse-paths",
	bounce.ErrForged:  "its token is forged or damaged",
	bounce.ErrExpired: "its token has expired (bounces.max_age)",
}

// token returns the first valid token in a report. If there is none, the error is a key of refused:
// ErrExpired if a token has expired, else ErrForged if one is forged.
func (b *Book) token(r bounce.Report) (bounce.Ref, error) {
	closest := bounce.ErrNotOurs
	for _, addr := range r.Addresses {
		ref, err := b.cfg.Signer.Read(addr)
		if err == nil {
			return ref, nil
		}
		if errors.Is(err, bounce.ErrExpired) ||
			errors.Is(err, bounce.ErrForged) && !errors.Is(closest, bounce.ErrExpired) {
			closest = err
		}
	}
	if r.EnvelopeID != "" {
		if ref, err := b.cfg.Signer.ReadToken(r.EnvelopeID); err == nil {
			return ref, nil
		}
	}
	return bounce.Ref{}, closest
}

// byMessageID finds deliveries of the newest task that went out with the original's Message-ID to
// the recipients of the report.
func (b *Book) byMessageID(ctx context.Context, r bounce.Report) (about []statement, why string, _ error) {
	why = "no message went out with its Message-ID to its recipient"
	if r.MessageID == "" || len(r.Fates) == 0 {
		return nil, "it does not say which message and which recipient it is about", nil
	}
	ids, err := b.queue.SentAs(ctx, r.MessageID, b.cfg.MaxAge)
	if err != nil {
		return nil, "", err
	}
	left := r.Fates
	for _, id := range ids {
		t, err := b.queue.Get(ctx, id)
		if errors.Is(err, tasks.ErrNotFound) { // purged meanwhile
			continue
		}
		if err != nil {
			return nil, "", err
		}
		left = slices.DeleteFunc(slices.Clone(left), func(f bounce.Fate) bool {
			d, ok := deliveryTo(t, f)
			if ok {
				about = append(about, stated(t, d, f))
			}
			return ok
		})
	}
	return about, why, nil
}

// deliveryTo is the recipient of a task that a fate is about.
func deliveryTo(t tasks.Task, f bounce.Fate) (tasks.Delivery, bool) {
	for _, d := range t.Deliveries {
		if tasks.Reached([]tasks.Delivery{d}) && f.Is(d.Recipient) {
			return d, true
		}
	}
	return tasks.Delivery{}, false
}

var statuses = map[bounce.Action]tasks.ArrivalStatus{
	bounce.Failed: tasks.Bounced, bounce.Delayed: tasks.Delayed, bounce.Delivered: tasks.Confirmed,
	bounce.Relayed: tasks.Relayed, bounce.Expanded: tasks.Relayed, bounce.Complained: tasks.Complained,
}

func arrivalOf(f bounce.Fate, recipient string) tasks.Arrival {
	return tasks.Arrival{
		Status: statuses[f.Action], Code: f.Code, Enhanced: f.Status, Reply: f.Reply, Remote: f.Remote,
		Target: f.Target(recipient), At: f.At,
	}
}

// record writes the statements into the registry.
func (b *Book) record(ctx context.Context, about []statement) error {
	for _, s := range about {
		if s.earlier {
			continue
		}
		changed, err := b.queue.Arrived(ctx, b.cfg.Worker, s.task, s.recipient, s.arrival)
		switch {
		case errors.Is(err, tasks.ErrNotFound): // purged, or decided again, meanwhile
		case err != nil:
			return err
		case changed:
			b.log.Info("a report says what became of a delivery",
				"task", s.task, "as", string(s.arrival.Status), "recipient", s.recipient)
		}
	}
	return nil
}

// enough is how many deliveries a sentence names.
const enough = 5

func sentence(about []statement) string {
	var parts []string
	for _, s := range about {
		part := fmt.Sprintf("task %d %s: %s", s.task, s.arrival.Status, s.arrival.Line(s.recipient))
		if s.earlier {
			part += " (about an attempt before the task was requeued, not recorded)"
		}
		parts = append(parts, part)
	}
	return strings.Join(text.Some(parts, enough), "; ")
}

// nothing returns what an unused report says.
func nothing(r bounce.Report) string {
	var parts []string
	for _, f := range r.Fates[:min(len(r.Fates), enough)] {
		parts = append(parts, fmt.Sprintf("%s %s", text.Line(f.Recipient), f.Action))
	}
	if len(parts) == 0 {
		return ""
	}
	return " (it says: " + strings.Join(parts, ", ") + ")"
}
