package inbox

import (
	"slices"
	"testing"

	"gorm.io/gorm"

	"postrider/internal/outbox"
)

// TestFollow: the begin and the end of an outage, and that a login is needed, are noted once each,
// also when the answer to a commit was lost.
func TestFollow(t *testing.T) {
	onEach(t, func(t *testing.T, b bench) {
		b.Follow(outbox.InboxUnreachable, outbox.InboxOK, outbox.NeedsLogin)
		id := b.add("desk@firm.example").ID
		scan := func(end ScanEnd) {
			by := Scan{id, b.acquire(id, "run-1")}
			for range 2 { // as when the answer to the first is lost
				b.must(b.FinishScan(b.ctx, by, end))
			}
		}
		works, fails, login := ScanEnd{}, ScanEnd{Failure: "no"}, ScanEnd{Failure: "log in", LoginNeeded: true}
		for _, end := range []ScanEnd{
			works, fails, fails, works, // no outage
			fails, fails, fails, fails, works, // one
			works, login, login, works, // and one that needs a login
			fails, fails, fails, login, {Interrupted: true}, works, // which comes to need one
			login, fails, login, fails, fails, fails, works, // other failures, too few at first
		} {
			scan(end)
		}
		var got []outbox.Kind
		b.must(b.db.View(b.ctx, func(tx *gorm.DB) error {
			return tx.Raw(`SELECT kind FROM monitored_occurrences
				WHERE inbox_id = ? AND task_id = 0 ORDER BY id`, id).Scan(&got).Error
		}))
		want := []outbox.Kind{
			outbox.InboxUnreachable, outbox.InboxOK, outbox.NeedsLogin, outbox.InboxOK,
			outbox.InboxUnreachable, outbox.NeedsLogin, outbox.InboxOK,
			outbox.NeedsLogin, outbox.InboxUnreachable, outbox.InboxOK,
		}
		if !slices.Equal(got, want) {
			t.Errorf("noted are %q, want %q", got, want)
		}
	})
}
