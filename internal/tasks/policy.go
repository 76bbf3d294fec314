package tasks

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"postrider/internal/text"
)

// Policy says how long and how often a message is tried.
type Policy struct {
	MaxAttempts   int
	GiveUpAfter   time.Duration // since the task was queued
	Base, Max     time.Duration // of the backoff
	MaxLostLeases int
	Hold          bool           // an unknown outcome waits for an operator instead of being sent again
	Jitter        func() float64 // in [0, 1)
}

// Backoff is the pause after the nth failed attempt (n from 1): base, doubled each time up to max,
// times a random factor in 1 ± 0.3 that keeps tasks from coming back all at once.
func (p Policy) Backoff(n int) time.Duration {
	d := float64(p.Base) * math.Pow(2, float64(min(max(n, 1), 60)-1))
	return time.Duration(min(d, float64(p.Max)) * (0.7 + 0.6*p.Jitter()))
}

// Settle decides the status of a task after an attempt, from its deliveries. Status Received means
// that it only waits for deliveries of other tasks: release it. Deliveries that are given up become
// failed, except those whose outcome is unknown: an operator has to decide about them.
func (p Policy) Settle(t Task, now time.Time, ds []Delivery) Result {
	res := Result{Deliveries: ds}
	open := filter(ds, func(d Delivery) bool { return d.Status == Sending || d.ToSend() })
	failed := filter(ds, func(d Delivery) bool { return d.Status == Failed })
	unknown := filter(ds, func(d Delivery) bool { return d.Status == Sending })
	givesUp := len(open) > 0 && p.exhausted(t, now)
	if givesUp {
		open = giveUp(ds)
	}
	waits := slices.ContainsFunc(ds, Delivery.Waits)
	switch {
	case len(unknown) > 0 && (p.Hold || givesUp):
		res.Status = Uncertain
		res.Reason = "the outcome is not known: " + lines(unknown)
		if !p.Hold {
			res.Reason = gaveUp(t, now) + res.Reason
		}
		if givesUp {
			failed = append(open, failed...)
		}
		if len(failed) > 0 {
			res.Reason += "; refused or given up: " + lines(failed)
		}
	case len(open) > 0 && !givesUp:
		res.Status, res.Delay = Error, p.Backoff(t.Attempts)
		res.Reason = lines(append(open, failed...))
	case waits:
		res.Status, res.Reason = Received, waitsFor(ds)
	case givesUp:
		res.Status = Dead
		res.Reason = gaveUp(t, now) + lines(append(open, failed...))
	case len(failed) > 0:
		res.Status = Dead
		res.Reason = notSent(failed) + lines(failed)
	case len(ds) > 0 && !Reached(ds):
		res.Status, res.Skip, res.Reason = Skipped, SkipDuplicate, duplicateOf(ds)
	default:
		res.Status = Forwarded
	}
	return res
}

// notSent says why the deliveries failed: the relay refused them, or postrider did not send them,
// for example because the recipient is suspended.
func notSent(failed []Delivery) string {
	switch refused := filter(failed, func(d Delivery) bool { return d.Code != 0 }); len(refused) {
	case len(failed):
		return "permanently refused: "
	case 0:
		return "not sent: "
	}
	return "refused or not sent: "
}

// giveUp marks the deliveries that are to be sent as failed, and returns them.
func giveUp(ds []Delivery) []Delivery {
	var out []Delivery
	for i := range ds {
		if d := &ds[i]; d.ToSend() {
			out = append(out, *d)
			d.Status = Failed
		}
	}
	return out
}

// Fail is Settle for an attempt that did not reach the relay: the message could not be fetched,
// read, decided, composed or signed.
func (p Policy) Fail(t Task, now time.Time, ds []Delivery, err error) Result {
	res := Result{Status: Error, Delay: p.Backoff(t.Attempts), Reason: err.Error(), Deliveries: ds}
	if !p.exhausted(t, now) {
		return res
	}
	res.Status, res.Delay, res.Deliveries = Dead, 0, withdrawn(ds)
	if stands(ds, Sending) {
		res.Status = Uncertain
	}
	res.Reason = gaveUp(t, now) + res.Reason
	lacks := func(d Delivery) bool { return d.Status != Delivered && d.Status != Duplicated }
	if without := filter(ds, lacks); len(without) > 0 {
		res.Reason += "; not known to have it: " + lines(without)
	}
	return res
}

// withdrawn marks as failed the deliveries of a task that will not be sent any more.
func withdrawn(ds []Delivery) []Delivery {
	ds = slices.Clone(ds)
	for i := range ds {
		if ds[i].Status == Pending {
			ds[i].Status, ds[i].DuplicateOf = Failed, 0
		}
	}
	return ds
}

// Vanished is the end of a task whose message is no longer there. When some recipients have it, the
// task is dead and names those who do not. When an outcome is unknown, or was unknown before an
// operator requeued the task, an operator has to decide: the message may have arrived, and cannot
// be sent again.
func Vanished(t Task, why string) Result {
	res := Result{
		Status: Skipped, Skip: SkipVanished, Reason: "vanished: " + why,
		Deliveries: t.Deliveries, Missed: &Place{t.Epoch, t.UID},
	}
	missing := filter(t.Deliveries, func(d Delivery) bool { return d.Status == Pending || d.Status == Failed })
	switch {
	case stands(t.Deliveries, Sending):
		res.Status, res.Skip = Uncertain, ""
		res.Reason = "it may have arrived, and cannot be sent again: " + why
	case stands(t.Deliveries, Delivered):
		res.Status, res.Skip, res.Deliveries = Dead, "", withdrawn(t.Deliveries)
		res.Reason = fmt.Sprintf("its message is gone (%s), and not all have it: %s", why, lines(missing))
	case t.InDoubt:
		res.Status, res.Skip, res.Deliveries = Dead, "", withdrawn(t.Deliveries)
		res.Reason = fmt.Sprintf("its message is gone (%s) and cannot be sent again; an earlier attempt "+
			"may have delivered it, so it is unknown who has it: %s", why, strings.Join(Without(t.Deliveries), ", "))
	}
	return res
}

// fairAttempts is how often a message is tried before its age counts: it may have grown old while
// the relay was down.
const fairAttempts = 5

func (p Policy) exhausted(t Task, now time.Time) bool {
	return t.Attempts >= p.MaxAttempts ||
		(t.Attempts >= fairAttempts && now.Sub(t.QueuedAt) >= p.GiveUpAfter)
}

// Poisoned is how a task ends that lost its lease too often: dead, or uncertain when its worker was
// sending it.
func Poisoned(t Task) Result {
	res := Result{Status: Dead, Deliveries: t.Deliveries}
	res.Reason = fmt.Sprintf("workers crashed repeatedly while processing it (%s, the last by %s); "+
		"to try again: `postrider task retry %d`", text.Count(t.LostLeases, "lost lease"), t.Worker, t.ID)
	if stands(t.Deliveries, Sending) {
		res.Status, res.Reason = Uncertain, "it may have arrived: "+res.Reason
	} else {
		res.Deliveries = withdrawn(t.Deliveries)
	}
	return res
}

// Abandoned is how a task of a disabled inbox ends whose worker was sending it and let its lease
// run out: no worker claims it again.
func Abandoned(t Task) Result {
	return Result{Status: Uncertain, Deliveries: t.Deliveries, Reason: fmt.Sprintf(
		"it may have arrived: %s was sending it when its lease ran out, and %s", t.Worker, Disabled)}
}

// Without are the recipients that do not have the message: it was deferred or refused, and nothing
// is unknown about that.
func Without(ds []Delivery) []string { return Recipients(ds, Pending, Failed) }
