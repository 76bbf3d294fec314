package pass

import (
	"context"
	"errors"
	"slices"

	"postrider/internal/forward"
	"postrider/internal/limits"
	"postrider/internal/tasks"
	"postrider/internal/text"
)

// deliver processes one claim. Its message is at hand.
func (d *deliverer) deliver(ctx context.Context, j *job) {
	d.ends(j)(d.process(ctx, j))
}

// process returns the task's new status, empty if no counter changes. An error is the database's.
func (d *deliverer) process(ctx context.Context, j *job) (tasks.Status, error) {
	switch {
	case ctx.Err() != nil:
		return d.release(ctx, j, "interrupted", 0, nil)
	case d.gate.fault() != nil:
		return d.release(ctx, j, "the relay failed", 0, nil)
	case !j.claim.Recorded() && d.taken.Load(): // another worker may have taken this offer, too: ask again
		return "", nil
	}
	if why := d.gate.limited(); why != nil {
		return d.wait(ctx, j, why)
	}
	ds, end, err := d.decide(ctx, j)
	switch {
	case errors.Is(err, errInterrupted):
		return d.release(ctx, j, "interrupted", 0, nil)
	case ofMessage(err):
		return d.fail(ctx, j, j.claim.Task.Deliveries, err)
	case err != nil:
		return d.unrecorded(ctx, j, nil, err)
	case end != nil:
		return d.finish(ctx, j, *end)
	}
	if ds, err = d.pass.withhold(ctx, ds); err != nil {
		return d.unrecorded(ctx, j, nil, err)
	}
	if tasks.OnlyWaits(ds) || len(recipientsToDo(ds)) == 0 {
		return d.settle(ctx, j, ds)
	}
	return d.send(ctx, j, ds)
}

// decide returns the deliveries of a task, or how it ends without any. It decides when that was not
// possible before, and again when the rules have changed.
func (d *deliverer) decide(ctx context.Context, j *job) ([]tasks.Delivery, *tasks.Result, error) {
	t := &j.claim.Task
	decided := isDecided(*t, d.revision)
	unread := !t.Read && (!j.msg.HeaderOnly || !decided)
	if decided && !unread {
		return t.Deliveries, nil, nil
	}
	var res tasks.Reservation
	if unread {
		id := identity(j.msg, t.Identity)
		res.Identity = &id
	}
	if !decided && !t.Begun() {
		decision, err := d.pass.decide(ctx, MailOf(d.in, *t, j.msg), d.revision, d.log.With("task", t.ID))
		if err != nil {
			return nil, nil, err
		}
		res.Decision = decision
		t.Route = res.Decision.Route
	}
	if err := d.reserve(ctx, j, res); err != nil {
		return nil, nil, err
	}
	if status := res.Decision.Status(); status != tasks.Received {
		return nil, &tasks.Result{Status: status, Skip: res.Decision.Skip, Reason: res.Decision.Reason}, nil
	}
	return t.Deliveries, nil, nil
}

// isDecided reports whether a task was decided by the rules of that revision. If it has no
// deliveries, it is decided again, because the end that followed from the decision was not
// recorded.
func isDecided(t tasks.Task, revision string) bool {
	return t.Revision == revision && len(t.Deliveries) > 0
}

// reserve takes the rows that the task has to own by the current rules.
func (d *deliverer) reserve(ctx context.Context, j *job, res tasks.Reservation) error {
	res.Revision, res.Dedupe = d.revision, d.pass.Config.Dedupe
	ds, err := d.pass.Queue.Reserve(context.WithoutCancel(ctx), j.claim.Receipt, res)
	if err == nil {
		j.claim.Task.Deliveries, j.claim.Task.Revision = ds, d.revision
	}
	return err
}

// send makes one attempt for all recipients that do not have the message yet. When ctx ends, a
// transaction whose sender the relay has accepted is completed.
func (d *deliverer) send(ctx context.Context, j *job, ds []tasks.Delivery) (tasks.Status, error) {
	if j.msg.Body.Changed() {
		d.log.Info("line endings were converted to CRLF; this may break a signature", "task", j.claim.Task.ID)
	}
	a := newAttempt(ds)
	var err error
	a.content, err = d.compose(ctx, j)
	env := forward.Envelope{}
	if err == nil {
		t := j.claim.Task
		env = d.pass.Relay.Envelope(j.msg, forward.Trace{Inbox: d.in.Address, TaskID: t.ID, Queued: t.QueuedAt}, a.to)
	}
	for len(env.To) > 0 && err == nil {
		env.To, err = d.transact(ctx, j, a, env)
	}
	var relay *forward.Error
	var limit *limits.Reached
	var mark *markError
	var quota *forward.QuotaError
	switch {
	case err == nil:
		if d.gate.works() {
			d.pass.Log.Info("the relay takes messages again")
		}
		d.sent(j)
	case errors.As(err, &mark):
		return d.unrecorded(ctx, j, a.ds, mark.error)
	case errors.As(err, &limit):
		return d.cutShort(ctx, j, a, limit)
	case ctx.Err() == nil && errors.As(err, &quota): // the database
		return d.unrecorded(ctx, j, a.ds, quota.Err)
	case errors.As(err, &relay):
		if d.gate.fail(relay) {
			d.pass.Log.Log(ctx, d.pass.failure(), d.gate.stops(), "error", relay)
		}
		fallthrough
	case ctx.Err() != nil:
		if len(a.outcomes) == 0 {
			return d.release(ctx, j, text.Error(err), 0, a.ds)
		}
	default: // composing, signing, reading its spool
		return d.fail(ctx, j, a.ds, err)
	}
	return d.settle(ctx, j, a.ds)
}

// transact is one transaction with the relay: begin, mark, send. It returns the recipients that are
// left for the next.
func (d *deliverer) transact(ctx context.Context, j *job, a *attempt, env forward.Envelope) ([]string, error) {
	before := a.outcomes
	t, err := d.pass.Relay.Begin(ctx, env, a.content)
	defer t.Reset()
	a.apply(slices.Concat(before, t.Outcomes()))
	if to := t.Accepted(); len(to) > 0 {
		a.sending(to)
		if err := d.mark(ctx, j, a, t.Content()); err != nil {
			a.apply(slices.Concat(before, t.Outcomes()))
			return nil, err
		}
		a.content = t.Content()
		_, err = t.Send()
		a.apply(slices.Concat(before, t.Outcomes()))
	}
	if err == nil && len(t.Rest()) > 0 { // a kill during the next transaction must not lose these outcomes
		err = d.mark(ctx, j, a, t.Content())
	}
	return t.Rest(), err
}

// markError says that the deliveries could not be marked as sending, so the content is not sent.
type markError struct{ error }

// mark records how far the deliveries are, and what goes out.
func (d *deliverer) mark(ctx context.Context, j *job, a *attempt, c *forward.Content) error {
	t := &j.claim.Task
	form := tasks.Form{Mode: string(c.Mode), ModeReason: c.Remark}
	if begun(*t) {
		form.ModeReason = t.Form.ModeReason
	}
	if form.ModeReason != "" {
		d.log.Info(form.ModeReason, "task", t.ID, "mode", form.Mode)
	}
	if err := d.sending(ctx, j, form, a.ds); err != nil {
		return &markError{err}
	}
	return nil
}

// unrecorded ends a claim after a write failed that must succeed before anything more goes out: the
// claim was lost, or the database is unavailable.
func (d *deliverer) unrecorded(ctx context.Context, j *job, ds []tasks.Delivery, err error) (tasks.Status, error) {
	if errors.Is(err, tasks.ErrTaken) {
		return "", nil
	}
	if errors.Is(err, tasks.ErrLeaseLost) {
		d.logAccepted(j, ds)
		d.log.Warn("the task was changed concurrently, and nothing more is sent", "task", j.claim.Task.ID, "error", err)
		return afterLoss(ds), nil
	}
	_, released := d.release(ctx, j, text.Error(err), d.pass.Config.Policy.Base, ds)
	return "", errors.Join(err, released)
}

// cutShort ends an attempt that a limit interrupted. The attempt does not count if there are
// recipients that were never named to the relay. Otherwise it counts, so that a relay that keeps
// refusing is not tried for ever. Its results so far are recorded already.
func (d *deliverer) cutShort(ctx context.Context, j *job, a *attempt, why *limits.Reached) (tasks.Status, error) {
	d.reached(why)
	t := j.claim.Task
	hold := d.pass.Routes.Holds(t.Route, d.pass.Config.Policy.Hold)
	unknown := slices.ContainsFunc(a.ds, func(d tasks.Delivery) bool { return d.Status == tasks.Sending })
	if len(a.outcomes) == 0 || a.untried() && (!hold || !unknown) {
		return d.wait(ctx, j, why)
	}
	return d.settle(ctx, j, a.ds)
}

// wait releases a task that waits for a limit. It keeps its place in the order, and nothing is
// claimed before the limit allows more. Waiting for a limit is not an error, and counts nowhere.
func (d *deliverer) wait(ctx context.Context, j *job, why *limits.Reached) (tasks.Status, error) {
	_, err := d.release(ctx, j, "waits: "+why.Error(), 0, nil)
	return "", err
}
