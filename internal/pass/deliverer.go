package pass

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"

	"postrider/internal/inbox"
	"postrider/internal/limits"
	"postrider/internal/tasks"
	"postrider/internal/text"
)

// deliverer claims the due tasks of one inbox, whichever process registered them, and sends them. A
// task that this process has just registered is claimed only when it is marked as sending
// (tasks.Offer).
//
// It returns when nothing is due and no scan is under way, when the database or the session fails,
// or when ctx ends; all its claims have ended by then. It is started once in a pass; in a process
// that stays up, whenever there may be something to claim.
type deliverer struct {
	pass     *Pass
	revision string // of the rules in force
	token    string // of what this process offers
	gate     *gate
	slots    *slots
	leases   *leases
	inHand   func() []int64 // tasks whose claims this process has
	in       inbox.Inbox
	log      *slog.Logger
	session  *session
	cache    *cache
	tally    *tally
	feed     *feed

	claimed  int            // tasks, ever
	more     bool           // the last claim had all it wanted
	batch    int            // the most tasks that were claimed at once
	inFlight sync.WaitGroup // claims in work
	taken    atomic.Bool    // another worker has claimed one of the tasks that were offered last

	mu    sync.Mutex
	fatal error // the first error of the database
	minor error // folders that could not be read
}

// run delivers what is due whenever the feed has news, until nothing is due and no scan is under
// way.
func (d *deliverer) run(ctx context.Context) error {
	err := d.follow(ctx)
	d.inFlight.Wait()
	d.mu.Lock()
	defer d.mu.Unlock()
	return errors.Join(err, d.minor)
}

func (d *deliverer) follow(ctx context.Context) error {
	for {
		news, err := d.feed.next(ctx)
		claimed := d.claimed
		if err == nil {
			err = d.drain(ctx)
		}
		switch {
		case err != nil:
			d.feed.stop()
			return err
		case !news && d.claimed == claimed && d.feed.retire():
			return nil
		}
	}
}

// drain claims until nothing is due, or nothing may be sent.
func (d *deliverer) drain(ctx context.Context) error {
	for {
		jobs, err := d.claim(ctx)
		if err != nil || len(jobs) == 0 {
			return err
		}
		if jobs[0].claim.Alone {
			err = d.alone(ctx, jobs[0].claim)
		} else {
			err = d.start(ctx, jobs)
		}
		if err != nil {
			return err
		}
	}
}

// claim takes what is due once there is a slot, as the limits allow.
func (d *deliverer) claim(ctx context.Context) ([]*job, error) {
	mark := d.cache.mark()
	room := d.room(ctx)
	if err := errors.Join(ctx.Err(), d.failure()); err != nil {
		return nil, err
	}
	due, err := d.due(ctx)
	if err != nil {
		return nil, err
	}
	if room == 0 || !due || d.session.unreachable() {
		d.cache.dropUpTo(mark)
		return nil, nil
	}
	if err := d.slots.acquire(ctx); err != nil {
		return nil, err
	}
	defer d.slots.release(1)
	var jobs []*job
	if d.gate.fault() == nil {
		jobs, err = d.take(ctx, room)
	}
	if len(jobs) == 0 {
		d.cache.dropUpTo(mark)
	}
	return jobs, err
}

// due reports whether there may be a task to claim. It is asked before claim waits for a slot.
func (d *deliverer) due(ctx context.Context) (bool, error) {
	if d.cache.offers() > 0 || d.more {
		return true, nil
	}
	next, err := d.pass.Queue.Next(ctx, d.wants(1))
	return len(next) > 0, err
}

// take takes at most n of the next tasks: from the cache while the next task is in it, else from
// the queue.
func (d *deliverer) take(ctx context.Context, n int) ([]*job, error) {
	if d.cache.offers() > 0 {
		next, err := d.pass.Queue.Next(ctx, d.wants(n))
		if err != nil || len(next) == 0 {
			return nil, err
		}
		if jobs := d.offered(next); len(jobs) > 0 {
			return jobs, nil
		}
	}
	return d.receive(ctx, n)
}

// offered takes those of the tasks that this process has just registered, up to the first other
// one.
func (d *deliverer) offered(next []int64) []*job {
	d.taken.Store(false)
	var jobs []*job
	for _, o := range d.cache.offer(next) {
		c := tasks.Offer(o.task, d.token, d.pass.Config.Worker, d.pass.Config.Lease)
		jobs = append(jobs, &job{claim: c, since: o.since, done: func() {}})
	}
	d.took(jobs)
	return jobs
}

// receive claims at most n tasks.
func (d *deliverer) receive(ctx context.Context, n int) ([]*job, error) {
	claims, err := d.pass.Queue.Receive(ctx, d.wants(n))
	var jobs []*job
	for _, c := range claims {
		jobs = append(jobs, &job{claim: c, done: func() {}})
	}
	d.took(jobs)
	d.more = len(claims) == n
	return jobs, err
}

func (d *deliverer) wants(n int) tasks.Want {
	return tasks.Want{
		InboxID: d.in.ID, Max: n, Lease: d.pass.Config.Lease, Worker: d.pass.Config.Worker,
		MaxLostLeases: d.pass.Config.Policy.MaxLostLeases,
		// While the database is unavailable, leases run out. If this process claimed such a task
		// again while it is still sending it, the message would go out twice.
		InHand: d.inHand(),
		Poisoned: func(t tasks.Task) {
			d.log.Warn("a task was given up: workers crashed repeatedly while processing it",
				"task", t.ID, "as", t.Status)
			d.tally.ended(t.ID, t.Status)
		},
	}
}

// took holds what was claimed, or is to be.
func (d *deliverer) took(jobs []*job) {
	for _, j := range jobs {
		d.leases.hold(j.claim)
	}
	d.claimed += len(jobs)
	d.batch = max(d.batch, len(jobs))
}

// alone processes a suspect while nothing else runs in this process. Before it waits for that, it
// releases the claim, so that a crash caused by another task meanwhile does not count against the
// suspect. It fetches the message first, while only other suspects wait for it, so that a silent
// server does not stop all forwarding.
func (d *deliverer) alone(ctx context.Context, suspect tasks.Claim) error {
	if err := d.unclaim(ctx, suspect); err != nil {
		return err
	}
	done, err := d.slots.suspect(ctx)
	if err != nil {
		return err
	}
	defer done()
	ready, err := d.receiveOne(ctx)
	if len(ready) == 0 {
		return err
	}
	fetched := ready[0]
	at := placeOf(fetched.claim.Task)
	d.cache.keep(at, fetched.msg)
	defer d.cache.drop(at) // another worker may have claimed the task meanwhile
	if err := d.unclaim(ctx, fetched.claim); err != nil {
		return err
	}
	if err := d.slots.acquireAll(ctx); err != nil {
		return err
	}
	defer d.slots.release(d.slots.all)
	ready, err = d.receiveOne(ctx)
	for _, j := range ready {
		d.deliver(ctx, j)
	}
	return err
}

// unclaim releases the claim of a suspect that has to wait.
func (d *deliverer) unclaim(ctx context.Context, suspect tasks.Claim) error {
	d.leases.drop(suspect.Receipt)
	err := d.pass.Queue.Release(context.WithoutCancel(ctx), suspect, "waits to be worked on alone", 0, nil)
	if errors.Is(err, tasks.ErrLeaseLost) {
		return nil
	}
	return err
}

// receiveOne claims the next task, and returns it if its message is at hand.
func (d *deliverer) receiveOne(ctx context.Context) ([]*job, error) {
	jobs, err := d.receive(ctx, 1)
	if err != nil {
		return nil, err
	}
	return d.withBodies(ctx, jobs)
}

// start delivers the messages concurrently. It fetches a body before it takes a slot, so that a
// silent server holds no slot that other inboxes need.
func (d *deliverer) start(ctx context.Context, jobs []*job) error {
	for len(jobs) > 0 {
		if err := ctx.Err(); err != nil {
			return errors.Join(err, d.giveBack(ctx, jobs, "interrupted"))
		}
		if d.gate.fault() != nil { // no body is fetched for nothing
			return d.giveBack(ctx, jobs, "the relay failed")
		}
		n := d.atOnce(jobs)
		next := jobs[:n]
		jobs = jobs[n:]
		ready, err := d.withBodies(ctx, next)
		for _, j := range ready {
			if d.slots.acquire(ctx) == nil { // else ctx has ended: deliver releases the claim
				j.done = func() { d.slots.release(1) }
			}
			d.feed.took()
			d.inFlight.Go(func() {
				defer d.feed.ended()
				d.deliver(ctx, j)
			})
		}
		if err != nil {
			return errors.Join(err, d.giveBack(ctx, jobs, "its message could not be fetched: "+text.Error(err)))
		}
	}
	return nil
}

// atOnce is how many jobs get their bodies fetched together, before they wait for slots: at most
// maxBatchOctets in all and one job for each slot, but at least one job.
func (d *deliverer) atOnce(jobs []*job) int {
	octets := int64(0)
	for i, j := range jobs {
		octets += j.claim.Task.Identity.Size
		if i > 0 && (octets > maxBatchOctets || i == d.slots.all) {
			return i
		}
	}
	return len(jobs)
}

// giveBack releases claims that were not begun. Its error is the database's.
func (d *deliverer) giveBack(ctx context.Context, jobs []*job, why string) (failed error) {
	for _, j := range jobs {
		status, err := d.release(ctx, j, why, 0, nil)
		d.end(j, status, err)
		failed = errors.Join(failed, err)
	}
	return failed
}

// claimsAtOnce is how many tasks may be claimed for each connection to the relay, over all inboxes:
// connections are idle while tasks are being claimed. If the pass is killed, claimed tasks wait
// until their leases end, so an inbox begins with one for each connection. One is always allowed.
const claimsAtOnce = 8

// room is how many tasks may be claimed now: none if the relay is at fault or a limit is used up.
// If what is left of a limit may not cover everything in work, room first waits for the tasks in
// flight: they may return what they reserved, and newly claimed tasks would compete for the rest.
func (d *deliverer) room(ctx context.Context) int {
	senders := d.pass.Config.Senders
	most := max(1, min(max(senders, 2*d.batch), claimsAtOnce*senders-len(d.leases.tasks())))
	for waited := false; d.gate.fault() == nil && d.gate.wait(ctx); waited = true {
		n, why, err := d.pass.Limits.Left(ctx)
		switch {
		case err != nil: // it shows again when something is to be sent
			return most
		case n >= most+senders || waited && n > 0:
			return min(n, most)
		case waited:
			d.reached(why)
		case d.feed.reading() && len(d.leases.tasks()) > 0:
			return 0 // a relay that hangs keeps nothing from being registered
		}
		d.inFlight.Wait()
	}
	return 0
}

func (d *deliverer) reached(why *limits.Reached) {
	if d.gate.meet(why) {
		d.pass.Log.Info("a limit in smtp.limits is reached; the remaining messages wait", "limit", why)
	}
}

// failure is the first error of the database that a claim met.
func (d *deliverer) failure() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.fatal
}

// trouble records that a folder could not be read.
func (d *deliverer) trouble(err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.minor = joined(d.minor, err)
}

// joined is both errors, or the first one if that says the same.
func joined(err, other error) error {
	if err != nil && other != nil && strings.Contains(err.Error(), other.Error()) {
		return err
	}
	return errors.Join(err, other)
}
