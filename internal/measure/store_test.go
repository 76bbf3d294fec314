package measure

import (
	"context"
	"errors"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"gorm.io/gorm"

	"postrider/internal/db"
	"postrider/internal/testserver"
)

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func open(t *testing.T, opts ...db.Option) *db.DB {
	t.Helper()
	opts = append(opts, db.WithNow(func() time.Time { return noon }))
	d, err := db.Open(t.Context(), db.Config{Driver: db.SQLite, Path: filepath.Join(t.TempDir(), "p.db")}, opts...)
	check(t, err)
	t.Cleanup(func() { _ = d.Close() })
	return d
}

func read(t *testing.T, s *Store) Numbers {
	t.Helper()
	n, err := s.Read(t.Context())
	check(t, err)
	return n
}

func addInbox(t *testing.T, d *db.DB, id int) {
	t.Helper()
	check(t, d.Tx(t.Context(), func(tx *gorm.DB) error {
		return tx.Exec(`INSERT INTO monitored_emails (id, email_address, email_password, description, is_active,
			host, port, security, allow_plaintext, username, auth, start, last_error, scan_holder, scan_token,
			scan_until, created_at, updated_at)
			VALUES (?, 'a', '', '', 1, '', 0, '', 0, '', '', '', '', '', 0, 0, ?, ?)`, id, noon, noon).Error
	}))
}

// TestSums: the sums are those of all processes, and a certificate or a state is the last one.
func TestSums(t *testing.T) {
	d := open(t)
	addInbox(t, d, 7)
	s, yes, no := New(d), true, false
	for _, process := range []struct {
		relay *bool
		until time.Time
		took  time.Duration
	}{
		{&yes, noon, time.Second},
		{&no, noon.Add(time.Hour), 10 * time.Minute},
		{nil, noon.Add(time.Hour), 11 * time.Minute},
	} {
		m := NewMeter()
		m.attempted(7, Deliveries{"delivered", "2xx", 2})
		m.attempted(7, Deliveries{"failed", "5xx", 1})
		m.leaseLost(7)
		m.tookUntilDelivered(3 * time.Second)
		m.Certificate(7, process.until)
		m.PassEnded(process.took, process.relay)
		check(t, s.Keep(t.Context(), m))
		check(t, s.Keep(t.Context(), m)) // it is empty now
	}
	n := read(t, s)
	want := []Deliveries{{"delivered", "2xx", 6}, {"failed", "5xx", 3}}
	if got := n.Deliveries[7]; !slices.Equal(got, want) {
		t.Errorf("deliveries are %v, want %v", got, want)
	}
	if n.LeasesLost[7] != 3 || n.RelayUp == nil || *n.RelayUp || n.LastPassAt == nil || !n.LastPassAt.Equal(noon) {
		t.Errorf("leases lost %d, relay up %v, last pass %v; want 3, false, %v",
			n.LeasesLost[7], n.RelayUp, n.LastPassAt, noon)
	}
	if !n.Certificates[7].Equal(noon.Add(time.Hour)) {
		t.Errorf("the certificate is valid until %v, want what was seen last", n.Certificates[7])
	}
	if h := n.PassSeconds; h.Count() != 3 || h.Sum != 1261 ||
		h.Counts[3] != 1 || h.Counts[11] != 1 || h.Counts[12] != 1 {
		t.Errorf("pass seconds are %+v, want 1, 600 and 660 seconds in their buckets", h)
	}
	if h := n.DeliverySeconds; h.Count() != 3 || h.Sum != 9 {
		t.Errorf("delivery seconds are %+v, want three of 3 seconds", h)
	}
}

// TestNothingNew: an idle pass writes few rows, and a certificate that is known already is none of
// them.
func TestNothingNew(t *testing.T) {
	var statements testserver.Statements
	d := open(t, db.WithPool(statements.Pool))
	s := New(d)
	addInbox(t, d, 7)
	idle := func() {
		m := NewMeter()
		m.Certificate(7, noon)
		m.PassEnded(time.Second, nil)
		check(t, s.Keep(t.Context(), m))
	}
	idle()
	statements.Taken()
	idle()
	texts, commits := statements.Taken()
	if commits != 1 || len(texts) > 3 { // what is set already; the sums; removed inboxes
		t.Errorf("an idle pass takes %d commits and %d statements, want 1 and at most 3:\n%q",
			commits, len(texts), texts)
	}
	check(t, s.Keep(t.Context(), NewMeter()))
	if texts, _ := statements.Taken(); len(texts) > 0 {
		t.Errorf("a process that measured nothing runs %q, want nothing", texts)
	}
}

// TestRemovedInbox: the numbers of a removed inbox go with the next pass.
func TestRemovedInbox(t *testing.T) {
	d := open(t)
	s := New(d)
	m := NewMeter()
	m.leaseLost(9) // there is no such inbox
	m.PassEnded(time.Second, nil)
	check(t, s.Keep(t.Context(), m))
	if n := read(t, s); len(n.LeasesLost) > 0 || n.PassSeconds.Count() != 1 {
		t.Errorf("leases lost are %v and passes %d, want those of the pass alone", n.LeasesLost, n.PassSeconds.Count())
	}
}

// TestNotKept: what could not be recorded is recorded later, with what came meanwhile.
func TestNotKept(t *testing.T) {
	d := open(t)
	addInbox(t, d, 7)
	s, m := New(d), NewMeter()
	m.Certificate(7, noon)
	m.PassEnded(time.Second, nil)
	stopped, stop := context.WithCancel(t.Context())
	stop()
	if err := s.Keep(stopped, m); !errors.Is(err, context.Canceled) {
		t.Fatalf("Keep returns %v, want that it was stopped", err)
	}
	m.PassEnded(time.Second, nil)
	check(t, s.Keep(t.Context(), m))
	if n := read(t, s); n.PassSeconds.Count() != 2 || n.LastPassAt == nil || !n.Certificates[7].Equal(noon) {
		t.Errorf("the sums are %+v, want two passes and the certificate", n)
	}
}

// TestOtherBuckets: buckets of another version count for the next larger one.
func TestOtherBuckets(t *testing.T) {
	h := newHistogram([]float64{1, 10})
	for label, n := range map[string]float64{"0.3": 1, "1": 2, "3": 4, "99": 8, infinite: 16, "?": 32} {
		h.add(label, n)
	}
	if want := []int{3, 4, 56}; !slices.Equal(h.Counts, want) {
		t.Errorf("the buckets are %v, want %v", h.Counts, want)
	}
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
