package pass

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"postrider/internal/forward"
	"postrider/internal/limits"
	"postrider/internal/route"
	"postrider/internal/tasks"
)

// process works one claim off and returns where its task stands then, empty when it is somebody else's. An error is the
// database's.
func (r *running) process(ctx context.Context, j job) (tasks.Status, error) {
	switch {
	case ctx.Err() != nil:
		return j.release(ctx, "stopped")
	case r.down.err() != nil:
		return j.release(ctx, "the relay is at fault")
	}
	if why := r.limited(); why != nil {
		return j.wait(ctx, why)
	}
	to := j.decide()
	if of, err := j.reserve(ctx, to.via); err != nil || of != 0 {
		return j.ended(tasks.Skipped, err)
	}
	if len(to.ds) == 0 {
		return j.finish(ctx, to.end)
	}
	for _, n := range to.notes {
		if err := j.Queue.Note(context.WithoutCancel(ctx), j.claim.Receipt, n.event, n.detail); err != nil {
			return j.ended(tasks.InProgress, err)
		}
	}
	return j.send(ctx, to.via, to.ds)
}

// decided is by which route a message goes to whom.
type decided struct {
	via   string
	ds    []tasks.Delivery
	notes []note       // who does not get it besides, and why; none when that was decided before
	end   tasks.Result // how the task ends, when there are no ds
}

// note is a line for the audit trail.
type note struct{ event, detail string }

func (j job) decide() decided {
	if why, looped := forward.Looped(j.msg.Header, j.in.Address, j.Config.MaxReceived); looped { // a copy may be none of another inbox's
		return decided{end: tasks.Result{Status: tasks.Skipped, Reason: why, Route: j.claim.Route, Yields: true}}
	}
	if len(j.claim.Deliveries) > 0 {
		return decided{via: j.claim.Route, ds: j.claim.Deliveries}
	}
	d := j.Routes.Decide(j.mail())
	if len(d.Problems) > 0 { // without its words, which quote the message
		j.log.Warn("what a route captured from the message could not be used, or a contact it names has no email address (see `postrider route test --task`)", "task", j.claim.ID)
	}
	// It yields: the routes may have said otherwise when it was registered, or before it was put back, and may like a copy better.
	switch {
	case d.Skip:
		return decided{end: tasks.Result{Status: tasks.Skipped, Reason: d.Reason, Route: d.Route, Yields: true}}
	case len(d.To) == 0:
		return decided{end: tasks.Result{Status: tasks.SkippedNoMatch, Reason: d.Reason, Yields: true}}
	}
	ds := make([]tasks.Delivery, len(d.To))
	for i, to := range d.To {
		ds[i] = tasks.Delivery{Recipient: to, Status: tasks.Pending}
	}
	return decided{via: d.Route, ds: ds, notes: notesOf(d)}
}

func notesOf(d route.Decision) (notes []note) {
	if left := d.Note(); left != "" {
		notes = append(notes, note{"left_out", left})
	}
	if len(d.Problems) > 0 {
		notes = append(notes, note{"passed_over", strings.Join(d.Problems, "; ")})
	}
	return notes
}

// reserve tells the registry what a message is that it could not read before, and reserves one that is to be sent and is not yet
// reserved. via is empty when it is not to be sent. A header alone says nothing of what the message is equal to.
func (j job) reserve(ctx context.Context, via string) (duplicateOf int64, err error) {
	reserved := via == "" || j.claim.Route != ""
	if j.msg.HeaderOnly || reserved && j.msg.Fingerprint == j.claim.Fingerprint {
		return 0, nil
	}
	e := tasks.Entry{Route: via}
	describe(&e, j.msg)
	return j.Queue.Identify(context.WithoutCancel(ctx), j.claim.Receipt, e, j.Config.Dedupe)
}

// send makes one attempt for all recipients that do not have the message yet. When ctx ends, what is on the wire finishes.
func (j job) send(ctx context.Context, via string, ds []tasks.Delivery) (tasks.Status, error) {
	a := newAttempt(ds)
	a.stored = len(j.claim.Deliveries) > 0
	if j.msg.Body.Changed() {
		j.log.Info("line ends were made canonical; a signature over them may not survive", "task", j.claim.ID)
	}
	content, err := j.compose(ctx, via, j.begun(ds))
	if err != nil {
		return j.hand(ctx, err, a.known())
	}
	env := j.Relay.Envelope(j.msg, j.in.Address, a.to)
	for len(env.To) > 0 && err == nil {
		env.To, err = j.transact(ctx, via, a, env, content)
	}
	var relay *forward.Error
	var limit *limits.Reached
	switch {
	case errors.As(err, &limit):
		return j.cutShort(ctx, via, a, limit)
	case errors.As(err, &relay):
		if j.down.set(relay) {
			j.Log.Error("forwarding stops for this pass, the relay is at fault; what is not forwarded waits for the next", "error", relay)
		}
	case errors.Is(err, tasks.ErrLeaseLost):
		j.log.Warn("the task is not this run's any more, and nothing was sent", "task", j.claim.ID, "error", err)
		return "", nil
	case err != nil && ctx.Err() == nil:
		return j.hand(ctx, err, a.known())
	}
	if err != nil && len(a.outcomes) == 0 {
		return j.releaseWith(ctx, 0, err.Error(), a.known())
	}
	return j.finish(ctx, j.settle(via, ds))
}

// transact is one transaction with the relay. It returns the recipients that are left for the next.
func (j job) transact(ctx context.Context, via string, a *attempt, env forward.Envelope, c *forward.Content) ([]string, error) {
	before := a.outcomes
	t, err := j.Relay.Begin(ctx, env, c)
	defer t.Reset()
	a.apply(slices.Concat(before, t.Outcomes()))
	if to := t.Accepted(); len(to) > 0 {
		a.sending(to)
		if err = j.mark(ctx, via, a, t.Content()); err == nil {
			_, err = t.Send()
		}
		a.apply(slices.Concat(before, t.Outcomes()))
	}
	if err == nil && len(t.Rest()) > 0 { // what this one came to is not to be lost with the next
		err = j.mark(ctx, via, a, t.Content())
	}
	return t.Rest(), err
}

// mark records how far the deliveries are, and what goes out.
func (j job) mark(ctx context.Context, via string, a *attempt, c *forward.Content) error {
	a.stored = true
	as := j.form(c, j.begun(a.before))
	if as.ModeReason != "" {
		j.log.Info(as.ModeReason, "task", j.claim.ID, "mode", as.Mode)
	}
	return j.Queue.Sending(context.WithoutCancel(ctx), j.claim.Receipt, via, as, a.ds)
}

// settled reports whether there is nothing to send: an earlier attempt left an outcome unknown that waits for a person, or
// all who are left have the message. It is not needed then, and may be gone.
func (j job) settled() bool {
	ds := j.claim.Deliveries
	open := slices.ContainsFunc(ds, func(d tasks.Delivery) bool { return d.Status != tasks.Delivered })
	return len(ds) > 0 && !open || j.holds(j.claim.Route, ds)
}

func (j job) holds(via string, ds []tasks.Delivery) bool {
	return j.Routes.Holds(via, j.Config.Policy.Hold) &&
		slices.ContainsFunc(ds, func(d tasks.Delivery) bool { return d.Status == tasks.Sending })
}

// vanished ends a task whose message is not where it was when it was claimed, unless another run has found it at another place
// meanwhile.
func (j job) vanished(ctx context.Context, why string) (tasks.Status, error) {
	doubt, err := j.doubted(ctx)
	if err != nil {
		return "", err
	}
	end := tasks.Vanished
	if doubt {
		end = tasks.VanishedInDoubt
	}
	status, err := j.finish(ctx, end(j.claim.Task, why))
	if errors.Is(err, tasks.ErrMoved) {
		return j.release(ctx, err.Error())
	}
	return status, err
}

// doubted reports whether an outcome of the task was ever left to a person to decide: one who has it sent again does not say that nobody
// got it.
func (j job) doubted(ctx context.Context) (bool, error) {
	events, err := j.Queue.Events(context.WithoutCancel(ctx), j.claim.ID)
	return slices.ContainsFunc(events, func(e tasks.Event) bool { return e.Event == string(tasks.Uncertain) }), err
}

// hand gives a task back after an error of the database or of the spool, before anything went out.
func (j job) hand(ctx context.Context, err error, ds []tasks.Delivery) (tasks.Status, error) {
	status, released := j.releaseWith(ctx, j.Config.Policy.Base, err.Error(), ds)
	return status, errors.Join(err, released)
}

func (j job) settle(via string, ds []tasks.Delivery) tasks.Result {
	policy := j.Config.Policy
	policy.Hold = j.Routes.Holds(via, policy.Hold)
	res := policy.Settle(j.claim.Task, j.claim.At, ds)
	res.Route = via
	return res
}

// finish, release: the claim ends. A lease that was lost is no error: whoever has the task now goes on with it.

func (j job) finish(ctx context.Context, res tasks.Result) (tasks.Status, error) {
	if res.Route == "" {
		res.Route = j.claim.Route
	}
	if res.Status == tasks.SkippedNoMatch {
		res.Route = ""
	}
	res.Dedupe = j.Config.Dedupe
	return j.ended(res.Status, j.Queue.Finish(context.WithoutCancel(ctx), j.claim.Receipt, res))
}

func (j job) release(ctx context.Context, why string) (tasks.Status, error) {
	return j.releaseWith(ctx, 0, why, nil)
}

func (j job) releaseWith(ctx context.Context, delay time.Duration, why string, ds []tasks.Delivery) (tasks.Status, error) {
	return j.ended(tasks.Received, j.Queue.Release(context.WithoutCancel(ctx), j.claim, why, delay, ds))
}

func (j job) ended(s tasks.Status, err error) (tasks.Status, error) {
	switch {
	case errors.Is(err, tasks.ErrLeaseLost):
		j.log.Warn("the task was not this run's any more when its end was to be recorded", "task", j.claim.ID, "as", s, "error", err)
		return "", nil
	case err != nil:
		return "", err
	}
	return s, nil
}

// attempt is one try to send to the recipients that do not have the message yet. It writes into the deliveries it was
// made from.
type attempt struct {
	ds       []tasks.Delivery
	before   []tasks.Delivery // as they were
	at       map[string]int
	to       []string
	outcomes []forward.Outcome // what the relay said about this message
	stored   bool              // the recipients are in the registry, and the route with them
}

// newAttempt names those first who were tried least often: a limit may cut the attempt short, and nobody is to wait behind
// others for ever.
func newAttempt(ds []tasks.Delivery) *attempt {
	a := &attempt{ds: ds, before: slices.Clone(ds), at: map[string]int{}}
	for i, d := range ds {
		a.at[d.Recipient] = i
		if d.Status == tasks.Pending || d.Status == tasks.Sending {
			a.to = append(a.to, d.Recipient)
		}
	}
	slices.SortStableFunc(a.to, func(x, y string) int { return cmp.Compare(ds[a.at[x]].Attempts, ds[a.at[y]].Attempts) })
	return a
}

// untried reports whether somebody has not been named to the relay yet, in any attempt.
func (a *attempt) untried() bool {
	return slices.ContainsFunc(a.ds, func(d tasks.Delivery) bool { return d.Status == tasks.Pending && d.Attempts == 0 })
}

// known are the deliveries to keep when the task is given back: none that the registry has not heard of, so that the
// routes decide again.
func (a *attempt) known() []tasks.Delivery {
	if !a.stored {
		return nil
	}
	return a.ds
}

func (a *attempt) sending(accepted []string) {
	for _, r := range accepted {
		a.ds[a.at[r]].Status = tasks.Sending
	}
}

// apply writes down all that the relay said. Nothing went out now to a recipient that has no outcome.
func (a *attempt) apply(outcomes []forward.Outcome) {
	copy(a.ds, a.before)
	a.outcomes = outcomes
	for _, o := range outcomes {
		d := &a.ds[a.at[o.Recipient]]
		d.Attempts++
		d.Code, d.Reply = o.Code, strings.TrimSpace(o.Enhanced+" "+o.Reply)
		if o.Mend != "" {
			d.Reply += " (" + o.Mend + ")"
		}
		if d.Status == tasks.Sending && o.Status == forward.Deferred {
			continue // that an earlier attempt may have delivered it stays true
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
