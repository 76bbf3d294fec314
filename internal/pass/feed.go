package pass

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"postrider/internal/forward"
	"postrider/internal/message"
	"postrider/internal/tasks"
)

// feeder is the working side of one inbox: it claims, finds the bodies and hands both to the senders.
type feeder struct {
	*box
	folders map[int64]*folder
	flying  sync.WaitGroup // claims in work

	worked  bool      // something was claimed
	reading bool      // more pages may come
	helping bool      // another host scans the inbox
	until   time.Time // and so claim until then, waiting for tasks

	mu   sync.Mutex
	bad  error // the first error of the database
	some error // what kept folders from being read
}

// job is one claim on its way to a sender.
type job struct {
	*feeder
	claim tasks.Claim
	msg   *message.Message
}

// feed works off what is due, and again whenever a page has been registered, until pages is closed.
func (b *box) feed(ctx context.Context, folders map[int64]*folder, pages <-chan struct{}) error {
	f := &feeder{box: b, folders: folders}
	err := f.workOff(ctx, pages)
	return cmp.Or(err, f.landed(), f.some)
}

func (f *feeder) trouble(err error) { f.some = cmp.Or(f.some, err) }

func (f *feeder) workOff(ctx context.Context, pages <-chan struct{}) error {
	for f.reading = true; f.reading; {
		if err := f.drain(ctx); err != nil {
			return err
		}
		select {
		case _, f.reading = <-pages:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	if err := f.drain(ctx); err != nil || !f.worked {
		return err
	}
	f.flying.Wait() // what was in work may have left a copy in its place
	return f.drain(ctx)
}

// drain claims until nothing is due. When the relay is at fault nothing is claimed any more, and when a limit of its provider
// is used up, not until that has passed; what was registered waits. A suspect is given back until all else in this process has been done, and is then worked on alone.
func (f *feeder) drain(ctx context.Context) error {
	solo := false
	defer func() {
		if solo {
			f.solo.Unlock()
		}
	}()
	for {
		claims, err := f.claim(ctx, solo)
		if err != nil || len(claims) == 0 {
			return err
		}
		switch alone := claims[0].Alone; {
		case alone && !solo:
			err := f.Queue.Release(context.WithoutCancel(ctx), claims[0], "waits to be worked on alone", 0, nil)
			if err != nil && !errors.Is(err, tasks.ErrLeaseLost) { // lost: somebody else has it already
				return err
			}
			f.solo.Lock()
			solo = true
			continue
		case !alone && solo:
			f.solo.Unlock()
			solo = false
		}
		for _, c := range claims {
			f.leases.hold(c.Receipt)
		}
		f.flying.Add(len(claims))
		f.worked = true
		if err := f.deliver(ctx, claims); err != nil {
			return err
		}
		if err := f.failed(); err != nil {
			return err
		}
	}
}

// claim takes what is due, as much as the senders can work on and the limits allow; nothing when the relay is at fault, or a limit used up. A helper waits for tasks,
// unless it keeps others waiting meanwhile.
func (f *feeder) claim(ctx context.Context, solo bool) ([]tasks.Claim, error) {
	room := f.room(ctx, solo)
	switch {
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case room == 0:
		f.shelf.clear()
		return nil, nil
	}
	// What is in hand is not claimed again: while the database is away its leases run out, and whoever came first after
	// that would send it once more.
	want := tasks.Want{
		InboxID: f.in.ID, Max: room, Lease: f.Config.Lease, Worker: f.Config.Worker,
		MaxLostLeases: f.Config.Policy.MaxLostLeases, InHand: f.leases.tasks(),
		Buried: func(t tasks.Task) {
			f.log.Warn("a task was given up: it seems to kill its workers", "task", t.ID, "as", t.Status)
			f.count(t.Status)
		},
	}
	if f.helping && !solo {
		if want.Wait = time.Until(f.until); want.Wait <= 0 {
			return nil, nil
		}
	}
	return f.Queue.Receive(ctx, want)
}

// deliver finds the bodies of claims and hands them to the senders.
func (f *feeder) deliver(ctx context.Context, claims []tasks.Claim) error {
	jobs, err := f.withBodies(ctx, claims)
	for _, j := range jobs {
		if j.claim.Alone { // here, since all senders may be waiting for it to end
			f.handle(ctx, j)
			continue
		}
		select {
		case f.jobs <- j:
		case <-ctx.Done():
			j.done(j.release(ctx, "stopped"))
		}
	}
	return err
}

// withBodies takes the bodies from the shelf, or fetches them by UID. Claims without one are dealt with here.
func (f *feeder) withBodies(ctx context.Context, claims []tasks.Claim) ([]job, error) {
	var jobs []job
	missing := map[int64][]job{} // by folder
	for _, c := range claims {
		j := job{feeder: f, claim: c, msg: f.shelf.take(c.ID)}
		if j.msg != nil {
			jobs = append(jobs, j)
			continue
		}
		if j.settled() {
			j.done(j.finish(ctx, j.settle(c.Route, c.Deliveries)))
			continue
		}
		missing[c.FolderID] = append(missing[c.FolderID], j)
	}
	var failed error
	for id, list := range missing {
		found, err := f.fetchAgain(ctx, f.folders[id], list)
		jobs = append(jobs, found...)
		if err != nil {
			failed = err
		}
	}
	return jobs, failed
}

// fetchAgain fetches the bodies of tasks of one folder by UID. What does not come ends here: the message has
// vanished, cannot be fetched, or its folder or the connection is the trouble, and then its attempt does not count.
func (f *feeder) fetchAgain(ctx context.Context, fo *folder, list []job) ([]job, error) {
	batch, byUID, anew := f.toFetch(ctx, fo, list)
	if len(batch) == 0 {
		return nil, anew
	}
	err := f.fetchOneByOne(ctx, fo, batch)
	if f.helping {
		err = f.insist(ctx, fo, batch, err)
	}
	var pause time.Duration
	if err != nil && !f.helping && !lost(err) && ctx.Err() == nil { // the folder's, and not the inbox's
		f.log.Warn("the folder is left to the next pass", "folder", fo.Name, "error", err)
		delete(f.folders, fo.ID)
		f.trouble(err)
		err, pause = nil, f.Config.Policy.Base
	}
	var found []job
	for _, it := range batch {
		j := byUID[it.UID]
		switch {
		case it.msg != nil:
			j.msg = it.msg
			found = append(found, j)
		case it.gone && f.helping: // whoever scans knows better what is there
			j.done(j.releaseWith(ctx, f.Config.Policy.Base, "not found by a helper", nil))
		case it.gone:
			j.done(j.vanished(ctx, "it was expunged before it could be read"))
		case it.err != nil:
			j.done(j.finish(ctx, f.Config.Policy.Fail(j.claim.Task, j.claim.At, fmt.Errorf("fetch: %w", it.err))))
		case f.helping:
			j.giveBack(ctx, cmp.Or(err, errOldView))
		default:
			j.done(j.releaseWith(ctx, pause, "its folder could not be read", nil))
		}
	}
	return found, cmp.Or(err, anew)
}

// toFetch are the jobs that their folder may have the message of, as it is now; the others are ended. The error is that it is of
// another epoch.
func (f *feeder) toFetch(ctx context.Context, fo *folder, list []job) (batch []fetched, byUID map[uint32]job, anew error) {
	byUID = map[uint32]job{}
	for _, j := range list {
		switch {
		case f.helping && (fo == nil || j.claim.Epoch != fo.UIDValidity):
			anew = errOldView
			j.giveBack(ctx, anew)
		case fo == nil:
			j.done(j.releaseWith(ctx, f.Config.Policy.Base, "its folder cannot be opened", nil))
		case j.claim.Epoch > fo.UIDValidity: // by another run, which has taken the scan over
			anew = fmt.Errorf("%s: %w", fo, errEpoch)
			j.done(j.release(ctx, anew.Error()))
		case j.claim.Epoch != fo.UIDValidity:
			j.done(j.vanished(ctx, "it was not found again after UIDVALIDITY changed"))
		default:
			byUID[j.claim.UID] = j
			it := fetched{head: j.claim.Mode == string(forward.Notice)}
			it.UID = j.claim.UID
			batch = append(batch, it)
		}
	}
	return batch, byUID, anew
}

// fetchOneByOne fetches all at once, and after a broken connection what is left one by one, so that a message which
// breaks it is found, and is the only one to be blamed.
func (f *feeder) fetchOneByOne(ctx context.Context, fo *folder, batch []fetched) error {
	err := f.fetch(ctx, fo, batch)
	if err == nil || !f.mail.again(ctx, err) {
		return err
	}
	for i := range batch {
		if complete(batch[i:i+1]) == 1 {
			continue
		}
		err := f.fetch(ctx, fo, batch[i:i+1])
		if err == nil {
			continue
		}
		if !f.mail.again(ctx, err) {
			return err
		}
		batch[i].err = err
	}
	return nil
}

// landed waits for the claims in work.
func (f *feeder) landed() error {
	f.flying.Wait()
	return f.failed()
}

func (f *feeder) failed() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.bad
}

// done ends a claim that was dealt with: status is where the task stands now, empty when it is somebody else's.
func (j job) done(status tasks.Status, err error) {
	if j.msg != nil {
		_ = j.msg.Close()
	}
	j.leases.drop(j.claim.Receipt)
	if status != "" {
		j.count(status)
	}
	if err != nil {
		j.mu.Lock()
		if j.bad == nil {
			j.bad = err
		}
		j.mu.Unlock()
	}
	j.flying.Done()
}
