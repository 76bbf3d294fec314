package pass

import (
	"cmp"
	"slices"
	"strings"

	"postrider/internal/forward"
	"postrider/internal/tasks"
)

// attempt is one try to send to the recipients that do not have the message yet.
type attempt struct {
	ds       []tasks.Delivery
	before   []tasks.Delivery // as they were
	at       map[string]int   // by recipient
	to       []string
	content  *forward.Content  // what goes out: what the transaction before sent, unless a connection cannot take it
	outcomes []forward.Outcome // what the relay said about this message
}

// newAttempt names the recipients first that were tried least often, so that none waits for ever: a
// limit may cut the attempt short.
func newAttempt(ds []tasks.Delivery) *attempt {
	a := &attempt{ds: slices.Clone(ds), before: ds, at: map[string]int{}, to: recipientsToDo(ds)}
	for i, d := range ds {
		a.at[d.Recipient] = i
	}
	slices.SortStableFunc(a.to, func(x, y string) int {
		return cmp.Compare(ds[a.at[x]].Attempts, ds[a.at[y]].Attempts)
	})
	return a
}

// recipientsToDo returns the recipients of an attempt.
func recipientsToDo(ds []tasks.Delivery) []string {
	var to []string
	for _, d := range ds {
		if d.Status == tasks.Sending || d.ToSend() {
			to = append(to, d.Recipient)
		}
	}
	return to
}

// untried reports whether a recipient has not been named to the relay yet, in any attempt.
func (a *attempt) untried() bool {
	return slices.ContainsFunc(a.ds, func(d tasks.Delivery) bool {
		return d.ToSend() && d.Attempts == 0
	})
}

func (a *attempt) sending(accepted []string) {
	for _, r := range accepted {
		a.ds[a.at[r]].Status = tasks.Sending
	}
}

// apply records everything that the relay said. A recipient without an outcome was not sent
// anything in this attempt.
func (a *attempt) apply(outcomes []forward.Outcome) {
	copy(a.ds, a.before)
	a.outcomes = outcomes
	for _, o := range outcomes {
		d := &a.ds[a.at[o.Recipient]]
		d.Attempts++
		d.Code, d.Reply = o.Code, strings.TrimSpace(o.Enhanced+" "+o.Reply)
		if o.Fix != "" {
			d.Reply += " (" + o.Fix + ")"
		}
		if d.Status == tasks.Sending && o.Status == forward.Deferred {
			continue // an earlier attempt may have delivered it: that stays true
		}
		d.Status = deliveryStatus[o.Status]
	}
}

var deliveryStatus = map[forward.Status]tasks.DeliveryStatus{
	forward.Accepted: tasks.Delivered,
	forward.Refused:  tasks.Failed,
	forward.Deferred: tasks.Pending,
	forward.Unknown:  tasks.Sending,
}
