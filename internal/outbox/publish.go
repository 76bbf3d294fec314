package outbox

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"
)

// manyTries is the number of tries after which the log names an event: about ten minutes. If the
// destination has no other events, this may be the only line about its failure.
const manyTries = 8

// batch sends one batch, and records what became of it.
func (d *Dispatcher) batch(ctx context.Context, t *Target, claims []Claim, before Destination) (verdict, error) {
	batch := make([]Message, len(claims))
	for i, c := range claims {
		batch[i] = Message{ID: c.EventID, Kind: c.Kind, Key: key(c.Entry), Body: c.Body}
	}
	after := context.WithoutCancel(ctx)
	within, cancel := context.WithTimeoutCause(after, t.Timeout, fmt.Errorf("no answer within %s", t.Timeout))
	defer cancel()
	defer context.AfterFunc(ctx, func() { time.AfterFunc(d.Grace, cancel) })()
	errs := t.Publisher.Publish(within, batch)
	v := judge(claims, errs, t.GiveUp, errors.Is(within.Err(), context.Canceled))
	if _, err := d.Store.Finish(after, v.outcomes...); err != nil {
		return v, err
	}
	for _, o := range v.outcomes {
		said := d.Log.With("destination", t.Name, "event", o.Claim.ID, "kind", o.Claim.Kind,
			"task", o.Claim.TaskID, "error", o.Error)
		switch {
		case o.Status == DeadLetter:
			said.Warn("an event was given up")
		case o.Status == Waiting && o.Claim.Attempts == manyTries && !o.Uncounted:
			said.Warn("an event was not taken in many tries; it is tried again")
		}
	}
	if before.LastError != "" && (v.taken > 0 || v.refused > 0 && v.fault == nil) {
		if err := d.works(after, t, before); err != nil {
			return v, err
		}
	}
	if v.fault != nil {
		return v, d.fault(after, t, v)
	}
	return v, nil
}

// key returns the key within which events stay in order.
func key(e Entry) string {
	if e.TaskID == 0 {
		return "inbox:" + strconv.FormatInt(e.InboxID, 10)
	}
	return "task:" + strconv.FormatInt(e.TaskID, 10)
}

// verdict is what became of a batch.
type verdict struct {
	outcomes []Outcome
	taken    int
	refused  int   // by the destination
	fault    error // of the destination; nil when it works
	// The event is the likely reason: the destination took others, or failed over this one before.
	event bool
	asked time.Duration // for how long it asks to be left alone
	gone  bool          // it wants no more events
}

// record records the pause that the destination asks for, or that it wants no more events.
func (v *verdict) record(err error) {
	var later *Later
	if errors.As(err, &later) {
		v.asked = max(v.asked, later.After)
	}
	if errors.Is(err, ErrGone) {
		v.fault, v.gone = err, true
	}
}

// judge decides from the errors of a batch. The first message that a destination failed to accept
// waits longer each time, in case it is the cause; those behind it do not. If stopped is set, this
// process is stopping, and the try does not count.
func judge(claims []Claim, errs []error, giveUp time.Duration, stopped bool) verdict {
	var v verdict
	for i, c := range claims {
		o := Outcome{Claim: c, Status: Done}
		var refused *Refused
		switch err := errs[i]; {
		case err == nil:
			v.taken++
		case errors.As(err, &refused):
			if !refused.Unsent {
				v.refused++
			}
			o.Status, o.Error = DeadLetter, err.Error()
		case stopped:
			o.Status, o.Error, o.Uncounted = Waiting, c.Error, true
		case v.fault != nil:
			o.Status, o.Error, o.Uncounted = Waiting, err.Error(), true
			v.record(err)
		default:
			v.fault, v.event = err, c.Attempts > 1
			o.Status, o.Error = Waiting, err.Error()
			v.record(err)
			if o.Uncounted = v.gone || v.asked > 0; o.Uncounted {
				break
			}
			o.Delay = min(firstPause<<min(c.Attempts-1, 20), LongestPause)
			if c.Age > giveUp {
				o.Status, o.Error = DeadLetter, "given up after "+giveUp.String()+": "+err.Error()
			}
		}
		v.outcomes = append(v.outcomes, o)
	}
	v.event = v.event || v.taken > 0
	return v
}

func (d *Dispatcher) works(ctx context.Context, t *Target, before Destination) error {
	news, err := d.Store.Works(ctx, t.Name)
	if news && before.Failures > 0 {
		d.Log.Warn("the destination works again", "destination", t.Name)
	}
	return err
}

func (d *Dispatcher) fault(ctx context.Context, t *Target, v verdict) error {
	news, err := d.Store.fault(ctx, t.Destination, v)
	switch {
	case !news:
	case v.gone:
		d.Log.Error("the destination wants no more events, so none are sent; to resume: postrider event enable "+t.Name,
			"destination", t.Name, "error", v.fault)
	default:
		d.Log.Warn("the destination failed; its events wait and are tried again",
			"destination", t.Name, "error", v.fault)
	}
	return err
}
