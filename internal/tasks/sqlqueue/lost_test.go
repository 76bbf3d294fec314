package sqlqueue

import (
	"slices"
	"testing"

	"postrider/internal/tasks"
)

// TestLost deletes tasks behind the queue's back. Nobody knows what became of them: they are lost, make nothing a duplicate, and
// once they are forgotten their messages are registered anew.
func TestLost(t *testing.T) {
	on(t, func(t *testing.T, r registry) {
		q := New(r.DB)
		inboxID := r.inbox(t, "desk@example.com")
		folderID := r.folder(t, inboxID, "INBOX", 1)
		page := tasks.Page{InboxID: inboxID, FolderID: folderID, Epoch: 1, Cursor: 3, Dedupe: tasks.DedupeInbox, Entries: entries(1, 3)}
		regs := register(t, q, page, tasks.New, tasks.New, tasks.New)
		for _, id := range []int64{regs[0].TaskID, regs[1].TaskID} {
			r.exec(t, "DELETE FROM monitored_emails_tasks WHERE id = ?", id)
		}
		lost := func(epoch int64, want ...uint32) {
			t.Helper()
			ds, err := q.Dispositions(t.Context(), folderID, epoch, 1, 9)
			var got []uint32
			for _, d := range ds {
				if d.Lost() {
					got = append(got, d.UID)
				}
			}
			if err != nil || !slices.Equal(got, want) {
				t.Errorf("lost in epoch %d are %v, error %v; want %v", epoch, got, err, want)
			}
		}
		lost(1, 1, 2)

		again := page
		again.Entries = entries(1, 3)
		again.FolderID = r.folder(t, inboxID, "Copies", 1)
		register(t, q, again, tasks.New, tasks.New, tasks.Duplicate)

		// A new epoch: the lost one is known, and lost still, until it is forgotten, in whatever epoch.
		r.exec(t, "UPDATE monitored_folders SET uid_validity = 2, last_seen_uid = 0 WHERE id = ?", folderID)
		page.Epoch, page.Dedupe = 2, tasks.DedupeOff
		register(t, q, page, tasks.Known, tasks.Known, tasks.Moved)
		lost(2, 1, 2)
		if n, err := q.Forget(t.Context(), "ann", folderID, 2, 1, 3, 9); n != 1 || err != nil {
			t.Fatalf("forgotten: %d, %v; want the lost one of these", n, err)
		}
		lost(1, 2)
		lost(2, 2)
		if events, err := q.Events(t.Context(), regs[0].TaskID); err != nil || len(events) != 1 || events[0].Event != "forgotten" || events[0].Worker != "ann" {
			t.Errorf("its trail is %+v, error %v; want who forgot it", events, err)
		}
		register(t, q, page, tasks.New, tasks.Known, tasks.Known)
		lost(2, 2)
	}, "sqlite", "mariadb", "mysql")
}

func register(t *testing.T, q *Queue, page tasks.Page, want ...tasks.Fate) []tasks.Registration {
	t.Helper()
	regs, err := q.Register(t.Context(), page)
	var got []tasks.Fate
	for _, r := range regs {
		got = append(got, r.Fate)
	}
	if err != nil || !slices.Equal(got, want) {
		t.Fatalf("the fates are %v, error %v; want %v", got, err, want)
	}
	return regs
}

// TestForgetLeavesThePlace: what others have deleted may have been what nobody got yet. Once it is forgotten, one of its duplicates
// is decided on anew; the others are that one's.
func TestForgetLeavesThePlace(t *testing.T) {
	on(t, func(t *testing.T, r registry) {
		q := New(r.DB)
		inboxID := r.inbox(t, "desk@example.com")
		page := tasks.Page{InboxID: inboxID, Epoch: 1, Cursor: 1, Dedupe: tasks.DedupeInbox, Entries: entries(1, 1)}
		var ids []int64
		for i, fate := range []tasks.Fate{tasks.New, tasks.Duplicate, tasks.Duplicate} {
			page.FolderID = r.folder(t, inboxID, string(rune('a'+i)), 1)
			ids = append(ids, register(t, q, page, fate)[0].TaskID)
		}
		r.exec(t, "DELETE FROM monitored_emails_tasks WHERE id = ?", ids[0])
		if n, err := q.Forget(t.Context(), "ann", page.FolderID-2, 1, 1); n != 1 || err != nil {
			t.Fatalf("forgotten: %d, %v; want 1", n, err)
		}
		heir, err := q.Get(t.Context(), ids[1])
		if err != nil || heir.Status != tasks.Received || heir.Route != "" {
			t.Errorf("its first duplicate is %s by %q (%s), %v; want it received, and to be decided on", heir.Status, heir.Route, heir.Reason, err)
		}
		other, err := q.Get(t.Context(), ids[2])
		if err != nil || other.Status != tasks.Skipped || other.Reason != tasks.DuplicateOf(heir.ID) {
			t.Errorf("its second duplicate is %s (%s), %v; want it skipped as one of the first", other.Status, other.Reason, err)
		}
	}, "sqlite", "mariadb", "mysql")
}
