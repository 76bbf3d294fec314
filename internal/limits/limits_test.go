package limits

import (
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"gorm.io/gorm"

	"postrider/internal/db"
	"postrider/internal/testserver"
)

func TestMain(m *testing.M) { testserver.Main(m) }

// onEach runs a test on each kind of database.
func onEach(t *testing.T, test func(t *testing.T, cfg db.Config)) {
	t.Run("sqlite", func(t *testing.T) {
		test(t, db.Config{Driver: db.SQLite, Path: filepath.Join(t.TempDir(), "p.db")})
	})
	t.Run("mariadb", func(t *testing.T) {
		test(t, db.Config{Driver: db.MySQL, DSN: testserver.MariaDB(t).NewDatabase(t)})
	})
	t.Run("mysql", func(t *testing.T) {
		test(t, db.Config{Driver: db.MySQL, DSN: testserver.MySQL(t).NewDatabase(t)})
	})
}

func open(t *testing.T, cfg db.Config) *db.DB {
	t.Helper()
	d, err := db.OpenAnySchema(t.Context(), cfg)
	check(t, err)
	t.Cleanup(func() { _ = d.Close() })
	_, err = d.Migrate(t.Context())
	check(t, err)
	return d
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func quota(d *db.DB, user string, l Limits) *Quota {
	return New(d, Config{Host: "relay.example", Port: 587, User: user, Limits: l, Lease: time.Minute, Now: time.Now})
}

// age makes everything that was sent so much older.
func age(t *testing.T, d *db.DB, by time.Duration) {
	t.Helper()
	check(t, d.Tx(t.Context(), func(tx *gorm.DB) error {
		var text string
		if err := tx.Raw(sqlUsage, "a@relay.example:587").Scan(&text).Error; err != nil {
			return err
		}
		var u, older usage
		if err := json.Unmarshal([]byte(text), &u); err != nil {
			return err
		}
		older.tidy(0)
		older.Open = u.Open
		for _, w := range windows() {
			older.Sent[w.name] = map[int64]int{}
			for slice, n := range u.Sent[w.name] {
				older.Sent[w.name][slice-w.slice(by.Microseconds())] += n
			}
		}
		made, err := json.Marshal(older)
		if err != nil {
			return err
		}
		return tx.Exec(sqlSetUsage, string(made), "a@relay.example:587").Error
	}))
}

// TestHosts: as many as there are hosts reserve at once, each with a database handle of its own;
// together they get what the limit allows, to the last one, and after the hour as much again.
func TestHosts(t *testing.T) {
	onEach(t, func(t *testing.T, cfg db.Config) {
		const hosts, limit = 6, 100
		first := open(t, cfg)
		var all []*Quota
		for range hosts {
			all = append(all, quota(open(t, cfg), "a", Limits{PerHour: limit}))
		}
		for round := range 2 {
			granted := drain(t, all)
			if granted != limit {
				t.Errorf("round %d: %d recipients were granted, want %d", round, granted, limit)
			}
			age(t, first, time.Hour+time.Minute)
		}
	})
}

// drain reserves from all sides until nothing is left, uses a part of it, and returns how much was
// used. What is not used is granted again.
func drain(t *testing.T, all []*Quota) (used int) {
	var mu sync.Mutex
	var sides sync.WaitGroup
	for i, q := range all {
		sides.Go(func() {
			for n := 1; ; n = n%7 + 1 {
				granted, done, err := q.Reserve(t.Context(), n)
				var why *Reached
				if errors.As(err, &why) {
					break
				}
				if err != nil || granted < 1 || granted > n {
					t.Errorf("%d of %d were granted (%v), want at least one, and no more than asked for",
						granted, n, err)
					return
				}
				take := granted
				if i == 0 && n > 3 {
					take = 1
				}
				done(take)
				mu.Lock()
				used += take
				mu.Unlock()
			}
			if err := q.Flush(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
	sides.Wait()
	for { // what came back when the others had given up
		granted, done, err := all[0].Reserve(t.Context(), 50)
		if err != nil {
			break
		}
		used += granted
		done(granted)
	}
	check(t, all[0].Flush(t.Context()))
	return used
}

// TestReserve is one quota seen by another process.
func TestReserve(t *testing.T) {
	onEach(t, func(t *testing.T, cfg db.Config) {
		d, ctx := open(t, cfg), t.Context()
		l := Limits{PerDay: 10}
		a, b, other := quota(d, "a", l), quota(open(t, cfg), "a", l), quota(d, "b", l)
		if n, why, err := b.Left(ctx); n != 10 || why != nil || err != nil {
			t.Errorf("nothing was sent, and %d are left (%v, %v), want 10", n, why, err)
		}
		granted, done, err := a.Reserve(ctx, 4)
		check(t, err)
		rest, _, err := b.Reserve(ctx, 50) // and never comes back
		check(t, err)
		if granted != 4 || rest != 6 {
			t.Errorf("%d of 4 and %d of 50 were granted, want 4, and the 6 that are left of 10", granted, rest)
		}
		n, why, err := a.Left(ctx)
		if n != 0 || why == nil || err != nil || why.Key != "smtp.limits.per_day" || why.Limit != 10 {
			t.Errorf("all is used, and %d are left (%v, %v), want none by smtp.limits.per_day (10)", n, why, err)
		}
		if n, _, err := other.Reserve(ctx, 50); n != 10 || err != nil {
			t.Errorf("%d are granted to another account (%v), want 10", n, err)
		}
		done(1)
		if _, _, err := b.Reserve(ctx, 1); err == nil {
			t.Error("what was given back is granted before that is noted, want that it is not")
		}
		check(t, a.Flush(ctx))
		if n, _, err := b.Reserve(ctx, 50); n != 3 || err != nil {
			t.Errorf("%d are granted after 3 of 4 were given back (%v), want these 3", n, err)
		}
	})
}

// TestDeadProcess: what a process had reserved counts as used when it is no longer renewed, and as
// long as it is, it stays reserved.
func TestDeadProcess(t *testing.T) {
	now := time.Date(2026, 11, 20, 12, 0, 30, 0, time.UTC)
	clock := func() time.Time { return now }
	path := filepath.Join(t.TempDir(), "p.db")
	d, err := db.Open(t.Context(), db.Config{Driver: db.SQLite, Path: path}, db.WithNow(clock))
	check(t, err)
	defer func() { _ = d.Close() }()
	cfg := Config{Host: "relay.example", Port: 25, Limits: Limits{PerMinute: 10}, Lease: 5 * time.Minute, Now: clock}
	dead, slow, next := New(d, cfg), New(d, cfg), New(d, cfg)
	_, _, err = dead.Reserve(t.Context(), 6)
	check(t, err)
	_, done, err := slow.Reserve(t.Context(), 3)
	check(t, err)
	left := func(want int) {
		t.Helper()
		n, done, err := next.Reserve(t.Context(), 100)
		if err == nil {
			done(0)
		}
		if n != want {
			t.Errorf("at %s %d are left (%v), want %d", now.Format("15:04:05"), n, err, want)
		}
	}
	for range 5 {
		now = now.Add(time.Minute)
		check(t, slow.Renew(t.Context()))
		left(1)
	}
	now = now.Add(61 * time.Second) // a minute after the lease of the dead one
	check(t, slow.Renew(t.Context()))
	left(7)
	done(3)
	now = now.Add(30 * time.Second)
	check(t, slow.Flush(t.Context())) // noted now, and as of then
	now = now.Add(30 * time.Second)
	left(7)
	now = now.Add(time.Second)
	left(10)
}

// TestUnlimited asks the database for nothing, which is not even there.
func TestUnlimited(t *testing.T) {
	q := New(nil, Config{Host: "relay.example", Port: 25})
	n, done, err := q.Reserve(t.Context(), 100)
	if n != 100 || err != nil {
		t.Errorf("%d of 100 are granted (%v), want all", n, err)
	}
	done(100)
	left, why, err := q.Left(t.Context())
	if left < 1_000_000 || why != nil || errors.Join(err, q.Renew(t.Context()), q.Flush(t.Context())) != nil {
		t.Errorf("says %v (%v), want nothing", why, err)
	}
}

// TestDamagedRow is reported with the fix; without the row counting starts again.
func TestDamagedRow(t *testing.T) {
	d := open(t, db.Config{Driver: db.SQLite, Path: filepath.Join(t.TempDir(), "p.db")})
	q := quota(d, "a", Limits{PerDay: 10})
	exec := func(sql string) {
		check(t, d.Tx(t.Context(), func(tx *gorm.DB) error { return tx.Exec(sql).Error }))
	}
	exec(`INSERT INTO relay_usage (relay, used) VALUES ('a@relay.example:587', '')`)
	for used, why := range map[string]string{
		`gone`: "invalid character", `{"sent": {"per_day": {"29000000": -500}}}`: "sent.per_day.29000000 is -500",
		`{"sent": {"per_day": {"29000000": 9000000000000000000}}}`:     "sent.per_day.29000000 is 9000000000000000000",
		`{"sent": {"per_hour": {"-1": 5}}}`:                            "sent.per_hour.-1 is 5",
		`{"open": {"TOKEN": {"n": -1, "until": 9000000000000000}}}`:    "open.TOKEN is -1 until 9000000000000000",
		`{"open": {"TOKEN": {"n": 1, "until": -9000000000000000}}}`:    "open.TOKEN is 1 until -9000000000000000",
		`{"sent": {"per_day": {"29000000": "many"}}}`:                  "cannot unmarshal string",
		`{"sent": {"per_day": {"29000000": 99999999999999999999999}}}`: "cannot unmarshal number",
	} {
		exec(`UPDATE relay_usage SET used = '` + used + `'`)
		for _, ask := range []func() error{
			func() error { _, _, err := q.Reserve(t.Context(), 1); return err },
			func() error { _, _, err := q.Left(t.Context()); return err },
		} {
			err := fmt.Sprint(ask())
			for _, want := range []string{"a@relay.example:587", "relay_usage is damaged", why, "delete it"} {
				if !strings.Contains(err, want) {
					t.Errorf("the damaged row %s yields %s, want %q in it", used, err, want)
				}
			}
		}
	}
	exec(`DELETE FROM relay_usage`)
	if n, _, err := q.Reserve(t.Context(), 1); n != 1 || err != nil {
		t.Errorf("without the row %d are granted (%v), want 1", n, err)
	}
}

// TestClockWasAhead: what was sent while the clock was days ahead counts from when it is tidied.
func TestClockWasAhead(t *testing.T) {
	onEach(t, func(t *testing.T, cfg db.Config) {
		d := open(t, cfg)
		q := quota(d, "a", Limits{PerMinute: 10})
		_, done, err := q.Reserve(t.Context(), 10)
		check(t, err)
		done(10)
		check(t, q.Flush(t.Context()))
		age(t, d, -5*24*time.Hour)
		if n, why, err := q.Left(t.Context()); err != nil || n != 0 || why == nil {
			t.Fatalf("left: %d, %v, %v; want none, and the limit", n, why, err)
		}
		check(t, q.Tidy(t.Context()))
		age(t, d, 3*time.Minute)
		if n, why, err := q.Left(t.Context()); err != nil || n != 10 || why != nil {
			t.Errorf("three minutes later, left: %d, %v, %v; want all", n, why, err)
		}
	})
}
