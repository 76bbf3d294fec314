// Package after does on the IMAP server what the configuration wants done with a message once its
// task has ended: mark it, move it, delete it.
//
// Actions are outbox entries with the destination outbox.Server. They are claimed with a lease, an
// inbox at a time, and carried out on a session of their own. Before a message is changed, the
// inbox is looked up once more, because it may have been disabled, or deleting may no longer be
// allowed, and the message is compared with the registry: its folder has the task's UIDVALIDITY,
// and it has the size and the INTERNALDATE that were noted; before it is deleted, and where these
// differ, its content is compared, too. Anything else is left alone.
//
// If a worker is killed, the next one checks what was done and continues; carrying out an action
// twice has no further effect. A message is moved with MOVE (RFC 6851), or else copied, unless its
// copy is there already, and expunged by its UID (RFC 4315). A plain EXPUNGE is never sent.
//
// If a connection breaks over several messages, one of them may be the cause: they are then tried
// one at a time, and a message that breaks it alone has used up an attempt.
package after

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"postrider/internal/imapsrc"
	"postrider/internal/inbox"
	"postrider/internal/message"
	"postrider/internal/outbox"
	"postrider/internal/route"
	"postrider/internal/tasks"
)

// Server is a session, *imapsrc.Conn.
type Server interface {
	Select(ctx context.Context, folder string) (imapsrc.Folder, error)
	Metadata(ctx context.Context, uids []uint32) ([]imapsrc.Meta, error)
	Bodies(ctx context.Context, uids []uint32, each func(uint32, *message.Message) error) (imapsrc.Result, error)
	Since(ctx context.Context, from, to uint32, day time.Time) ([]uint32, error)
	WithMessageID(ctx context.Context, id string) ([]uint32, error)

	SelectToChange(ctx context.Context, folder string) (imapsrc.Folder, error)
	AddFlag(ctx context.Context, uids []uint32, flag string) error
	Move(ctx context.Context, uids []uint32, folder string) error
	Copy(ctx context.Context, uids []uint32, folder string) (copied []uint32, _ error)
	Expunge(ctx context.Context, uids []uint32) error
	Create(ctx context.Context, folder string) error

	Keeps(flag string) bool
	Moves() bool
	ExpungesByUID() bool
	IsGmail() bool
	Trash(ctx context.Context) (string, error)
	Close() error
}

// Registry is what is known of tasks and their messages.
type Registry interface {
	Tasks(ctx context.Context, ids []int64) (map[int64]tasks.Task, error)
	Noted(ctx context.Context, folderID, epoch int64, from, to uint32) ([]tasks.Noted, error)
}

// Outbox holds the actions, *outbox.Store.
type Outbox interface {
	Receive(ctx context.Context, want outbox.Want) ([]outbox.Claim, error)
	Finish(ctx context.Context, outcomes ...outbox.Outcome) (lost []outbox.Claim, err error)
	Extend(ctx context.Context, lease time.Duration, claims ...outbox.Claim) (lost []outbox.Claim, err error)
	InboxesDue(ctx context.Context, destination string) ([]int64, error) // without those that pause
	Pause(ctx context.Context, inboxID int64, updatedAt time.Time, d time.Duration) error
	List(ctx context.Context, f outbox.Filter) ([]outbox.Entry, error)
}

// Worker carries out actions. All fields must be set. Any number of processes may work.
type Worker struct {
	Outbox   Outbox
	Registry Registry
	// Inbox is an inbox as it is now. The error is a *inbox.NotFoundError when it was removed.
	Inbox func(ctx context.Context, address string) (inbox.Inbox, error)
	// Inboxes are the active ones, as they are now.
	Inboxes func(ctx context.Context) ([]inbox.Inbox, error)
	Dial    func(ctx context.Context, in inbox.Inbox) (Server, error)
	// Wants reports whether the configuration still has the action, and how long after the task's
	// end.
	Wants         func(kind outbox.Kind, route, action string) (delay time.Duration, wanted bool)
	CreateFolders bool // to which messages are moved
	Dedupe        tasks.Dedupe
	Name          string
	Lease         time.Duration // of a claim, which is renewed while it lasts
	Now           func() time.Time
	Log           *slog.Logger

	running sync.WaitGroup
	places  chan struct{} // has an element for each inbox that is worked on

	mu     sync.Mutex
	busy   map[int64]bool // inboxes that are worked on, or wait for a place
	failed error          // of the database, since Begin or Wait returned it
}

// How many messages are changed at once, and when an action is tried again.
const (
	atOnce      = 50
	inboxes     = 8                // at the same time
	serverAgain = 5 * time.Minute  // after a server could not be reached
	loginAgain  = 15 * time.Minute // after it refused the login: it may lock the account
	maxBreaks   = 5                // connections of a visit that broke; then the server is left alone
	firstPause  = time.Minute      // after a refusal; it doubles
	longest     = time.Hour
	maxTries    = 20 // then the action is given up
)

// Work carries out the actions of those of the inboxes that are due. It returns when they are done,
// or when ctx ends; it then releases the actions under way. It returns only database errors.
func (w *Worker) Work(ctx context.Context, boxes []inbox.Inbox) error {
	due, err := w.Outbox.InboxesDue(ctx, outbox.Server)
	w.begin(ctx, boxes, due)
	return errors.Join(err, w.Wait())
}

// Begin is Work for all active inboxes, without the wait: an inbox that takes long does not hold up
// the others. What is under way when it is called again goes on.
func (w *Worker) Begin(ctx context.Context) error {
	due, err := w.Outbox.InboxesDue(ctx, outbox.Server)
	if err == nil && len(due) > 0 {
		var boxes []inbox.Inbox
		boxes, err = w.Inboxes(ctx)
		w.begin(ctx, boxes, due)
	}
	return errors.Join(err, w.failure())
}

func (w *Worker) begin(ctx context.Context, boxes []inbox.Inbox, due []int64) {
	for _, in := range boxes {
		if !slices.Contains(due, in.ID) || !w.enter(in.ID) {
			continue
		}
		w.running.Go(func() {
			w.places <- struct{}{}
			defer func() { <-w.places }()
			w.leave(in.ID, w.inbox(ctx, in))
		})
	}
}

// Wait waits for what Begin has begun.
func (w *Worker) Wait() error {
	w.running.Wait()
	return w.failure()
}

// enter reports whether the actions of an inbox may begin: nothing is under way for it.
func (w *Worker) enter(inboxID int64) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.busy[inboxID] {
		return false
	}
	if w.busy == nil {
		w.busy, w.places = map[int64]bool{}, make(chan struct{}, inboxes)
	}
	w.busy[inboxID] = true
	return true
}

func (w *Worker) leave(inboxID int64, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.busy, inboxID)
	w.failed = errors.Join(w.failed, err)
}

// failure returns each error once.
func (w *Worker) failure() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	err := w.failed
	w.failed = nil
	return err
}

func (w *Worker) inbox(ctx context.Context, in inbox.Inbox) error {
	v := &visit{worker: w, in: in, log: w.Log.With("inbox", in.Address)}
	defer v.drop()
	for ctx.Err() == nil && v.again == 0 {
		if active, err := v.active(ctx); err != nil || !active {
			return err
		}
		claims, err := w.Outbox.Receive(ctx, outbox.Want{
			Destination: outbox.Server, InboxID: in.ID, Max: v.atOnce(), Lease: w.Lease, Worker: w.Name,
		})
		if err != nil || len(claims) == 0 {
			return err
		}
		if v.boxes, err = w.Inboxes(ctx); err != nil {
			return err
		}
		if err := v.work(ctx, claims); err != nil {
			return err
		}
	}
	return nil
}

// job is one claim.
type job struct {
	log    *slog.Logger
	claim  outbox.Claim
	task   tasks.Task
	known  map[int64]tasks.Task // it, and those that it is a duplicate of
	noted  tasks.Noted
	size   int64           // of the message, as the server says
	copied bool            // by this try, on a server without MOVE
	end    *outbox.Outcome // nil while it is not decided
}

// place is where jobs can be done together.
type place struct {
	folder   string
	folderID int64
	epoch    int64
	action   route.Action
}

// work carries claims out, those of a folder together, and records the outcomes. It returns only
// database errors.
func (v *visit) work(ctx context.Context, claims []outbox.Claim) error {
	v.several, v.stopped, v.why = len(claims) > 1, false, ""
	defer v.hold(ctx, claims)()
	ids := make([]int64, len(claims))
	for i, c := range claims {
		ids[i] = c.TaskID
	}
	known, err := withOriginals(ctx, v.worker.Registry, ids)
	if err != nil {
		return err
	}
	groups, order := map[place][]*job{}, []place{}
	for _, c := range claims {
		j := &job{log: v.log, claim: c, known: known}
		j.task = known[c.TaskID]
		at := place{j.task.Folder, j.task.FolderID, j.task.Epoch, route.Action(c.Action)}
		if groups[at] == nil {
			order = append(order, at)
		}
		groups[at] = append(groups[at], j)
	}
	for _, at := range order {
		jobs, before := groups[at], v.again
		for _, j := range jobs {
			v.admit(j, at, v.worker.Now())
		}
		if err := v.group(ctx, at, open(jobs)); err != nil {
			return err
		}
		if v.again > before { // before the claims are released: other workers see that they are due
			if err := v.worker.Outbox.Pause(context.WithoutCancel(ctx), v.in.ID, v.in.UpdatedAt, v.again); err != nil {
				return err
			}
		}
		var outcomes []outbox.Outcome
		for _, j := range jobs {
			if j.end == nil { // the actions of the inbox pause, the connection broke, or ctx has ended
				j.back(0)
				j.end.Error = cmp.Or(v.why, j.end.Error)
			}
			outcomes = append(outcomes, *j.end)
		}
		if _, err := v.worker.Outbox.Finish(context.WithoutCancel(ctx), outcomes...); err != nil {
			return err
		}
	}
	return nil
}

// open are the jobs that are not decided yet.
func open(jobs []*job) (out []*job) {
	for _, j := range jobs {
		if j.end == nil {
			out = append(out, j)
		}
	}
	return out
}

// group carries out one action on messages of one folder. It returns only database errors.
func (v *visit) group(ctx context.Context, at place, jobs []*job) error {
	if len(jobs) == 0 || v.stopped || ctx.Err() != nil {
		return nil
	}
	if v.conn == nil {
		conn, err := v.worker.Dial(ctx, v.in)
		if err != nil {
			v.fail(ctx, jobs, err)
			return nil
		}
		v.conn = conn
	}
	opened := v.openFolder(ctx, at)
	if opened != nil && !errors.Is(opened, errLost) {
		v.fail(ctx, jobs, opened)
		return nil
	}
	jobs, err := v.still(ctx, at, jobs) // to log in may have taken a while
	if err != nil {
		return err
	}
	if opened != nil {
		for _, j := range jobs {
			j.gone(at.action)
		}
		return nil
	}
	if err := v.identify(ctx, at, jobs); err != nil || v.stopped {
		return err
	}
	still, err := v.still(ctx, at, open(jobs))
	if err == nil {
		v.act(ctx, at, still)
	}
	return err
}

// withOriginals are tasks, and those that they are duplicates of.
func withOriginals(ctx context.Context, registry Registry, ids []int64) (map[int64]tasks.Task, error) {
	known, err := registry.Tasks(ctx, ids)
	if err != nil {
		return nil, err
	}
	var owners []int64
	for _, t := range known {
		for _, d := range t.Deliveries {
			if d.Status == tasks.Duplicated {
				owners = append(owners, d.DuplicateOf)
			}
		}
	}
	more, err := registry.Tasks(ctx, owners)
	maps.Copy(known, more)
	return known, err
}

// still are the jobs whose claims are good, and whose inbox and tasks are as they were: to compare
// messages may have taken a while.
func (v *visit) still(ctx context.Context, at place, jobs []*job) (out []*job, _ error) {
	if len(jobs) == 0 {
		return nil, nil
	}
	active, err := v.active(ctx)
	if v.stopped = !active; err != nil || !active {
		return nil, err
	}
	claims, ids := make([]outbox.Claim, len(jobs)), make([]int64, len(jobs))
	for i, j := range jobs {
		claims[i], ids[i] = j.claim, j.task.ID
	}
	lost, err := v.worker.Outbox.Extend(ctx, v.worker.Lease, claims...)
	if err != nil {
		return nil, err
	}
	known, err := withOriginals(ctx, v.worker.Registry, ids)
	if err != nil {
		return nil, err
	}
	for _, j := range jobs {
		if slices.ContainsFunc(lost, func(c outbox.Claim) bool { return c.ID == j.claim.ID }) {
			continue
		}
		before := j.task
		j.task, j.known = known[before.ID], known
		if v.admit(j, at, v.worker.Now()); j.end != nil {
			continue
		}
		if j.task.Epoch != before.Epoch || j.task.UID != before.UID || j.task.FolderID != before.FolderID {
			j.back(0) // a scan found it elsewhere
			continue
		}
		out = append(out, j)
	}
	return out, nil
}
