package tasks

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"
)

// Policy says how long and how often a message is tried.
type Policy struct {
	MaxAttempts   int
	GiveUpAfter   time.Duration // since the task was queued
	Base, Max     time.Duration // of the backoff
	MaxLostLeases int
	Hold          bool           // an unknown outcome waits for a person instead of being sent again
	Jitter        func() float64 // in [0, 1)
}

// Backoff is the pause after the nth failed attempt (n from 1): base, doubled each time up to max, times a random factor in
// 1 ± 0.3 that keeps a crowd of tasks from coming back at once.
func (p Policy) Backoff(n int) time.Duration {
	d := float64(p.Base) * math.Pow(2, float64(min(max(n, 1), 60)-1))
	return time.Duration(min(d, float64(p.Max)) * (0.7 + 0.6*p.Jitter()))
}

// Settle decides where a task goes after an attempt, from where its deliveries stand: forwarded when all accepted;
// dead, naming those who did not get it, when one was refused for good or given up on and none is pending; otherwise
// it is tried again, or waits for a person when an outcome is unknown and the policy says so. Deliveries that are
// given up on become failed. What is dead and nobody got leaves its place to a duplicate by another route, which may have other recipients.
func (p Policy) Settle(t Task, now time.Time, ds []Delivery) Result {
	res := Result{Deliveries: ds}
	var open, failed, unknown []string
	for _, d := range ds {
		switch d.Status {
		case Pending:
			open = append(open, d.line())
		case Sending:
			open, unknown = append(open, d.line()), append(unknown, d.line())
		case Failed:
			failed = append(failed, d.line())
		}
	}
	switch {
	case len(unknown) > 0 && p.Hold:
		res.Status = Uncertain
		res.Reason = "the outcome is not known: " + strings.Join(unknown, "; ")
	case len(open) > 0 && !p.exhausted(t, now):
		res.Status, res.Delay = Error, p.Backoff(t.Attempts)
		res.Reason = strings.Join(append(open, failed...), "; ")
	case len(open) > 0:
		res.Status = Dead
		res.Reason = fmt.Sprintf("given up after %d attempts in %s: %s", t.Attempts,
			now.Sub(t.QueuedAt).Round(time.Second), strings.Join(append(open, failed...), "; "))
		for i := range ds {
			if ds[i].Status == Pending {
				ds[i].Status = Failed
			}
		}
	case len(failed) > 0:
		res.Status = Dead
		res.Reason = "refused for good: " + strings.Join(failed, "; ")
	default:
		res.Status = Forwarded
	}
	res.Refused = res.Status == Dead && !Reached(ds)
	res.Yields = res.Refused
	return res
}

// Fail is Settle for an attempt that did not get as far as the relay: the message could not be fetched, or its spool not
// be written.
func (p Policy) Fail(t Task, now time.Time, err error) Result {
	res := Result{Status: Error, Delay: p.Backoff(t.Attempts), Reason: err.Error(), Route: t.Route}
	if p.exhausted(t, now) {
		res.Status, res.Delay, res.Yields = Dead, 0, !stands(t.Deliveries, Sending)
		res.Reason = fmt.Sprintf("given up after %d attempts in %s: %v", t.Attempts, now.Sub(t.QueuedAt).Round(time.Second), err)
	}
	return res
}

// stands reports whether one of the deliveries stands so.
func stands(ds []Delivery, is DeliveryStatus) bool {
	return slices.ContainsFunc(ds, func(d Delivery) bool { return d.Status == is })
}

// Reached reports whether somebody has the message, or may have it.
func Reached(ds []Delivery) bool { return stands(ds, Delivered) || stands(ds, Sending) }

// Without are the recipients that do not have the message: it was put off or refused, and nothing is unknown about that.
func Without(ds []Delivery) []string {
	var out []string
	for _, d := range ds {
		if d.Status == Pending || d.Status == Failed {
			out = append(out, d.Recipient)
		}
	}
	return out
}

// VanishedPrefix begins the reason of a task whose message is not there any more. Should it show up again, the task goes on.
const VanishedPrefix = "vanished: "

// Vanished is the end of a task whose message is not there any more: dead, naming those who did not get it, when others
// did. When an outcome is unknown it waits for a person: the message may have arrived, and cannot be sent again.
func Vanished(t Task, why string) Result {
	res := Result{
		Status: Skipped, Reason: VanishedPrefix + why, Route: t.Route, Yields: true,
		Missed: &Place{t.Epoch, t.UID},
	}
	switch {
	case stands(t.Deliveries, Sending):
		res.Status, res.Reason, res.Yields = Uncertain, MayHaveArrived+", and cannot be sent again: "+why, false
	case stands(t.Deliveries, Delivered):
		var without []string
		for _, d := range t.Deliveries {
			if d.Status != Delivered {
				without = append(without, d.line())
			}
		}
		res.Status = Dead
		res.Reason = fmt.Sprintf("its message is gone (%s), and not all have it: %s", why, strings.Join(without, "; "))
	}
	return res
}

// VanishedInDoubt is Vanished for a task whose outcome was unknown once, before a person had it sent again: it is not settled by that, and
// is dead, naming those who may lack it.
func VanishedInDoubt(t Task, why string) Result {
	res := Vanished(t, why)
	if res.Status == Skipped {
		res.Status = Dead
		res.Reason = fmt.Sprintf("its message is gone (%s) and cannot be sent again; an earlier attempt may have delivered it, so nobody knows who has it", why)
		if without := Without(t.Deliveries); len(without) > 0 {
			res.Reason += ": " + strings.Join(without, ", ")
		}
	}
	return res
}

// fairAttempts is how often a message is tried before its age counts: it may have grown old while the relay was down.
const fairAttempts = 5

func (p Policy) exhausted(t Task, now time.Time) bool {
	return t.Attempts >= p.MaxAttempts || (t.Attempts >= fairAttempts && now.Sub(t.QueuedAt) >= p.GiveUpAfter)
}

func (d Delivery) line() string {
	switch {
	case d.Reply == "":
		return d.Recipient
	case d.Code == 0:
		return d.Recipient + ": " + d.Reply
	}
	return fmt.Sprintf("%s: %d %s", d.Recipient, d.Code, d.Reply)
}
