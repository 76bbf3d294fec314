package tasks

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"postrider/internal/text"
)

// Command is what an operator does to tasks.
type Command struct {
	From  []Status // it is for tasks in these states
	Meant []Status // those of them that are meant when the operator does not say which
	Ended bool     // its ages count from the end of a task, not from its registration

	// Bounced are the states that --bounced selects. Tasks in the states OnlyBounced are changed
	// only if a delivery bounced.
	Bounced, OnlyBounced []Status

	do func(q Changer, ctx context.Context, by By, ids ...int64) (int, error)
}

// failed are the states of tasks whose message a recipient did not get, or may not have got.
var failed = []Status{Error, Uncertain, Dead}

// RetryCommand requeues tasks.
func RetryCommand() Command {
	return Command{
		From: FromByOperator(Received), Meant: failed,
		Bounced: []Status{Forwarded, Dead}, OnlyBounced: []Status{Forwarded}, do: Changer.Requeue,
	}
}

// SkipCommand ends tasks without forwarding them.
func SkipCommand() Command {
	return Command{From: FromByOperator(Skipped), Meant: failed, do: Changer.Skip}
}

// DeliveredCommand says that the message of an uncertain task arrived.
func DeliveredCommand() Command {
	return Command{From: FromByOperator(Forwarded), Meant: FromByOperator(Forwarded), do: Changer.Resolve}
}

// NotDeliveredCommand requeues tasks, but only uncertain ones.
func NotDeliveredCommand() Command {
	c := DeliveredCommand()
	c.do = Changer.Requeue
	return c
}

// PurgeCommand deletes tasks.
func PurgeCommand() Command {
	return Command{From: Purgeable, Meant: []Status{Forwarded}, Ended: true, do: Changer.Purge}
}

// Fits reports whether the command may change the task.
func (c Command) Fits(t Task) bool { return slices.Contains(c.From, t.Status) && !c.arrived(t) }

// arrived reports whether the command changes such a task only if it bounced, and this one did not.
func (c Command) arrived(t Task) bool {
	return slices.Contains(c.OnlyBounced, t.Status) && !t.HasBounced()
}

// states names the states that the command is for.
func (c Command) states() string {
	names := text.Strings(c.From)
	for i, s := range c.From {
		if slices.Contains(c.OnlyBounced, s) {
			names[i] += " and bounced"
		}
	}
	return strings.Join(names, ", ")
}

// Select completes an operator's filter: without a status it selects Meant, or Bounced, and Ended
// says from when ages count. A state that the command cannot change is an error.
func (c Command) Select(f Filter) (Filter, error) {
	for _, s := range f.Statuses {
		if !slices.Contains(c.From, s) {
			return f, fmt.Errorf("is not for tasks that are %s, but for %s", s, c.states())
		}
	}
	only := slices.ContainsFunc(f.Statuses, func(s Status) bool { return slices.Contains(c.OnlyBounced, s) })
	switch {
	case only && !f.Bounced:
		return f, fmt.Errorf("is for tasks that are %s only with --bounced",
			strings.Join(text.Strings(c.OnlyBounced), ", "))
	case len(f.Statuses) == 0 && f.Bounced:
		f.Statuses = c.Bounced
	case len(f.Statuses) == 0:
		f.Statuses = c.Meant
	}
	if c.Ended {
		f.Ended, f.Registered = f.Registered, 0
	}
	return f, nil
}
