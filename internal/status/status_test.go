package status

import (
	"context"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"postrider/internal/db"
	"postrider/internal/health"
	"postrider/internal/inbox"
	"postrider/internal/limits"
	"postrider/internal/measure"
	"postrider/internal/notify"
	"postrider/internal/outbox"
	"postrider/internal/tasks"
	"postrider/internal/tasks/sqlqueue"
	"postrider/internal/testserver"
)

func noEvents(context.Context) ([]outbox.Standing, error) { return nil, nil }

// TestStatements: many inboxes take as many statements as one.
func TestStatements(t *testing.T) {
	var statements testserver.Statements
	cfg := db.Config{Driver: db.SQLite, Path: filepath.Join(t.TempDir(), "p.db")}
	d, err := db.Open(t.Context(), cfg, db.WithPool(statements.Pool))
	check(t, err)
	t.Cleanup(func() { _ = d.Close() })
	store := inbox.New(d, inbox.OpenSealer(filepath.Join(t.TempDir(), "postrider.key")))
	sources := Sources{
		Inboxes: store, Queue: sqlqueue.New(d), Quota: limits.New(nil, limits.Config{}),
		Notices: func(context.Context) ([]notify.Waiting, error) { return nil, nil },
		Logins:  func(context.Context) (map[int64]string, error) { return nil, nil },
		Events:  noEvents,

		Measures: measure.New(d).Read,
	}
	read := func(inboxes int) []string {
		statements.Taken()
		r, err := sources.Read(t.Context())
		check(t, err)
		if len(r.Inboxes) != inboxes {
			t.Fatalf("%d inboxes are reported, want %d", len(r.Inboxes), inboxes)
		}
		texts, _ := statements.Taken()
		return texts
	}
	var one []string
	for i := range 50 {
		in := inbox.Inbox{Address: fmt.Sprintf("desk%d@firm.example", i), Host: "imap.firm.example"}
		_, err := store.Add(t.Context(), in, "secret")
		check(t, err)
		if i == 0 {
			one = read(1)
		}
	}
	if many := read(50); len(one) > 8 || len(many) != len(one) {
		t.Errorf("one inbox takes %d statements and 50 take %d, want 8 at most, and the same:\n%q",
			len(one), len(many), many)
	}
}

// TestMeasured: what passes measured stands at its inbox and in the report.
func TestMeasured(t *testing.T) {
	yes, until := true, time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)
	failing := inbox.Inbox{
		ID: 7, Address: "desk@firm.example", Active: true,
		LastError: "refused", FailingSince: &until, Labels: inbox.Labels{"tenant": "acme"},
	}
	plain := inbox.Inbox{ID: 8, Address: "plain@firm.example", Active: true, Security: inbox.None}
	disabled := inbox.Inbox{ID: 9, Address: "old@firm.example"}
	sources := Sources{
		Inboxes: fixed{failing, plain, disabled}, Queue: nothing{}, Quota: limits.New(nil, limits.Config{}),
		Notices: func(context.Context) ([]notify.Waiting, error) { return nil, nil },
		Logins:  func(context.Context) (map[int64]string, error) { return nil, nil },
		Events:  noEvents,
		Measures: func(context.Context) (measure.Numbers, error) {
			return measure.Numbers{
				Deliveries:   map[int64][]measure.Deliveries{7: {{Result: "delivered", Reply: "2xx", Count: 3}}},
				LeasesLost:   map[int64]int{7: 2},
				Certificates: map[int64]time.Time{0: until, 7: until, 8: until, 9: until},
				RelayUp:      &yes,
				LastPassAt:   &until,
			}, nil
		},
	}
	r, err := sources.Read(t.Context())
	check(t, err)
	if r.RelayUp == nil || !*r.RelayUp || r.LastPassAt != &until || r.RelayCertificateUntil == nil {
		t.Errorf("the report has relay up %v, last pass %v, certificate %v; want what passes measured",
			r.RelayUp, r.LastPassAt, r.RelayCertificateUntil)
	}
	in := r.Inboxes[0]
	if len(in.Deliveries) != 1 || in.LeasesLost != 2 || in.CertificateUntil == nil ||
		in.FailingSince == nil || in.Labels["tenant"] != "acme" {
		t.Errorf("the inbox is %+v, want what passes measured of it", in)
	}
	if up := in.Up(); up == nil || *up {
		t.Errorf("Up is %v, want false: its last scan failed", up)
	}
	for _, in := range r.Inboxes[1:] {
		if in.CertificateUntil != nil || in.Up() != nil {
			t.Errorf("%s, without TLS or disabled, has a certificate or is up: %+v", in.Email, in)
		}
	}
}

// TestLimitReached: while a limit is used up the next run claims nothing, so nothing is due.
func TestLimitReached(t *testing.T) {
	until := time.Date(2026, 3, 31, 12, 0, 0, 0, time.UTC)
	reached := &limits.Reached{Key: "smtp.limits.per_hour", Limit: 10, Until: until}
	for _, tt := range []struct {
		name  string
		quota used
		due   int
		says  string
	}{
		{"used up", used{0, reached}, 0, reached.Error()},
		{"not used up", used{2, nil}, 3, ""},
	} {
		sources := Sources{
			Inboxes: fixed{{ID: 7, Active: true}}, Queue: three{}, Quota: tt.quota,
			Notices:  func(context.Context) ([]notify.Waiting, error) { return nil, nil },
			Logins:   func(context.Context) (map[int64]string, error) { return nil, nil },
			Measures: func(context.Context) (measure.Numbers, error) { return measure.Numbers{}, nil },
			Events:   noEvents,
		}
		r, err := sources.Read(t.Context())
		check(t, err)
		if in := r.Inboxes[0]; in.Due != tt.due || in.Backlog != 3 || r.LimitReached != tt.says {
			t.Errorf("%s: %d of %d are due, and the report says %q; want %d of 3, and %q",
				tt.name, in.Due, in.Backlog, r.LimitReached, tt.due, tt.says)
		}
	}
}

// TestLate: an active inbox has trouble if its last complete scan is older than its limit.
func TestLate(t *testing.T) {
	now := time.Date(2026, 3, 31, 12, 0, 0, 0, time.UTC)
	ago := func(d time.Duration) *time.Time { at := now.Add(-d); return &at }
	day := 24 * time.Hour
	for _, c := range []struct {
		name string
		in   inbox.Inbox
		want bool
	}{
		{"within the hour", inbox.Inbox{LastScannedAt: ago(time.Hour)}, false},
		{"past it", inbox.Inbox{LastScannedAt: ago(time.Hour + time.Second)}, true},
		{"never", inbox.Inbox{CreatedAt: *ago(2 * time.Hour)}, true},
		{"just enabled", inbox.Inbox{LastScannedAt: ago(7 * day), UpdatedAt: *ago(time.Minute)}, false},
		{
			"a limit of its label",
			inbox.Inbox{LastScannedAt: ago(2 * time.Hour), Labels: inbox.Labels{"slow": "yes"}},
			false,
		},
		{"past that", inbox.Inbox{LastScannedAt: ago(2 * day), Labels: inbox.Labels{"slow": "yes"}}, true},
	} {
		c.in.ID, c.in.Active = 7, true
		sources := Sources{Alerts: health.Limits{Labels: map[string]health.Limits{"slow": {LastScan: &day}}}}
		facts := health.Facts{Inbox: c.in, Stats: tasks.Stats{Now: now}}
		if got := sources.late(facts, health.Count(facts)); got != c.want {
			t.Errorf("%s: late is %t, want %t", c.name, got, c.want)
		}
	}
	if !(Inbox{Active: true, Late: true}).Troubled() {
		t.Error("an inbox that is late has no trouble, want some")
	}
}

// fixed are these inboxes, and nothing is a queue without tasks.
type fixed []inbox.Inbox

func (f fixed) List(context.Context) ([]inbox.Inbox, error) { return f, nil }

type nothing struct{}

func (nothing) Stats(context.Context, []int64) (map[int64]tasks.Stats, error) { return nil, nil }

// three is a queue in which three tasks are due.
type three struct{}

func (three) Stats(context.Context, []int64) (map[int64]tasks.Stats, error) {
	return map[int64]tasks.Stats{7: {Due: 3, ByStatus: map[tasks.Status]int{tasks.Received: 3}}}, nil
}

// used is a limit of which that many recipients are left.
type used struct {
	left int
	why  *limits.Reached
}

func (used) Limited() bool { return true }

func (u used) Left(context.Context) (int, *limits.Reached, error) { return u.left, u.why, nil }

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
