package arrivals

import (
	"errors"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"gorm.io/gorm"

	"postrider/internal/db"
)

// reviewed is a Book over a database, whose clock the test moves.
type reviewed struct {
	*Book
	t      *testing.T
	now    time.Time
	counts map[string][]time.Time // of bounces, by recipient
}

func newReviewed(t *testing.T, suspend bool) *reviewed {
	t.Helper()
	r := &reviewed{t: t, now: day0, counts: map[string][]time.Time{}}
	now := func() time.Time { return r.now }
	cfg := db.Config{Driver: db.SQLite, Path: filepath.Join(t.TempDir(), "postrider.db")}
	d, err := db.OpenAnySchema(t.Context(), cfg, db.WithNow(now))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = d.Close() })
	if _, err := d.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	queue := &registry{bounces: func(within time.Duration) map[string]int {
		out := map[string]int{}
		for to, at := range r.counts {
			for _, at := range at {
				if at.After(r.now.Add(-within)) {
					out[to]++
				}
			}
		}
		return out
	}}
	r.Book = New(
		Config{After: 3, Within: 7 * 24 * time.Hour, Suspend: suspend},
		queue, NewStore(d), slog.New(slog.DiscardHandler), now,
	)
	return r
}

// bounce has mail to gone@ bounce so often, an hour after each other.
func (r *reviewed) bounce(n int) {
	for range n {
		r.now = r.now.Add(time.Hour)
		r.counts["gone@Other.example"] = append(r.counts["gone@Other.example"], r.now)
	}
}

// review reviews twice, which is the same as once, and returns who is noted.
func (r *reviewed) review() []Noted {
	r.t.Helper()
	for range 2 {
		if err := r.Review(r.t.Context()); err != nil {
			r.t.Fatal(err)
		}
	}
	all, _, err := r.store.Noted(r.t.Context())
	if err != nil {
		r.t.Fatal(err)
	}
	return all
}

func (r *reviewed) why(recipient string) string {
	r.t.Helper()
	why, err := r.Suspended(r.t.Context(), recipient)
	if err != nil {
		r.t.Fatal(err)
	}
	return why
}

func TestSuspend(t *testing.T) {
	r := newReviewed(t, true)
	r.bounce(2)
	if all := r.review(); len(all) != 0 || r.why("gone@other.example") != "" {
		t.Fatalf("after two bounces %+v are noted, want nobody", all)
	}
	r.bounce(1)
	at := r.now
	all := r.review()
	if len(all) != 1 || all[0].Recipient != "gone@other.example" || !all[0].Suspended ||
		all[0].Bounces != 3 || !all[0].Since.Equal(at) {
		t.Fatalf("after three bounces %+v are noted, want the recipient, suspended", all)
	}
	if why := r.why("gone@OTHER.example"); !strings.Contains(why, "2026-11-20") ||
		!strings.Contains(why, "postrider recipient resume gone@OTHER.example") {
		t.Errorf("it is suspended because %q, want since when, and the command", why)
	}
	if why := r.why("kept@other.example"); why != "" {
		t.Errorf("another one is suspended because %q", why)
	}
	r.now = r.now.AddDate(0, 0, 30)
	if all := r.review(); len(all) != 1 || !all[0].Suspended {
		t.Fatalf("a month later %+v are noted, want the same: an operator resumes it", all)
	}
}

// TestSuspendSpellings: bounces of all spellings of an address count, and the last of them says
// why.
func TestSuspendSpellings(t *testing.T) {
	r := newReviewed(t, true)
	r.counts["gone@bücher.example"] = []time.Time{r.now, r.now}
	if all := r.review(); len(all) != 0 {
		t.Fatalf("after two bounces of one spelling %+v are noted, want nobody", all)
	}
	r.counts["gone@BÜCHER.example"] = []time.Time{r.now}
	if all := r.review(); len(all) != 1 || all[0].Recipient != "gone@xn--bcher-kva.example" || all[0].Bounces != 3 {
		t.Fatalf("after one more bounce of another spelling %+v are noted, want one recipient with three", all)
	}
	for _, to := range []string{"gone@bücher.example", "gone@XN--Bcher-kva.example"} {
		if why := r.why(to); !strings.Contains(why, "postrider recipient resume "+to) {
			t.Errorf("%s is suspended because %q, want that it is", to, why)
		}
	}
	if was, err := r.store.Resume(t.Context(), "gone@BÜCHER.example"); err != nil || !was {
		t.Errorf("Resume = %v, %v, want that it was suspended", was, err)
	}
}

// TestLastBounce: it is found in any spelling of the recipient.
func TestLastBounce(t *testing.T) {
	r := newReviewed(t, true)
	undo := errors.New("undo")
	err := r.store.db.Tx(t.Context(), func(tx *gorm.DB) error {
		for _, sql := range []string{
			"PRAGMA defer_foreign_keys = ON",
			`INSERT INTO monitored_emails_arrivals
			(task_id, recipient, inbox_id, status, code, enhanced, reply, remote, target, at, reported_at) VALUES
			(1, 'gone@BÜCHER.example', 1, 'bounced', 550, '5.1.1', 'no such user', 'mx.other.example', '', 1, 1)`,
		} {
			if err := tx.Exec(sql).Error; err != nil {
				return err
			}
		}
		why, err := lastBounce(tx, "gone@xn--bcher-kva.example", []string{"gone@bücher.example", "gone@BÜCHER.example"})
		if err != nil || !strings.Contains(why, "no such user") {
			t.Errorf("the last bounce says %q, %v, want what the server said", why, err)
		}
		return undo
	})
	if !errors.Is(err, undo) {
		t.Fatal(err)
	}
}

// TestResume: what bounced before does not count any more, and it is sent to at once.
func TestResume(t *testing.T) {
	r := newReviewed(t, true)
	r.bounce(3)
	r.review()
	if r.why("gone@other.example") == "" {
		t.Fatal("it is not suspended")
	}
	for _, want := range []bool{true, false} {
		if was, err := r.store.Resume(t.Context(), "gone@OTHER.example"); err != nil || was != want {
			t.Errorf("Resume = %v, %v, want %v", was, err, want)
		}
	}
	if why := r.why("gone@other.example"); why != "" {
		t.Errorf("after it was resumed it is suspended because %q", why)
	}
	r.bounce(2)
	if all := r.review(); len(all) != 1 || all[0].Suspended || all[0].Resumed == nil {
		t.Errorf("after two more bounces %+v are noted, want that it is resumed", all)
	}
	r.bounce(1)
	if all := r.review(); len(all) != 1 || !all[0].Suspended || all[0].Resumed != nil || !all[0].Since.Equal(r.now) {
		t.Errorf("after three more bounces %+v are noted, want it suspended again", all)
	}
	if _, err := r.store.Resume(t.Context(), "gone@other.example"); err != nil {
		t.Fatal(err)
	}
	r.now = r.now.AddDate(0, 0, 8)
	if all := r.review(); len(all) != 0 {
		t.Errorf("a week after it was resumed %+v are noted, want nobody", all)
	}
}

// TestNoteOnly: a recipient that is only noted gets its mail, and is forgotten when it bounces
// less.
func TestNoteOnly(t *testing.T) {
	r := newReviewed(t, false)
	r.bounce(4)
	if all := r.review(); len(all) != 1 || all[0].Suspended || r.why("gone@other.example") != "" {
		t.Fatalf("%+v are noted, want the recipient, not suspended", all)
	}
	r.cfg.Suspend = true
	if all := r.review(); len(all) != 1 || !all[0].Suspended || r.why("gone@other.example") == "" {
		t.Errorf("with suspend %+v are noted, want it suspended", all)
	}
	r = newReviewed(t, false)
	r.bounce(4)
	r.review()
	r.now = r.now.AddDate(0, 0, 8)
	if all := r.review(); len(all) != 0 {
		t.Errorf("a week later %+v are noted, want nobody", all)
	}
}

// TestSuspendOff: without suspend nobody stays suspended, and none of it comes back with suspend.
func TestSuspendOff(t *testing.T) {
	r := newReviewed(t, true)
	r.bounce(3)
	r.review()
	r.cfg.Suspend = false
	if all := r.review(); len(all) != 1 || all[0].Suspended {
		t.Errorf("without suspend %+v are noted, want the recipient, not suspended", all)
	}
	r.cfg.Suspend = true
	r.review()
	r.cfg.Suspend = false
	r.now = r.now.AddDate(0, 0, 8)
	if all := r.review(); len(all) != 0 {
		t.Errorf("without suspend, a week later, %+v are noted, want nobody", all)
	}
	r.cfg.Suspend = true
	if all := r.review(); len(all) != 0 || r.why("gone@other.example") != "" {
		t.Errorf("with suspend again %+v are noted, want nobody", all)
	}
}

// TestSuspendChanged: with another value of suspend a recipient stays noted as it was, so that it
// is not reported again, and what bounced before it was resumed does not count.
func TestSuspendChanged(t *testing.T) {
	r := newReviewed(t, true)
	r.bounce(3)
	r.review()
	if _, err := r.store.Resume(t.Context(), "gone@other.example"); err != nil {
		t.Fatal(err)
	}
	r.bounce(3)
	want := r.review()[0]
	if !want.Suspended || want.Bounces != 3 {
		t.Fatalf("after three more bounces it is %+v, want it suspended, for three", want)
	}
	for _, suspend := range []bool{false, true} {
		r.now = r.now.Add(time.Hour)
		r.cfg.Suspend, want.Suspended = suspend, suspend
		if all := r.review(); len(all) != 1 || all[0] != want || (r.why("gone@other.example") != "") != suspend {
			t.Errorf("with suspend %v %+v are noted, want %+v alone", suspend, all, want)
		}
	}
}

// TestSuspendedElsewhere: what another process suspends is noticed within a minute.
func TestSuspendedElsewhere(t *testing.T) {
	r := newReviewed(t, true)
	if r.why("gone@other.example") != "" {
		t.Fatal("it is suspended")
	}
	if err := r.store.note(t.Context(), "gone@other.example", bounced{times: 3}, true, nil); err != nil {
		t.Fatal(err)
	}
	r.now = r.now.Add(fresh + time.Second)
	if r.why("gone@other.example") == "" {
		t.Error("a minute later it is still sent to")
	}
}
