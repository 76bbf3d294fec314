package web_test

import (
	"cmp"
	"context"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"gorm.io/gorm"

	"postrider/internal/db"
	"postrider/internal/health"
	"postrider/internal/inbox"
	"postrider/internal/limits"
	"postrider/internal/measure"
	"postrider/internal/notify"
	"postrider/internal/outbox"
	"postrider/internal/status"
	"postrider/internal/tasks"
	"postrider/internal/tasks/sqlqueue"
	"postrider/internal/testserver"
	"postrider/internal/web"
)

func TestMain(m *testing.M) { testserver.Main(m) }

// site is the page over a real database.
type site struct {
	*httptest.Server
	t        *testing.T
	db       *db.DB
	queue    *sqlqueue.Queue
	boxes    *inbox.Store
	now      time.Time // of the pages and of the database
	relay    error
	probes   atomic.Int32 // how often the relay was tried
	logins   map[int64]string
	follows  []outbox.Standing
	alerts   health.Limits
	uid      int
	folder   map[string]int64 // by the inbox's address
	inboxID  map[string]int64
	settings web.Settings
	options  web.Options
	tx       *gorm.DB // see atOnce
	page     *web.Server
	audit    func(ctx context.Context, in inbox.Inbox, who string) // in place of the real one
}

// noon is the time on all pages.
var noon = time.Date(2026, 3, 31, 12, 34, 56, 0, time.UTC)

// newSite starts the page on an empty SQLite file. how may change its settings and options.
func newSite(t *testing.T, how ...func(*site)) *site {
	t.Helper()
	return startSite(t, db.Config{Driver: db.SQLite, Path: filepath.Join(t.TempDir(), "p.db")}, how...)
}

func startSite(t *testing.T, where db.Config, how ...func(*site)) *site {
	t.Helper()
	s := &site{t: t, now: noon, folder: map[string]int64{}, inboxID: map[string]int64{}, logins: map[int64]string{}}
	now := func() time.Time { return s.now }
	d, err := db.Open(t.Context(), where, db.WithNow(now), db.WithRetryFor(time.Second))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = d.Close() })
	s.db, s.queue = d, sqlqueue.New(d)
	s.boxes = inbox.New(d, inbox.OpenSealer(filepath.Join(t.TempDir(), "key")))
	log := slog.New(slog.NewTextHandler(io.Discard, nil))
	sources := status.Sources{
		Inboxes: s.boxes, Queue: s.queue, Quota: noQuota{}, Log: log,
		Measures: measure.New(d).Read,
		Notices:  func(context.Context) ([]notify.Waiting, error) { return nil, nil },
		Logins:   func(context.Context) (map[int64]string, error) { return s.logins, nil },
		Events:   func(context.Context) ([]outbox.Standing, error) { return s.follows, nil },
	}
	s.settings = web.Settings{Listen: "127.0.0.1:0", Key: make([]byte, 32), Now: now, Log: log}
	s.options = web.Options{
		Queue: s.queue, Inboxes: s.boxes, PassEvery: time.Hour, Now: now, Zone: time.UTC, Log: log,
		Audit: func(ctx context.Context, in inbox.Inbox, who string) { s.audit(ctx, in, who) },
		Relay: web.Relay{Name: "smtp.firm.example:587", Patience: 5 * time.Second},
	}
	s.options.Relay.Probe = func(context.Context) error {
		s.probes.Add(1)
		return s.relay
	}
	for _, h := range how {
		h(s)
	}
	sources.Alerts = s.alerts
	s.options.Status = sources.Read
	s.options.Access, err = web.Open(s.settings)
	if err != nil {
		t.Fatal(err)
	}
	s.page = web.New(s.options)
	t.Cleanup(s.page.Close)
	s.Server = httptest.NewServer(s.page.Handler())
	t.Cleanup(s.Close)
	return s
}

type noQuota struct{}

func (noQuota) Limited() bool { return false }

// Left is not called.
func (noQuota) Left(context.Context) (int, *limits.Reached, error) { return 0, nil, nil }

// exec changes the database behind the page's back.
func (s *site) exec(sql string, args ...any) {
	s.t.Helper()
	do := func(tx *gorm.DB) error { return tx.Exec(sql, args...).Error }
	var err error
	if s.tx != nil {
		err = do(s.tx)
	} else {
		err = s.db.Tx(s.t.Context(), do)
	}
	if err != nil {
		s.t.Fatalf("%s: %v", sql, err)
	}
}

// number is the one number that a query has.
func (s *site) number(sql string, args ...any) (n int64) {
	s.t.Helper()
	do := func(tx *gorm.DB) error { return tx.Raw(sql, args...).Scan(&n).Error }
	var err error
	if s.tx != nil {
		err = do(s.tx)
	} else {
		err = s.db.View(s.t.Context(), do)
	}
	if err != nil {
		s.t.Fatalf("%s: %v", sql, err)
	}
	return n
}

// atOnce runs many of these in one transaction.
func (s *site) atOnce(f func()) {
	s.t.Helper()
	err := s.db.Tx(s.t.Context(), func(tx *gorm.DB) error {
		s.tx = tx
		defer func() { s.tx = nil }()
		f()
		return nil
	})
	if err != nil {
		s.t.Fatal(err)
	}
}

// add makes an inbox that was read a minute ago.
func (s *site) add(address string, labels ...string) {
	s.t.Helper()
	l, err := inbox.ParseLabels(labels)
	if err != nil {
		s.t.Fatal(err)
	}
	in := inbox.Inbox{Address: address, Host: "imap.firm.example", Labels: l, Active: true}
	in, err = s.boxes.Add(s.t.Context(), in, "sesame")
	if err != nil {
		s.t.Fatal(err)
	}
	s.inboxID[address], s.folder[address] = in.ID, in.Folders[0].ID
	ago := s.now.Add(-time.Minute)
	s.exec(`UPDATE monitored_emails SET last_scanned_at = ? WHERE id = ?`, ago, in.ID)
	s.exec(`UPDATE monitored_folders SET uid_validity = 1743400000, last_seen_uid = 4711, `+
		`initialized_at = ?, last_scanned_at = ? WHERE inbox_id = ?`, ago, ago, in.ID)
}

// msg is a message to put into the registry.
type msg struct {
	inbox, from, subject string
	status               tasks.Status
	skip                 tasks.SkipReason
	reason               string
	ago                  time.Duration // since it was registered
	took                 time.Duration // until it ended; two seconds unless given
	to                   []tasks.Delivery
}

// put registers a message as it would stand later, and returns the number of its task.
func (s *site) put(m msg) int64 {
	s.t.Helper()
	s.uid++
	at := s.now.Add(-m.ago)
	var finished *time.Time
	var visible *int64
	if m.status.Ended() {
		later := at.Add(cmp.Or(m.took, 2*time.Second))
		finished = &later
	} else {
		micros := s.now.Add(5 * time.Minute).UnixMicro()
		visible = &micros
	}
	fingerprint := sha256.Sum256(fmt.Append(nil, s.uid))
	s.exec(`INSERT INTO monitored_emails_tasks (inbox_id, folder_id, uid_validity, uid, message_id, fingerprint,
		is_read, subject, sender, email_date, size, revision, route, mode, priority, status, skip_reason, attempt_count,
		lost_leases, visible_at, receipt, worker, error_message, created_at, queued_at, updated_at, finished_at)
		VALUES (?, ?, 1, ?, ?, ?, 1, ?, ?, ?, 48213, 'r1', ?, 'redirect', 0, ?, ?, 1,
		0, ?, '', 'mail-a:4242:KX7PQ2AB', ?, ?, ?, ?, ?)`,
		s.inboxID[m.inbox], s.folder[m.inbox], s.uid, fmt.Sprintf("<%d.7f3a@mail.example>", s.uid), fingerprint[:],
		m.subject, m.from, at.Add(-20*time.Second), "court-notices", m.status, m.skip, visible, m.reason,
		at, at, at, finished)
	id := s.number(`SELECT MAX(id) FROM monitored_emails_tasks`)
	for _, d := range m.to {
		if d.Status == tasks.Delivered && d.DeliveredAt == nil {
			d.DeliveredAt = finished
		}
		s.exec(`INSERT INTO monitored_emails_deliveries (task_id, recipient, status, code, reply, attempts, `+
			`delivered_at) VALUES (?, ?, ?, ?, ?, 1, ?)`, id, d.Recipient, d.Status, d.Code, d.Reply, d.DeliveredAt)
	}
	return id
}

func delivered(to string) tasks.Delivery {
	return tasks.Delivery{Recipient: to, Status: tasks.Delivered, Code: 250, Reply: "2.0.0 Ok: queued as 4XkQ7z1Jp2"}
}

// client is a browser without a screen: it keeps cookies and follows no redirect.
func client(t *testing.T) *http.Client {
	t.Helper()
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	stay := func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return &http.Client{Jar: jar, CheckRedirect: stay}
}

// answer is what came of a request.
type answer struct {
	code   int
	body   string
	header http.Header
}

// do sends a request; header has names and values.
func (s *site) do(c *http.Client, method, path, body string, header ...string) answer {
	s.t.Helper()
	req, err := http.NewRequestWithContext(s.t.Context(), method, s.URL+path, strings.NewReader(body))
	if err != nil {
		s.t.Fatal(err)
	}
	if method == http.MethodPost {
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	for pair := range slices.Chunk(header, 2) {
		if pair[0] == "Host" {
			req.Host = pair[1]
		}
		req.Header.Set(pair[0], pair[1])
	}
	res, err := c.Do(req)
	if err != nil {
		s.t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	return answer{res.StatusCode, string(text), res.Header}
}

func (s *site) get(path string, header ...string) answer {
	s.t.Helper()
	return s.do(client(s.t), http.MethodGet, path, "", header...)
}

// has checks the code of an answer, and that its page has these texts.
func (a answer) has(t *testing.T, code int, texts ...string) {
	t.Helper()
	if a.code != code {
		t.Fatalf("the answer is %d, want %d:\n%s", a.code, code, a.body)
	}
	for _, text := range texts {
		if !strings.Contains(a.body, text) {
			t.Errorf("the page lacks %q:\n%s", text, a.body)
		}
	}
}

// lacks checks that a page does not have these texts.
func (a answer) lacks(t *testing.T, texts ...string) {
	t.Helper()
	for _, text := range texts {
		if strings.Contains(a.body, text) {
			t.Errorf("the page has %q:\n%s", text, a.body)
		}
	}
}

// form is the body of a form.
func form(pairs ...string) string {
	v := url.Values{}
	for pair := range slices.Chunk(pairs, 2) {
		v.Set(pair[0], pair[1])
	}
	return v.Encode()
}

// trail are the lines of a task's trail, as "event by who: detail".
func (s *site) trail(id int64) (out []string) {
	s.t.Helper()
	events, err := s.queue.Events(s.t.Context(), id)
	if err != nil {
		s.t.Fatal(err)
	}
	for _, e := range events {
		out = append(out, fmt.Sprintf("%s by %s: %s", e.Event, e.Worker, e.Detail))
	}
	return out
}

var errRefused = errors.New("connect to smtp.firm.example:587: connection refused")

func itoa(n int64) string { return strconv.FormatInt(n, 10) }

// trusting is a client that trusts a certificate.
func trusting(t *testing.T, certFile string) *http.Client {
	t.Helper()
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(read(t, certFile)) {
		t.Fatal("there is no certificate")
	}
	c := client(t)
	c.Transport = &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}, DisableKeepAlives: true}
	return c
}
