package pass

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"net/mail"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"postrider/internal/db"
	"postrider/internal/forward"
	"postrider/internal/imapsrc"
	"postrider/internal/inbox"
	"postrider/internal/limits"
	"postrider/internal/message"
	"postrider/internal/route"
	"postrider/internal/tasks"
	"postrider/internal/tasks/sqlqueue"
	"postrider/internal/testserver"
	"postrider/internal/testserver/memimap"
	"postrider/internal/testserver/smtpsink"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(testserver.M{TestingM: m}) }

const (
	address  = "desk@firm.example"
	password = "secret"
)

// rig is a pass over one inbox with the real queue, the real IMAP client and the real SMTP client,
// on servers inside the process.
type rig struct {
	*Pass
	t     *testing.T
	db    db.Config
	store *inbox.Store
	queue *sqlqueue.Queue
	imap  *memimap.Server
	sink  *smtpsink.Server
	clock *clock
	log   *syncBuffer
}

// clock is a clock that is set by hand: the pass's, and the database's.
type clock struct {
	mu  sync.Mutex
	now time.Time
}

func (c *clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *clock) advance(d time.Duration) {
	c.mu.Lock()
	c.now = c.now.Add(d)
	c.mu.Unlock()
}

type syncBuffer struct {
	mu sync.Mutex
	bytes.Buffer
}

func (b *syncBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.Buffer.Write(p)
}

type nobody struct{}

func (nobody) Expect(int)               {}
func (nobody) Done(int)                 {}
func (nobody) Would(*Would, tasks.Task) {}

func newRig(t *testing.T, reply func(smtpsink.Event) smtpsink.Action, rules ...route.Rule) *rig {
	t.Helper()
	return newRigOn(t, db.Config{Driver: "sqlite", Path: filepath.Join(t.TempDir(), "p.db")}, reply, rules...)
}

func newRigOn(t *testing.T, cfg db.Config, reply func(smtpsink.Event) smtpsink.Action, rules ...route.Rule) *rig {
	t.Helper()
	r := &rig{t: t, db: cfg, clock: &clock{now: time.Date(2026, 11, 20, 10, 0, 0, 0, time.UTC)}, log: &syncBuffer{}}
	var err error
	r.store, r.queue = r.open(r.clock.Now)
	r.imap, err = memimap.Start(memimap.Options{})
	check(t, err)
	t.Cleanup(r.imap.Close)
	check(t, r.imap.AddUser(address, password))
	r.sink, err = smtpsink.Start(smtpsink.Options{
		Extensions: []string{"8BITMIME", "SMTPUTF8", "PIPELINING"}, KeepData: true, Reply: reply,
	})
	check(t, err)
	t.Cleanup(r.sink.Close)
	if rules == nil {
		rules = []route.Rule{{Name: "all", To: []string{"team@firm.example"}}}
	}
	table, err := route.Compile(rules)
	check(t, err)
	composer, err := forward.NewComposer(forward.ComposeConfig{From: "Intake <forwarder@firm.example>"})
	check(t, err)
	spooler := &message.Spooler{Limit: 1 << 20, Budget: 16 << 20}
	r.Pass = &Pass{
		Config: Config{
			Worker: "test:1", Lease: time.Minute, Page: 4, Turns: Turns{2, 2, anyNumber}, Senders: 2,
			MaxSize: 1 << 20, MaxReceived: 50, Dedupe: tasks.DedupeInbox,
			Style: route.Style{Mode: route.Redirect, Fallback: route.FallbackNone},
			Policy: tasks.Policy{
				MaxAttempts: 5, GiveUpAfter: 96 * time.Hour, Base: time.Minute, Max: time.Hour, MaxLostLeases: 3,
				Jitter: func() float64 { return 0.5 },
			},
		},
		Inboxes: r.store, Queue: r.queue, Routes: table, Composer: composer, Relay: r.relay(),
		Limits: limits.New(nil, limits.Config{}), Now: r.clock.Now,
		Log: slog.New(slog.NewTextHandler(r.log, &slog.HandlerOptions{Level: slog.LevelDebug})), Observer: nobody{},
		Dial: func(ctx context.Context, in inbox.Inbox) (Source, error) {
			return imapsrc.Dial(ctx, imapsrc.Config{
				Host: in.Host, Port: in.Port, Security: imapsrc.SecurityNone, Proxy: "direct",
				Username: in.Username, Password: password, ClientName: "postrider",
				MaxSize: r.Config.MaxSize, DialTimeout: time.Minute, IdleTimeout: time.Minute,
				Spooler: spooler, Logger: slog.New(slog.DiscardHandler),
			})
		},
	}
	return r
}

// open opens the database, as one more process does that has this clock.
func (r *rig) open(now func() time.Time) (*inbox.Store, *sqlqueue.Queue) {
	r.t.Helper()
	d, err := db.OpenAnySchema(r.t.Context(), r.db, db.WithNow(now))
	check(r.t, err)
	r.t.Cleanup(func() { _ = d.Close() })
	_, err = d.Migrate(r.t.Context())
	check(r.t, err)
	return inbox.New(d, inbox.OpenSealer(filepath.Join(r.t.TempDir(), "key"))), sqlqueue.New(d)
}

func (r *rig) relay() Relay { return r.relayWith(nil) }

func (r *rig) relayWith(quota forward.Quota) Relay {
	r.t.Helper()
	relay, err := forward.NewRelay(forward.Config{
		Host: "127.0.0.1", Port: r.sink.Port(), Security: "none", Connections: 2,
		From: "forwarder@firm.example", Quota: quota,
	})
	check(r.t, err)
	r.t.Cleanup(func() { _ = relay.Close() })
	return SMTP{relay}
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// add makes the inbox.
func (r *rig) add(start inbox.Start, folders ...string) {
	r.t.Helper()
	in := inbox.Inbox{
		Address: address, Host: "127.0.0.1", Port: r.imap.Port(), Security: inbox.None, Start: start, Active: true,
	}
	for _, name := range folders {
		in.Folders = append(in.Folders, inbox.Folder{Name: name})
	}
	_, err := r.store.Add(r.t.Context(), in, password)
	check(r.t, err)
}

// addOther makes one more inbox, at the same server, with all that is in its INBOX.
func (r *rig) addOther(addr string) {
	r.t.Helper()
	check(r.t, r.imap.AddUser(addr, password))
	_, err := r.store.Add(r.t.Context(), inbox.Inbox{
		Address: addr, Host: "127.0.0.1", Port: r.imap.Port(), Security: inbox.None,
		Start: inbox.StartAll, Active: true,
	}, password)
	check(r.t, err)
}

// behind puts a wrapper between the pass and the server, until restore is called.
func (r *rig) behind(wrap func(Source) Source) (restore func()) {
	dial := r.Dial
	r.Dial = func(ctx context.Context, in inbox.Inbox) (Source, error) {
		src, err := dial(ctx, in)
		return wrap(src), err
	}
	return func() { r.Dial = dial }
}

// run is one pass.
func (r *rig) run() InboxReport {
	r.t.Helper()
	return r.runCtx(r.t.Context()).Inboxes[0]
}

func (r *rig) runCtx(ctx context.Context) Report {
	r.t.Helper()
	boxes, err := r.store.Active(r.t.Context())
	check(r.t, err)
	return r.Run(ctx, boxes)
}

// put stores messages and returns their UIDs.
func (r *rig) put(folder string, msgs ...[]byte) []uint32 {
	r.t.Helper()
	uids, err := r.imap.Append(address, folder, msgs...)
	check(r.t, err)
	return uids
}

func mails(n int) [][]byte {
	var out [][]byte
	for i := range n {
		out = append(out, testserver.Mail("alice@client.example", address, fmt.Sprintf("message %d", i), "hello"))
	}
	return out
}

func (r *rig) want(rep InboxReport, want Counters) {
	r.t.Helper()
	if rep.Error != "" || rep.Counters != want {
		r.t.Errorf("the pass reports %+v, error %q; want %+v and no error\n%s",
			rep.Counters, rep.Error, want, r.log.String())
	}
}

// wantArrived checks that each of the messages arrived exactly once, and nothing else did.
func (r *rig) wantArrived(groups ...[][]byte) {
	r.t.Helper()
	got := map[string]int{}
	for _, m := range r.sink.Messages() {
		got[messageID(r.t, m.Header)]++
	}
	for _, g := range groups {
		for _, raw := range g {
			id := messageID(r.t, raw)
			if got[id] != 1 {
				r.t.Errorf("message %s arrived %d times, want once", id, got[id])
			}
			delete(got, id)
		}
	}
	if len(got) > 0 {
		r.t.Errorf("messages arrived that should not have: %v", got)
	}
}

func messageID(t *testing.T, raw []byte) string {
	t.Helper()
	m, err := mail.ReadMessage(bytes.NewReader(raw))
	check(t, err)
	return m.Header.Get("Message-ID")
}

// stored is the inbox as it is in the database now.
func (r *rig) stored() inbox.Inbox {
	r.t.Helper()
	in, err := r.store.Get(r.t.Context(), address)
	check(r.t, err)
	return in
}

// rewind puts a folder's cursor back to the beginning.
func (r *rig) rewind(f inbox.Folder) {
	r.t.Helper()
	busy, err := r.store.UnderScan(r.t.Context(), f.InboxID, "rewind", func(by inbox.Scan) error {
		return r.store.Rewind(r.t.Context(), by, f, 0, "ann", "a test")
	})
	check(r.t, err)
	if busy != nil {
		r.t.Fatalf("the inbox is busy: %+v", busy)
	}
}

// disable takes the inbox out of use.
func (r *rig) disable() {
	r.t.Helper()
	check(r.t, r.queue.Disable(r.t.Context(), tasks.By{Who: "ann"}, r.stored().ID))
}
