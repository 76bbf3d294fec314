package notify

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"mime/quotedprintable"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"gorm.io/gorm"

	"postrider/internal/db"
	"postrider/internal/forward"
	"postrider/internal/inbox"
	"postrider/internal/message"
	"postrider/internal/tasks"
	"postrider/internal/tasks/sqlqueue"
	"postrider/internal/testserver"
)

func TestMain(m *testing.M) { testserver.Main(m) }

const operator = "ops@firm.example"

// bench is a database with a notifier and a fake relay.
type bench struct {
	*Notifier
	t     *testing.T
	ctx   context.Context
	db    *db.DB
	boxes *inbox.Store
	queue *sqlqueue.Queue
	relay *fakeRelay
	logs  *bytes.Buffer
	ahead time.Duration // how far SQLite's clock is ahead

	in   inbox.Inbox
	last uint32 // UID
}

func config(t *testing.T, kind string) db.Config {
	switch kind {
	case "mariadb":
		return db.Config{Driver: db.MySQL, DSN: testserver.MariaDB(t).NewDatabase(t)}
	case "mysql":
		return db.Config{Driver: db.MySQL, DSN: testserver.MySQL(t).NewDatabase(t)}
	}
	return db.Config{Driver: db.SQLite, Path: filepath.Join(t.TempDir(), "p.db")}
}

func onEach(t *testing.T, test func(t *testing.T, b *bench)) {
	t.Helper()
	for _, kind := range []string{"sqlite", "mariadb", "mysql"} {
		t.Run(kind, func(t *testing.T) { test(t, newBench(t, config(t, kind))) })
	}
}

func newBench(t *testing.T, cfg db.Config) *bench {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	t.Cleanup(cancel)
	b := &bench{t: t, ctx: ctx, relay: &fakeRelay{}, logs: &bytes.Buffer{}}
	d, err := db.OpenAnySchema(ctx, cfg, db.WithNow(func() time.Time { return time.Now().Add(b.ahead) }))
	b.check(err)
	t.Cleanup(func() { _ = d.Close() })
	_, err = d.Migrate(ctx)
	b.check(err)
	made, err := forward.NewComposer(forward.ComposeConfig{From: "Forwarder <forwarder@firm.example>"})
	b.check(err)
	b.db, b.boxes, b.queue = d, inbox.New(d, inbox.OpenSealer(filepath.Join(t.TempDir(), "key"))), sqlqueue.New(d)
	b.Notifier = &Notifier{
		Config: Config{
			To: []string{operator}, On: Kinds(), AtMost: time.Hour, Host: "mail-a", Worker: "mail-a:1:x",
			Lease: time.Minute,
		},
		Store: NewStore(d), Tasks: b.queue, Composer: made, Begin: b.relay.Begin,
		Env: func(string) (string, bool) { return "", false },
		Log: slog.New(slog.NewTextHandler(b.logs, nil)),
	}
	b.in, err = b.boxes.Add(ctx,
		inbox.Inbox{Address: "desk@firm.example", Host: "imap.firm.example", Folders: []inbox.Folder{{Name: "INBOX"}}},
		"hunter2")
	b.check(err)
	b.exec(`UPDATE monitored_folders SET uid_validity = 7, initialized_at = ?`, time.Now().UTC())
	return b
}

func (b *bench) check(err error) {
	b.t.Helper()
	if err != nil {
		b.t.Fatal(err)
	}
}

func (b *bench) exec(query string, args ...any) {
	b.t.Helper()
	b.check(b.db.Tx(b.ctx, func(tx *gorm.DB) error { return tx.Exec(query, args...).Error }))
}

// count returns the number that a query selects.
func (b *bench) count(query string) (n int) {
	b.t.Helper()
	b.check(b.db.View(b.ctx, func(tx *gorm.DB) error { return tx.Raw(query).Scan(&n).Error }))
	return n
}

// task registers a message and returns its task.
func (b *bench) task(subject string) int64 {
	b.t.Helper()
	b.last++
	done, err := b.queue.Register(b.ctx, tasks.Page{
		InboxID: b.in.ID, FolderID: b.in.Folders[0].ID, Epoch: 7, ScanToken: 0, Cursor: b.last, Dedupe: tasks.DedupeOff,
		Entries: []tasks.Entry{{
			UID: b.last,
			Identity: tasks.Identity{
				Fingerprint: message.Fingerprint(fmt.Appendf(nil, "%032d", b.last)),
				MessageID:   fmt.Sprintf("<%d@x>", b.last),
				Subject:     subject, Sender: "Eve <eve@client.example>",
			},
		}},
	})
	b.check(err)
	return done[0].TaskID
}

// ends claims the tasks that are due and finishes them with this status.
func (b *bench) ends(as tasks.Status, ds ...tasks.Delivery) {
	b.t.Helper()
	for {
		claims, err := b.queue.Receive(b.ctx, tasks.Want{
			InboxID: b.in.ID, Max: 100, Lease: time.Minute, Worker: "w", MaxLostLeases: 3,
		})
		b.check(err)
		if len(claims) == 0 {
			return
		}
		for _, c := range claims {
			b.check(b.queue.Finish(b.ctx, c.Receipt,
				tasks.Result{Status: as, Reason: "permanently refused", Deliveries: ds}))
		}
	}
}

var refused = tasks.Delivery{
	Recipient: "nobody@firm.example", Status: tasks.Failed, Code: 550,
	Reply: "5.1.1 there is nobody",
}

// dies registers a message that ends dead.
func (b *bench) dies(subject string) int64 {
	b.t.Helper()
	id := b.task(subject)
	b.ends(tasks.Dead, refused)
	return id
}

// scan records a scan of the inbox; it fails unless failure is empty.
func (b *bench) scan(failure string) {
	b.t.Helper()
	b.scanEnds(inbox.ScanEnd{Failure: failure})
}

func (b *bench) scanEnds(end inbox.ScanEnd) {
	b.t.Helper()
	lease, busy, err := b.boxes.AcquireScan(b.ctx, b.in.ID, "run", time.Minute)
	if err != nil || busy != nil {
		b.t.Fatal(err, busy)
	}
	b.check(b.boxes.FinishScan(b.ctx, lease.Scan(), end))
	b.exec(`UPDATE monitored_emails SET scan_token = 0`) // the token that task uses
}

// passes moves the leases of the channels into the past.
func (b *bench) passes(d time.Duration) {
	b.t.Helper()
	b.exec(`UPDATE monitored_emails_channels SET held_at = held_at - ?`, d.Microseconds())
}

// later moves all times of the channels two hours into the past.
func (b *bench) later() {
	b.t.Helper()
	const hours = int64(2 * time.Hour / time.Microsecond)
	b.exec(`UPDATE monitored_emails_channels
		SET told_at = told_at - ?, failed_at = failed_at - ?, held_at = held_at - ?`, hours, hours, hours)
}

// send calls Notify and returns the subjects of the mails that were sent.
func (b *bench) send() []string {
	b.t.Helper()
	b.relay.sent = nil
	b.Notify(b.ctx, true)
	return b.relay.subjects()
}

func (b *bench) wantSent(what string, subjects ...string) {
	b.t.Helper()
	if got := b.send(); strings.Join(got, "|") != strings.Join(subjects, "|") {
		b.t.Errorf("%s: mails with the subjects %q were sent, want %q\nlog: %s", what, got, subjects, b.logs)
	}
}

// fakeRelay accepts everything, unless err or status is set.
type fakeRelay struct {
	mu     sync.Mutex
	sent   []sentMail
	mail   func() // called at MAIL
	before func() // called after the message was accepted, before the reply
	left   int    // how many transactions end before the content
	err    error
	status forward.Status // Accepted when empty
}

type sentMail struct {
	env forward.Envelope
	raw string
}

func (r *fakeRelay) Begin(_ context.Context, env forward.Envelope, c *forward.Content) (Transaction, error) {
	raw, err := io.ReadAll(c.Reader())
	if err != nil {
		return &fakeTransaction{}, err
	}
	if r.mail != nil {
		r.mail()
	}
	return &fakeTransaction{relay: r, mail: sentMail{env, string(raw)}}, nil
}

// fakeTransaction is one mail to a fakeRelay.
type fakeTransaction struct {
	relay    *fakeRelay
	mail     sentMail
	outcomes []forward.Outcome
	rest     []string
}

func (f *fakeTransaction) Accepted() []string          { return f.mail.env.To }
func (f *fakeTransaction) Outcomes() []forward.Outcome { return f.outcomes }
func (f *fakeTransaction) Rest() []string              { return f.rest }
func (f *fakeTransaction) Reset()                      {}

func (f *fakeTransaction) Send() ([]forward.Outcome, error) {
	r, to := f.relay, f.mail.env.To[0]
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.err != nil {
		return nil, r.err
	}
	if r.left > 0 {
		r.left, f.rest = r.left-1, f.mail.env.To
		return nil, nil
	}
	if r.status != "" && r.status != forward.Accepted {
		f.outcomes = []forward.Outcome{{Recipient: to, Status: r.status, Code: 550, Enhanced: "5.1.1", Reply: "no"}}
		return f.outcomes, nil
	}
	r.sent = append(r.sent, f.mail)
	if r.before != nil {
		r.before()
	}
	f.outcomes = []forward.Outcome{{Recipient: to, Status: forward.Accepted, Code: 250}}
	return f.outcomes, nil
}

func (r *fakeRelay) subjects() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	var out []string
	for _, m := range r.sent {
		_, rest, _ := strings.Cut(m.raw, "\r\nSubject: ")
		s, _, _ := strings.Cut(rest, "\r\nDate: ")
		out = append(out, strings.ReplaceAll(s, "\r\n ", " "))
	}
	return out
}

// ended is a context that ends for another reason.
type ended struct {
	context.Context
	why error
}

func (e ended) Err() error {
	if e.Context.Err() != nil {
		return e.why
	}
	return nil
}

func wait(t *testing.T, what string, done func() bool) {
	t.Helper()
	for end := time.Now().Add(30 * time.Second); !done(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("waited 30 s for %s", what)
		}
	}
}

// plan returns the database's plan of a query.
func (b *bench) plan(query string, args ...any) string {
	b.t.Helper()
	explain := "EXPLAIN "
	if b.db.Dialect() == db.SQLite {
		explain = "EXPLAIN QUERY PLAN "
	}
	var rows []map[string]any
	b.check(b.db.View(b.ctx, func(tx *gorm.DB) error { return tx.Raw(explain+query, args...).Scan(&rows).Error }))
	return fmt.Sprint(rows)
}

// body returns the text of a mail.
func body(t *testing.T, raw string) string {
	t.Helper()
	_, encoded, _ := strings.Cut(raw, "\r\n\r\n")
	text, err := io.ReadAll(quotedprintable.NewReader(strings.NewReader(encoded)))
	if err != nil {
		t.Fatal(err)
	}
	return strings.ReplaceAll(string(text), "\r\n", "\n")
}
