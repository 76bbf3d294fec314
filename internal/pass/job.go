package pass

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"time"

	"postrider/internal/message"
	"postrider/internal/tasks"
	"postrider/internal/text"
)

// job is one claim on its way to the relay.
type job struct {
	claim tasks.Claim
	since time.Time        // of an offer: when it was registered, by this host's clock
	doubt bool             // of an offer: its claim may have been made
	msg   *message.Message // nil while it is not at hand
	done  func()           // called when the claim has ended, or another message may be sent
}

// end is called once for each job: status is the new status of the task, empty if no counter
// changes. An error comes from the database.
func (d *deliverer) end(j *job, status tasks.Status, err error) {
	if j.msg != nil {
		_ = j.msg.Close()
	}
	d.leases.drop(j.claim.Receipt)
	if status != "" && err == nil {
		d.tally.ended(j.claim.Task.ID, status)
	}
	if err != nil {
		d.mu.Lock()
		if d.fatal == nil {
			d.fatal = err
		}
		d.mu.Unlock()
	}
	j.done()
}

// ends returns a function that calls end with the results of a call that ended the claim. The job
// is then not ready.
func (d *deliverer) ends(j *job) func(tasks.Status, error) (ready bool) {
	return func(status tasks.Status, err error) bool {
		d.end(j, status, err)
		return false
	}
}

// sent lets another message be sent while the result of this one is being recorded.
func (d *deliverer) sent(j *job) {
	_ = j.msg.Close()
	j.msg = nil
	ended := d.slots.end()
	j.done()
	j.done = ended
}

// finish and release end a claim in the registry. That the lease was lost is not an error: another
// worker has the task now. When the outcome cannot be recorded, the log has it.

func (d *deliverer) finish(ctx context.Context, j *job, res tasks.Result) (tasks.Status, error) {
	err := d.made(ctx, j)
	if err == nil {
		err = d.pass.Queue.Finish(context.WithoutCancel(ctx), j.claim.Receipt, res)
	}
	if err == nil {
		d.logEnd(j, res)
	}
	return d.ended(j, res.Status, res.Deliveries, err)
}

func (d *deliverer) release(
	ctx context.Context, j *job, why string, delay time.Duration, ds []tasks.Delivery,
) (tasks.Status, error) {
	if !j.claim.Recorded() && !j.doubt { // the registry does not know of it
		return tasks.Received, nil
	}
	err := d.pass.Queue.Release(context.WithoutCancel(ctx), j.claim, why, delay, ds)
	if err == nil {
		d.log.Info("task released", "task", j.claim.Task.ID, "reason", why)
	}
	return d.ended(j, tasks.Received, ds, err)
}

func (d *deliverer) ended(j *job, s tasks.Status, ds []tasks.Delivery, err error) (tasks.Status, error) {
	if err == nil {
		return s, nil
	}
	id := j.claim.Task.ID
	if errors.Is(err, tasks.ErrTaken) {
		return "", nil
	}
	if !errors.Is(err, tasks.ErrMoved) {
		d.logAccepted(j, ds)
	}
	if errors.Is(err, tasks.ErrLeaseLost) {
		d.log.Warn("the task was changed concurrently before its end was recorded", "task", id, "as", s, "error", err)
		return afterLoss(ds), nil
	}
	return "", err
}

// afterLoss is how a claim counts that lost its lease: to be retried if the message may have
// arrived, because the new worker of the task does not know that it did.
func afterLoss(ds []tasks.Delivery) tasks.Status {
	if slices.ContainsFunc(ds, func(to tasks.Delivery) bool {
		return to.Status == tasks.Sending || to.Status == tasks.Delivered && to.DeliveredAt == nil
	}) {
		return tasks.Error
	}
	return ""
}

// made has the registry record a claim that was only offered.
func (d *deliverer) made(ctx context.Context, j *job) error {
	if j.claim.Recorded() {
		return nil
	}
	return d.sending(ctx, j, j.claim.Task.Form, nil)
}

// sending records how far the deliveries are. If the claim is not yet in the database, it records
// that first.
func (d *deliverer) sending(ctx context.Context, j *job, as tasks.Form, ds []tasks.Delivery) error {
	c := j.claim
	if !c.Recorded() {
		c.At = c.At.Add(time.Since(j.since))
	}
	err := d.pass.Queue.Sending(context.WithoutCancel(ctx), c, as, ds)
	switch {
	case c.Recorded():
	case err == nil:
		j.claim.At, j.claim.Lease = c.At, 0
		d.leases.hold(j.claim)
	case errors.Is(err, tasks.ErrTaken):
		d.log.Info("not sent: another worker or an operator claimed or changed the task", "task", c.Task.ID)
		d.taken.Store(true)
	default: // the database
		j.doubt = true
	}
	return err
}

// logEnd logs what became of a message in this claim: the route, and what the relay said to each
// recipient, or why there is none.
func (d *deliverer) logEnd(j *job, res tasks.Result) {
	t := j.claim.Task
	attrs := []any{"task", t.ID, "folder", t.Folder, "uid", t.UID}
	if t.Route != "" {
		attrs = append(attrs, "route", t.Route)
	}
	switch {
	case res.Status == tasks.Skipped || len(res.Deliveries) == 0 && res.Reason != "":
		attrs = append(attrs, "reason", res.Reason)
	case len(res.Deliveries) > 0:
		attrs = append(attrs, "to", replies(res.Deliveries))
	}
	level := slog.LevelInfo
	if d.pass.Config.Warn && (res.Status == tasks.Dead || res.Status == tasks.Uncertain) {
		level = slog.LevelWarn
	}
	d.log.Log(context.Background(), level, "message "+became[res.Status], attrs...)
}

// became is what became of a message whose claim has ended.
var became = map[tasks.Status]string{
	tasks.Forwarded: "forwarded", tasks.SkippedNoMatch: "not forwarded: no route matches", tasks.Skipped: "skipped",
	tasks.Error: "not forwarded yet", tasks.Dead: "dead", tasks.Uncertain: "uncertain",
}

// replies is who got a message, or did not, and why: "a@x.example 250 2.0.0 ok, b@x.example 550
// no".
func replies(ds []tasks.Delivery) string {
	const enough = 20
	var out []string
	for _, to := range ds {
		reply := to.Reply
		if to.Code != 0 {
			reply = strconv.Itoa(to.Code) + " " + reply
		}
		if reply == "" {
			reply = string(to.Status)
		}
		out = append(out, to.Recipient+" "+text.Line(reply))
	}
	return strings.Join(text.Some(out, enough), ", ")
}

// logAccepted logs what the relay accepted in this attempt, when that cannot be recorded.
func (d *deliverer) logAccepted(j *job, ds []tasks.Delivery) {
	for _, to := range ds {
		if to.Status == tasks.Delivered && to.DeliveredAt == nil {
			d.log.Error("the relay accepted a message, and that could not be recorded; "+
				"if its task becomes uncertain: postrider task resolve ID --delivered",
				"task", j.claim.Task.ID, "recipient", to.Recipient, "code", to.Code, "reply", to.Reply)
		}
	}
}

// settle ends a claim by its deliveries.
func (d *deliverer) settle(ctx context.Context, j *job, ds []tasks.Delivery) (tasks.Status, error) {
	t := j.claim.Task
	policy := d.pass.Config.Policy
	policy.Hold = d.pass.Routes.Holds(t.Route, policy.Hold)
	res := policy.Settle(t, j.claim.At, ds)
	if res.Status == tasks.Received { // it waits for other tasks, and counts nowhere
		s, err := d.release(ctx, j, res.Reason, 0, res.Deliveries)
		if s == tasks.Received {
			s = ""
		}
		return s, err
	}
	return d.finish(ctx, j, res)
}

// fail ends a claim because of its message, which could not be fetched, composed or signed.
func (d *deliverer) fail(ctx context.Context, j *job, ds []tasks.Delivery, err error) (tasks.Status, error) {
	return d.finish(ctx, j, d.pass.Config.Policy.Fail(j.claim.Task, j.claim.At, ds, err))
}
