package watch

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"postrider/internal/imapsrc"
	"postrider/internal/inbox"
	"postrider/internal/pass"
)

// site is a Watch over fakes. It runs in a bubble of synctest: time passes only while all wait.
type site struct {
	t      *testing.T
	w      *Watch
	cancel context.CancelFunc
	ended  chan bool // what Run returned

	mu     sync.Mutex
	boxes  []inbox.Inbox
	held   map[int64]*fakeHeld // the last of each inbox
	opened int                 // sessions that were not adopted
	away   error               // of the database
	due    map[int64]int
	next   time.Duration
	files  string
	stale  bool
	load   func() (*Setup, error)
	loads  int
	ends   int // of setups
	closes int // of setups
	relay  error
	chores int
	lasts  chan struct{} // chores end when it is closed; nil: at once
	says   [][]pass.InboxReport
	mute   bool // Say could not say it
	silent bool // the servers of inboxes do not answer
	told   []string
	log    bytes.Buffer
}

// onSite runs a test while n inboxes are watched.
func onSite(t *testing.T, n int, test func(t *testing.T, s *site)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := &site{t: t, held: map[int64]*fakeHeld{}, due: map[int64]int{}, files: "1", ended: make(chan bool, 1)}
		for i := range n {
			s.boxes = append(s.boxes, inbox.Inbox{ID: int64(i + 1), Address: "box", Host: "imap.example", Port: 993})
		}
		s.load = func() (*Setup, error) { return s.setup("logins"), nil }
		s.w = New(Config{
			Load: func(context.Context) (*Setup, error) {
				s.mu.Lock()
				defer s.mu.Unlock()
				s.loads++
				return s.load()
			},
			Files: func() string {
				s.mu.Lock()
				defer s.mu.Unlock()
				return s.files
			},
			Random: func() float64 { return 0.5 },
			Notify: s, Log: slog.New(slog.NewTextHandler(s, nil)),
		}, s.setup("logins"))
		ctx, cancel := context.WithCancel(t.Context())
		s.cancel = cancel
		go func() { s.ended <- s.w.Run(ctx) }()
		synctest.Wait()
		test(t, s)
		s.end()
		if t.Failed() {
			t.Logf("the log:\n%s", s.log.String())
		}
	})
}

// end ends the Watch, and returns whether it was clean.
func (s *site) end() bool {
	s.cancel()
	clean := <-s.ended
	s.ended <- clean
	for id, h := range s.held {
		if !h.isClosed() {
			s.t.Errorf("inbox %d was not closed", id)
		}
	}
	return clean
}

func (s *site) setup(logins string) *Setup {
	return &Setup{
		Patience: pass.Patience{Idle: 9 * time.Minute, Poll: time.Minute},
		Inboxes: func(context.Context) ([]inbox.Inbox, error) {
			s.mu.Lock()
			defer s.mu.Unlock()
			return s.boxes, s.away
		},
		Hold: s.hold, Tasks: s, Logins: logins,
		Stale: func(context.Context) (bool, error) { s.mu.Lock(); defer s.mu.Unlock(); return s.stale, nil },
		Chores: func(context.Context) {
			var lasts chan struct{}
			s.change(func() { s.chores, lasts = s.chores+1, s.lasts })
			if lasts != nil {
				<-lasts
			}
		},
		Say: func(_ context.Context, r []pass.InboxReport) (said bool) {
			s.change(func() { s.says = append(s.says, r); said = !s.mute })
			return said
		},
		RelayFault: func() error { s.mu.Lock(); defer s.mu.Unlock(); return s.relay },
		End:        func() { s.count(&s.ends) },
		Close:      func() { s.count(&s.closes) },
	}
}

func (s *site) count(n *int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	*n++
}

// number reads what is counted.
func (s *site) number(n *int) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return *n
}

func (s *site) hold(in inbox.Inbox, from Held) Held {
	s.mu.Lock()
	defer s.mu.Unlock()
	h := &fakeHeld{site: s, in: in, news: make(chan struct{}, 1), lost: make(chan error, 1)}
	if before, ok := from.(*fakeHeld); ok && before != nil {
		h.connected, h.visit, h.keepsConnection = before.connected, before.visit, before.keepsConnection
		before.connected = false
	} else {
		s.opened++
		if before := s.held[in.ID]; before != nil {
			h.visit = before.visit
		}
	}
	s.held[in.ID] = h
	return h
}

func (s *site) isSilent() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.silent
}

func (s *site) box(id int64) *fakeHeld {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.held[id]
}

// DueOf and NextDue implement Tasks.
func (s *site) DueOf(context.Context, []int64) (map[int64]int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.due, s.away
}

func (s *site) NextDue(context.Context, []int64) (time.Duration, bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.next, s.next > 0, s.away
}

// Send, Reloading and Watchdog implement Notify.
func (s *site) Send(state ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.told = append(s.told, strings.Join(state, " "))
}

func (s *site) Reloading()              { s.Send("RELOADING=1") }
func (s *site) Watchdog() time.Duration { return time.Minute }

// Write takes the log.
func (s *site) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.log.Write(p)
}

// wantLogged checks how often the log has a line with a text.
func (s *site) wantLogged(text string, want int) {
	s.t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	if n := strings.Count(s.log.String(), text); n != want {
		s.t.Errorf("the log says %d times %q, want %d times\n%s", n, text, want, s.log.String())
	}
}

// change changes what the others see.
func (s *site) change(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f()
}

// after lets time pass.
func after(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// fakeHeld is an inbox that is held.
type fakeHeld struct {
	site *site
	in   inbox.Inbox
	news chan struct{} // something arrived
	lost chan error    // the connection breaks

	visit     func() (*inbox.Busy, error) // nil: it works
	visits    int
	delivered int
	connected bool
	closed    bool
	waits     []pass.Patience // that Await was asked for

	keepsConnection bool // when a visit fails
	deaf            bool // the server does not answer LOGOUT
}

func (h *fakeHeld) Visit(ctx context.Context) (*inbox.Busy, error) {
	if h.site.isSilent() {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	h.site.mu.Lock()
	defer h.site.mu.Unlock()
	h.visits++
	var busy *inbox.Busy
	var err error
	if h.visit != nil {
		busy, err = h.visit()
	}
	h.connected = err == nil || h.keepsConnection
	return busy, err
}

// does sets what visits come to, nil: they work.
func (h *fakeHeld) does(visit func() (*inbox.Busy, error)) {
	h.site.mu.Lock()
	defer h.site.mu.Unlock()
	h.visit = visit
}

func (h *fakeHeld) is(connected bool) {
	h.site.mu.Lock()
	defer h.site.mu.Unlock()
	h.connected = connected
}

func (h *fakeHeld) Await(ctx context.Context, p pass.Patience) error {
	h.site.mu.Lock()
	h.waits = append(h.waits, p)
	h.site.mu.Unlock()
	select {
	case <-h.news:
	case err := <-h.lost:
		h.is(false)
		return err
	case <-time.After(p.Idle):
	case <-ctx.Done():
	}
	return nil
}

func (h *fakeHeld) Deliver(context.Context) { h.site.count(&h.delivered) }
func (h *fakeHeld) Ready() bool             { return h.Connected() }

func (h *fakeHeld) isClosed() bool {
	h.site.mu.Lock()
	defer h.site.mu.Unlock()
	return h.closed
}

func (h *fakeHeld) waited() []pass.Patience {
	h.site.mu.Lock()
	defer h.site.mu.Unlock()
	return h.waits
}

func (h *fakeHeld) Connected() bool {
	h.site.mu.Lock()
	defer h.site.mu.Unlock()
	return h.connected
}

func (h *fakeHeld) Close() {
	if h.deaf {
		time.Sleep(3 * time.Second)
	}
	h.site.mu.Lock()
	defer h.site.mu.Unlock()
	h.connected, h.closed = false, true
}

// Failures of a visit.
var (
	errAway    = errors.New("the database is away")
	errNetwork = &imapsrc.Error{
		Kind: imapsrc.KindNetwork, Op: "connect", Host: "imap.example:993", Err: errors.New("no route to host"),
	}
	errAuth = &imapsrc.Error{
		Kind: imapsrc.KindAuth, Op: "log in", Host: "imap.example:993", Err: errors.New("NO wrong password"),
	}
	errLimit = &imapsrc.Error{Kind: imapsrc.KindLimit, Err: errors.New("too many")}
	errLater = &imapsrc.Error{Kind: imapsrc.KindUnavailable, Err: errors.New("later"), BackOff: 20 * time.Minute}
)

// failing is a visit that fails.
func failing(err error) func() (*inbox.Busy, error) {
	return func() (*inbox.Busy, error) { return nil, err }
}
