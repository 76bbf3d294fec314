// Package watch stays up: it holds one session for each active inbox, and has what arrives
// registered and forwarded at once, by the scanner and the deliverer of package pass.
//
// An inbox is visited when its server reports something, when nothing was reported for
// Setup.Patience, and after its connection was lost, but at most four times a second. As in a pass,
// a visit needs the scan lease; if another run holds it, this process only delivers, and visits the
// inbox again soon, to take over. Tasks are delivered when due, whichever process registered them.
//
// A failure stops only what it concerns. An inbox that cannot be read is tried again after a pause
// that grows, is never shorter than the server asks for, and is random, so that inboxes do not
// retry together. If the database or the relay fails, the process stays up and tries again. A
// failure of the database is logged when it begins and when it ends; all others go to Setup.Say.
//
// The configuration is read again when its file or the directory changes, and on Reload. While it
// has errors, the previous one stays in force; that is logged when it begins and when it ends.
// Sessions outlive a change that does not concern their login.
//
// Nothing depends on the process going on: killed anywhere, it leaves what a killed pass leaves.
// When its context ends, messages in flight are finished and the rest is released.
package watch

import (
	"context"
	"log/slog"
	"runtime/debug"
	"sync"
	"time"

	"postrider/internal/inbox"
	"postrider/internal/pass"
)

// Held is an inbox that is held, *pass.Held.
type Held interface {
	Visit(ctx context.Context) (busy *inbox.Busy, err error)
	Await(ctx context.Context, p pass.Patience) error
	Deliver(ctx context.Context) // may be called at any time
	Ready() bool
	Connected() bool
	Close()
}

// Tasks is what to know of the queue, tasks.Queue.
type Tasks interface {
	DueOf(ctx context.Context, inboxIDs []int64) (map[int64]int, error)
	NextDue(ctx context.Context, inboxIDs []int64) (in time.Duration, ok bool, err error)
}

// Setup is everything that is made from one configuration. All fields must be set.
type Setup struct {
	Patience pass.Patience
	Inboxes  func(ctx context.Context) ([]inbox.Inbox, error) // the active ones
	Hold     func(in inbox.Inbox, from Held) Held             // from is nil, or has a session to adopt
	Tasks    Tasks
	Logins   string // identifies what all sessions are opened with; while it stays the same, they are kept
	// Stale reports whether something has changed that Load reads and Files does not cover.
	Stale func(ctx context.Context) (bool, error)
	// Chores does the periodic work. It runs concurrently with everything else.
	Chores func(ctx context.Context)
	// Say is called soon after the state of an inbox has changed, each minute, and at the end. It
	// runs concurrently with everything else, and reports what is worth reporting. It is given all
	// inboxes; those that were not visited since it was called before are Busy. If it returns
	// false, it gets the same again.
	Say        func(ctx context.Context, inboxes []pass.InboxReport) bool
	RelayFault func() error
	// End is called when nothing is visited any more. It waits until messages in flight are
	// finished.
	End func()
	// Close is called after End, when all sessions are closed or adopted.
	Close func()
}

// Config is how a process stays up. All fields must be set.
type Config struct {
	Load   func(ctx context.Context) (*Setup, error) // reads the configuration
	Files  func() string                             // differs when the files of the configuration do
	Random func() float64                            // in [0, 1)
	Notify Notify
	Log    *slog.Logger
}

// How often things are looked at.
const (
	filesEvery   = 2 * time.Second
	inboxesEvery = 15 * time.Second
	dueEvery     = 10 * time.Second
	staleEvery   = time.Minute
	choresEvery  = time.Minute
	sayEvery     = time.Minute
	sayAfter     = time.Second // inboxes of one server seldom fail at the same moment
)

// Watch is a process that stays up.
type Watch struct {
	cfg     Config
	trouble *trouble // of the database
	reload  chan struct{}
	changed chan struct{} // has an element when the state of an inbox has changed

	config string // Config.Files when the configuration was last read
	seen   string // Config.Files at the last look

	ending sync.WaitGroup // setups that are no longer in force
	chores chore
	sayer  chore

	mu      sync.Mutex
	setup   *Setup
	broken  string            // why the configuration cannot be used; empty when it can
	keepers map[int64]*keeper // by the inbox
}

// New makes a process with a first setup.
func New(cfg Config, first *Setup) *Watch {
	files := cfg.Files()
	return &Watch{
		cfg: cfg, setup: first, config: files, seen: files, keepers: map[int64]*keeper{},
		reload: make(chan struct{}, 1), changed: make(chan struct{}, 1),
		trouble: &trouble{log: cfg.Log, by: map[work]bool{}}, chores: make(chore, 1), sayer: make(chore, 1),
	}
}

// Reload has the configuration read again, and inboxes that fail visited at once.
func (w *Watch) Reload() {
	select {
	case w.reload <- struct{}{}:
	default:
	}
}

// Run works until ctx ends, and reports whether nothing is left to be tried again.
func (w *Watch) Run(ctx context.Context) (clean bool) {
	w.sync(ctx)
	w.cfg.Notify.Send("READY=1", w.status())
	stopNotifying := w.keepNotified(ctx)
	w.loop(ctx)
	w.cfg.Log.Info("stopping: messages in flight are finished, the rest waits for the next start")
	stopNotifying()
	w.cfg.Notify.Send("STOPPING=1")
	return w.end(context.WithoutCancel(ctx))
}

func (w *Watch) loop(ctx context.Context) {
	files, inboxes := time.NewTicker(filesEvery), time.NewTicker(inboxesEvery)
	stale, chores := time.NewTicker(staleEvery), time.NewTicker(choresEvery)
	defer files.Stop()
	defer inboxes.Stop()
	defer stale.Stop()
	defer chores.Stop()
	due, say := time.NewTimer(0), time.NewTimer(sayEvery)
	defer due.Stop()
	defer say.Stop()
	for soon := false; ; { // say is called soon
		select {
		case <-ctx.Done():
			return
		case <-files.C:
			w.readIfChanged(ctx)
		case <-w.reload:
			w.read(ctx, false)
		case <-stale.C:
			w.readIfStale(ctx)
		case <-inboxes.C:
			w.sync(ctx)
			debug.FreeOSMemory() // the list of a thousand inboxes, and at the start what all visits at once needed
		case <-due.C:
			due.Reset(w.deliver(ctx))
		case <-chores.C:
			setup := w.current()
			w.chores.do(func() { setup.Chores(ctx) })
		case <-w.changed:
			if !soon { // else changes without end put it off without end
				soon = true
				say.Reset(sayAfter)
			}
		case <-say.C:
			soon = false
			w.sayer.do(func() { w.say(ctx) })
			say.Reset(sayEvery)
		}
	}
}

// end ends all that Run began, and reports whether nothing is left to be tried again.
func (w *Watch) end(ctx context.Context) (clean bool) {
	clean = w.clean()
	w.chores.wait()
	w.sayer.wait()
	w.say(ctx) // what has changed just now
	setup := w.current()
	held := w.stopAll()
	setup.End()
	due, err := setup.Tasks.DueOf(ctx, w.ids())
	for _, h := range held {
		h.Close()
	}
	setup.Close()
	w.ending.Wait()
	return clean && err == nil && len(due) == 0
}

// current is the setup that is in force.
func (w *Watch) current() *Setup {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.setup
}
