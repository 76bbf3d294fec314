package pass

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"postrider/internal/db"
	"postrider/internal/inbox"
	"postrider/internal/tasks/sqlqueue"
	"postrider/internal/testserver"
)

// TestIdlePass counts what a pass asks of the database for an inbox with nothing new.
func TestIdlePass(t *testing.T) {
	r := newRig(t, nil)
	r.add(inbox.StartAll, "INBOX", "Junk")
	check(t, r.imap.CreateFolder(address, "Junk"))
	r.put("INBOX", mails(9)...)
	r.want(r.run(), Counters{Registered: 9, Forwarded: 9})

	var statements testserver.Statements
	d, err := db.Open(t.Context(), r.db, db.WithNow(r.clock.Now), db.WithPool(statements.Pool))
	check(t, err)
	t.Cleanup(func() { _ = d.Close() })
	r.Inboxes, r.Queue = inbox.New(d, inbox.OpenSealer("")), sqlqueue.New(d)
	r.run() // the newest messages are looked at again
	statements.Taken()
	r.want(r.run(), Counters{})
	texts, commits := statements.Taken()
	t.Logf("%d statements, %d commits: %q", len(texts), commits, texts)
	// One of the commits is for the disabled inboxes, whatever the number of active ones.
	if commits != 2 || len(texts) > 11 {
		t.Errorf("an idle pass over one inbox with two folders takes %d commits and %d statements, "+
			"want 2, and 11 at most:\n%q",
			commits, len(texts), texts)
	}
}

// killedAtEnd is Inboxes of a process that is killed when a scan has ended: before that is
// recorded, or after.
type killedAtEnd struct {
	Inboxes
	after bool
}

func (d killedAtEnd) FinishScan(ctx context.Context, by inbox.Scan, end inbox.ScanEnd) error {
	if d.after {
		return errors.Join(d.Inboxes.FinishScan(ctx, by, end), errors.New("killed"))
	}
	return errors.New("killed")
}

// TestKilledAtTheEndOfAScan: the next run goes on once the lease has run out, or at once if the end
// was recorded. Nothing is lost and nothing is sent twice.
func TestKilledAtTheEndOfAScan(t *testing.T) {
	for name, after := range map[string]bool{"before the commit": false, "after the commit": true} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, nil)
			r.add(inbox.StartAll)
			first, second := mails(5)[:3], mails(5)[3:]
			r.put("INBOX", first...)
			r.Inboxes = killedAtEnd{r.store, after}
			r.run()
			r.Inboxes, r.Config.Worker = r.store, "test:2"
			r.put("INBOX", second...)
			if rep := r.run(); (rep.Busy == "") != after {
				t.Errorf("the next run finds the lease held by %q, want it free: %v", rep.Busy, after)
			}
			r.clock.advance(2 * time.Minute)
			r.run()
			in := r.stored()
			if in.LastScannedAt == nil || in.LastError != "" || in.Folders[0].LastScannedAt == nil {
				t.Errorf("the inbox was scanned at %v, its folder at %v, error %q; want both, and none",
					in.LastScannedAt, in.Folders[0].LastScannedAt, in.LastError)
			}
			r.wantArrived(first, second)
		})
	}
}

// TestIdleRoundTrips: a folder in which nothing is new is selected, and looked back at in one
// command.
func TestIdleRoundTrips(t *testing.T) {
	onSite(t, func(t *testing.T, s *site) {
		s.put(subjects("%d", 1, 300)...)
		s.pass.Config.Page = 50
		s.wantNoError(s.run())
		var ops []string
		s.servers[boxA].hook = func(_ context.Context, op string, _ uint32) error {
			ops = append(ops, op)
			return nil
		}
		s.wantNoError(s.run())
		want := []string{"dial", "select", "search", "describe"}
		if got := slices.Compact(ops); !slices.Equal(got, want) || len(ops) != 203 {
			t.Errorf("the server was asked %d times, %v; want for 200 messages, in one list with their descriptions",
				len(ops), got)
		}
	})
}
