package outbox

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"gorm.io/gorm"

	"postrider/internal/db"
)

// TestOrder: of the entries of one task, the next is claimed when the one before has ended, also
// badly. Those of other tasks, inboxes and destinations do not wait.
func TestOrder(t *testing.T) {
	onEach(t, func(t *testing.T, b bench) {
		b.happen(
			Occurrence{Kind: Registered, TaskID: 1}, Occurrence{Kind: Forwarded, TaskID: 1},
			Occurrence{Kind: Registered, TaskID: 2},
			Occurrence{Kind: InboxUnreachable, InboxID: 7}, Occurrence{Kind: InboxOK, InboxID: 8},
		)
		b.expand(to("crm", "bus"))
		first := b.receive("crm")
		if got := kinds(first); got != "registered 1, registered 2, inbox_unreachable 0, inbox_ok 0" {
			t.Fatalf("the first claim has %s", got)
		}
		if more := b.receive("crm"); len(more) != 0 {
			t.Fatalf("%s is claimed while its predecessor is in progress", kinds(more))
		}
		b.finish(Outcome{Claim: first[0], Status: Waiting, Delay: time.Hour})
		if more := b.receive("crm"); len(more) != 0 {
			t.Fatalf("%s is claimed while its predecessor waits", kinds(more))
		}
		b.later()
		again := b.receive("crm")
		b.finish(Outcome{Claim: again[0], Status: DeadLetter, Error: "no"})
		if got := kinds(b.receive("crm")); got != "forwarded 1" {
			t.Errorf("after its predecessor died, %q is claimed", got)
		}
		if got := kinds(b.receive("bus")); got != kinds(first) {
			t.Errorf("the other destination gets %q first", got)
		}
	})
}

// TestActionsDoNotWait: an action waits for no earlier one of its task, which may be for next
// month, except while that is being carried out.
func TestActionsDoNotWait(t *testing.T) {
	onEach(t, func(t *testing.T, b bench) {
		act := func(action string, delay time.Duration) {
			b.happen(Occurrence{Kind: Dead, TaskID: 1})
			b.expand(func(_ context.Context, os []Occurrence) ([]Planned, error) {
				return []Planned{{
					Occurrence: os[0], Destination: Server, EventID: EventID(os[0], action),
					InboxID: 7, Action: action, Delay: delay,
				}}, nil
			})
		}
		act("delete", 30*24*time.Hour)
		act("flag:$Dead", 0)
		flagging := b.receive(Server)
		if len(flagging) != 1 || flagging[0].Action != "flag:$Dead" {
			t.Fatalf("claimed is %+v, want the flag", flagging)
		}
		act("seen", 0)
		if more := b.receive(Server); len(more) != 0 {
			t.Fatalf("%+v is claimed beside another action on its message", more)
		}
		b.finish(Outcome{Claim: flagging[0], Status: Done})
		if seen := b.receive(Server); len(seen) != 1 || seen[0].Action != "seen" {
			t.Fatalf("claimed is %+v, want seen", seen)
		}
		sql := func(query string) {
			b.must(b.db.Tx(t.Context(), func(tx *gorm.DB) error { return tx.Exec(query).Error }))
		}
		sql(`UPDATE monitored_outbox SET visible_at = 1 WHERE action = 'delete'`)
		if more := b.receive(Server); len(more) != 0 {
			t.Errorf("%+v is claimed beside a later action on its message", more)
		}
		// Their workers were killed.
		sql(`UPDATE monitored_outbox SET visible_at = 1, status = 'in_progress' WHERE visible_at IS NOT NULL`)
		if again := b.receive(Server); len(again) != 2 {
			t.Errorf("claimed is %+v, want both", again)
		}
	})
}

func kinds(claims []Claim) string {
	var out string
	for _, c := range claims {
		out += fmt.Sprintf(", %s %d", c.Kind, c.TaskID)
	}
	if out == "" {
		return out
	}
	return out[2:]
}

// TestReceipts: the receipt alone decides. A lease that ran out and was not claimed again is good.
func TestReceipts(t *testing.T) {
	onEach(t, func(t *testing.T, b bench) {
		b.happen(Occurrence{Kind: Dead, TaskID: 1})
		b.expand(to("crm"))
		one := b.receive("crm")[0]
		b.later()
		two := b.receive("crm")[0]
		if two.Attempts != 2 || two.Receipt == one.Receipt || two.EventID != one.EventID ||
			string(two.Body) != `{"x":1}` {
			t.Errorf("claimed again it is %+v, want two attempts, another receipt, and the same event as %+v", two, one)
		}
		lost, err := b.Extend(t.Context(), time.Hour, one, two)
		if err != nil || len(lost) != 1 || lost[0].Receipt != one.Receipt {
			t.Errorf("renewed are all but %v, %v; want all but the first", lost, err)
		}
		if lost := b.finish(Outcome{Claim: one, Status: Done}); len(lost) != 1 {
			t.Error("a receipt that is no longer good ends the entry")
		}
		b.later()
		for range 2 { // as when the answer to the first is lost
			if lost := b.finish(Outcome{Claim: two, Status: Waiting, Error: "down", Uncounted: true}); len(lost) != 0 {
				t.Error("a lease that ran out is not good, though nobody has claimed it")
			}
		}
		if e := b.all()[0]; e.Attempts != 1 || e.Status != Waiting || e.Error != "down" || e.VisibleAt == nil {
			t.Errorf("it is %+v, want one attempt counted, and waiting", e)
		}
	})
}

// TestDestinations: a destination that is at fault is left alone, for all processes: longer each
// time, or as long as it asks.
func TestDestinations(t *testing.T) {
	onEach(t, func(t *testing.T, b bench) {
		crm := Destination{Name: "crm", Target: "a"}
		var news []bool
		fault := func(d Destination, asked time.Duration, gone bool) {
			is, err := b.fault(t.Context(), d, verdict{fault: errors.New("HTTP 500"), asked: asked, gone: gone})
			b.must(err)
			news = append(news, is)
		}
		look := func() Destination {
			all, err := b.another().Destinations(t.Context())
			b.must(err)
			return all["crm"]
		}
		fault(crm, 0, false)
		if d := look(); d.Failures != 1 || d.RetryIn <= 0 || d.RetryIn > firstPause || d.LastError != "HTTP 500" {
			t.Errorf("after a fault it is %+v", d)
		}
		for range 30 {
			fault(crm, 0, false)
		}
		if d := look(); d.Failures != 31 || d.RetryIn <= firstPause || d.RetryIn > LongestPause {
			t.Errorf("after many faults it is %+v", d)
		}
		fault(crm, time.Second, false)
		if d := look(); d.Failures != 32 || d.RetryIn > firstPause {
			t.Errorf("when it asks for a second it is %+v, want the shortest pause", d)
		}
		fault(crm, time.Hour, false)
		if d := look(); d.RetryIn <= LongestPause || d.Gone {
			t.Errorf("when it asks for an hour it is %+v", d)
		}
		fault(crm, 0, true)
		fault(crm, 0, false)
		if d := look(); !d.Gone {
			t.Error("it is no longer gone")
		}
		crm.Target = "b"
		fault(crm, 0, false)
		if d := look(); d.Gone || d.Failures != 1 {
			t.Errorf("elsewhere it is %+v, want it to begin again", d)
		}
		want := append([]bool{true}, make([]bool, 32)...)
		if want = append(want, true, false, true); !slices.Equal(news, want) {
			t.Errorf("news are %v, want %v", news, want)
		}
		if worked, err := b.Works(t.Context(), "crm"); err != nil || !worked || look().Failures != 0 {
			t.Errorf("when it works again that is %t, %v, and it is %+v", worked, err, look())
		}
	})
}

// TestNotMade: an event that could not be made is dead. It holds up no other event of its task, and
// there is nothing to send again.
func TestNotMade(t *testing.T) {
	onEach(t, func(t *testing.T, b bench) {
		b.happen(Occurrence{Kind: Registered, TaskID: 1}, Occurrence{Kind: Forwarded, TaskID: 1})
		plan := to("crm")
		b.expand(func(ctx context.Context, os []Occurrence) ([]Planned, error) {
			planned, err := plan(ctx, os)
			if len(planned) > 0 {
				planned[0].Body, planned[0].Error = nil, "no such year"
			}
			return planned, err
		})
		e := b.all()[0]
		if e.Status != DeadLetter || e.Error != "no such year" || e.VisibleAt != nil || e.FinishedAt == nil ||
			len(e.Body) > 0 {
			t.Errorf("it is %+v, want it dead, with its error", e)
		}
		if n, err := b.Retry(t.Context(), "anna", e.ID); err != nil || n != 0 {
			t.Errorf("%d are tried again, %v; want none", n, err)
		}
		if got := kinds(b.receive("crm")); got != "forwarded 1" {
			t.Errorf("claimed is %q, want the next event of the task", got)
		}
		if n, err := b.Skip(t.Context(), "anna", e.ID); err != nil || n != 1 {
			t.Errorf("%d are skipped, %v; want it", n, err)
		}
	})
}

// TestPause: while the actions of an inbox pause, none of them is due in any process, new ones
// neither. An operator who retries one ends the pause of its inbox.
func TestPause(t *testing.T) {
	onEach(t, func(t *testing.T, b bench) {
		var added time.Time
		b.must(b.db.Change(t.Context(), func(tx *gorm.DB, now time.Time) error {
			var rows [][]any
			added = now
			for _, id := range []int64{7, 8} {
				rows = append(rows, []any{
					id, fmt.Sprint(id), "", "", 1, "", 0, "", 0, "", "", "", "", "", 0, 0, now, now,
				})
			}
			const columns = "id, email_address, email_password, description, is_active, host, port, security, " +
				"allow_plaintext, username, auth, start, last_error, scan_holder, scan_token, scan_until, " +
				"created_at, updated_at"
			return db.Insert(tx, "monitored_emails", columns, rows)
		}))
		occurs := func() {
			b.happen(Occurrence{Kind: Dead, TaskID: 1})
			_, err := b.Expand(t.Context(), 10, func(_ context.Context, os []Occurrence) (all []Planned, _ error) {
				for _, id := range []int64{7, 8} {
					all = append(all, Planned{
						Occurrence: os[0], Destination: Server, EventID: EventID(os[0], fmt.Sprint(id)),
						InboxID: id, Action: "seen",
					})
				}
				return all, nil
			})
			b.must(err)
		}
		wantDue := func(want ...int64) {
			t.Helper()
			due, err := b.another().InboxesDue(t.Context(), Server)
			if slices.Sort(due); err != nil || !slices.Equal(due, want) {
				t.Errorf("the inboxes %d are due, %v; want %d", due, err, want)
			}
		}
		occurs()
		wantDue(7, 8)
		b.must(b.Pause(t.Context(), 7, added.Add(-time.Microsecond), time.Hour)) // with settings from before a change
		wantDue(7, 8)
		b.must(b.Pause(t.Context(), 7, added, time.Hour))
		b.must(b.Pause(t.Context(), 8, added, time.Hour))
		wantDue()
		occurs()
		wantDue()
		wantPaused := func(id int64, want bool) {
			t.Helper()
			e, err := b.Get(t.Context(), id)
			if err != nil || e.VisibleAt.After(added.Add(30*time.Minute)) != want {
				t.Errorf("action %d is visible at %s, %v; want that after the pause: %t", id, e.VisibleAt, err, want)
			}
		}
		wantPaused(b.all()[0].ID, true)
		_, err := b.Retry(t.Context(), "anna", b.all()[0].ID)
		b.must(err)
		wantPaused(b.all()[0].ID, false)
		wantDue(b.all()[0].InboxID)
		b.must(b.Pause(t.Context(), 8, added, 0))
		wantDue(7, 8)
	})
}

// TestServerActions: an occurrence may have several actions, whose inboxes are found, and their
// ends stand in the audit trail of the task, once.
func TestServerActions(t *testing.T) {
	onEach(t, func(t *testing.T, b bench) {
		b.happen(Occurrence{Kind: Forwarded, TaskID: 5})
		_, err := b.Expand(t.Context(), 10, func(_ context.Context, os []Occurrence) (all []Planned, _ error) {
			for _, action := range []string{"seen", "delete"} {
				all = append(all, Planned{
					Occurrence: os[0], Destination: Server, EventID: action, InboxID: 7, Action: action,
				})
			}
			return append(all, Planned{
				Occurrence: os[0], Destination: Server, EventID: "later",
				InboxID: 8, Action: "delete it", Delay: time.Hour,
			}), nil
		})
		b.must(err)
		due, err := b.InboxesDue(t.Context(), Server)
		if err != nil || !slices.Equal(due, []int64{7}) {
			t.Errorf("the inboxes %d are due, %v; want 7", due, err)
		}
		want := Want{Destination: Server, InboxID: 7, Max: 9, Lease: time.Minute, Worker: "w"}
		claims, err := b.Receive(t.Context(), want)
		b.must(err)
		if len(claims) != 2 {
			t.Fatalf("%d claims, want 2", len(claims))
		}
		end := Outcome{Claim: claims[0], Status: Done, Trail: Line{"server", "marked as read"}}
		lost := end
		lost.Claim.Receipt = "another"
		for range 2 {
			_, err = b.Finish(t.Context(), end, lost)
			b.must(err)
		}
		if got, want := b.trail(), []string{"5 0 w server marked as read"}; !slices.Equal(got, want) {
			t.Errorf("the trail is %q, want %q", got, want)
		}
	})
}

// TestClaimReads: a claim reads about as many rows as it takes, however many wait, and whatever the
// server's statistics say of a table that has just been filled.
func TestClaimReads(t *testing.T) {
	const waiting, taken = 3000, 500
	onEach(t, func(t *testing.T, b bench) {
		if b.cfg.Driver == db.SQLite {
			t.Skip("SQLite does not count the rows that it reads")
		}
		os := make([]Occurrence, waiting)
		for i := range os {
			os[i] = Occurrence{Kind: Forwarded, TaskID: int64(i + 1)}
		}
		b.happen(os...)
		for range waiting / 500 {
			_, err := b.Expand(t.Context(), 500, to("crm", "erp"))
			b.must(err)
		}
		ids := make([]int64, taken)
		for i := range ids {
			ids[i] = int64(waiting + 1 - i) // one of them is new
		}
		var start, before, after int64
		b.must(b.db.Tx(t.Context(), func(tx *gorm.DB) error {
			start = b.reads(tx)
			lanes, err := db.Query(tx, (*lane).into, sqlLanes, ids)
			if err == nil && len(lanes) != 2*(taken-1) {
				t.Errorf("%d events wait in these tasks, want %d", len(lanes), 2*(taken-1))
			}
			b.must(err)
			_, err = db.Query(tx, (*madeRow).into, sqlMade, ids, "a receipt")
			b.must(err)
			before = b.reads(tx)
			due, err := db.Query(tx, entryInto, b.db.LockSkipLocked(sqlDue),
				"crm", int64(math.MaxInt64), 0, 0, 0, taken)
			if after = b.reads(tx); err == nil && len(due) != taken {
				t.Errorf("%d entries are due, want %d", len(due), taken)
			}
			return err
		}))
		if n := after - before; n > 10*taken {
			t.Errorf("a claim of %d entries reads %d rows, want at most %d", taken, n, 10*taken)
		}
		if n := before - start; n > 10*taken {
			t.Errorf("what waits in %d tasks is found by reading %d rows, want at most %d", taken, n, 10*taken)
		}
	})
}
