package sqlqueue

import (
	"slices"
	"testing"

	"postrider/internal/tasks"
)

// TestLost deletes tasks without the queue. Their outcome is unknown, so they are lost. After they
// are forgotten their messages are registered again.
func TestLost(t *testing.T) {
	onEach(t, func(t *testing.T, r registry) {
		q := New(r.DB)
		inboxID := r.inbox(t, "desk@example.com")
		folderID := r.folder(t, inboxID, "INBOX", 1)
		page := tasks.Page{
			InboxID: inboxID, FolderID: folderID, Epoch: 1, Cursor: 3,
			Dedupe: tasks.DedupeInbox, Entries: entries(1, 3),
		}
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

		// In any new epoch the lost tasks are known, and stay lost until they are forgotten.
		r.exec(t, "UPDATE monitored_folders SET uid_validity = 2, last_seen_uid = 0 WHERE id = ?", folderID)
		page.Epoch = 2
		register(t, q, page, tasks.Known, tasks.Known, tasks.Moved)
		lost(2, 1, 2)
		if n, err := q.Forget(t.Context(), "ann", folderID, 2, 1, 3, 9); n != 1 || err != nil {
			t.Fatalf("forgotten: %d, %v; want the lost one of these", n, err)
		}
		lost(1, 2)
		lost(2, 2)
		events, err := q.Events(t.Context(), regs[0].TaskID)
		if err != nil || len(events) != 1 || events[0].Event != "forgotten" || events[0].Worker != "ann" {
			t.Errorf("its trail is %+v, error %v; want who forgot it", events, err)
		}
		regs = register(t, q, page, tasks.New, tasks.Known, tasks.Known)
		if regs[0].Status != tasks.Received {
			t.Errorf("registered again it is %s, want received: what the lost task owned is free", regs[0].Status)
		}
		lost(2, 2)
	})
}

// TestLostFromLedger deletes a row of the ledger without the queue. Its task keeps the message:
// that is known, and those beside it are registered.
func TestLostFromLedger(t *testing.T) {
	onEach(t, func(t *testing.T, r registry) {
		q := New(r.DB)
		inboxID := r.inbox(t, "desk@example.com")
		folderID := r.folder(t, inboxID, "INBOX", 1)
		page := tasks.Page{
			InboxID: inboxID, FolderID: folderID, Epoch: 1, Cursor: 2,
			Dedupe: tasks.DedupeInbox, Entries: entries(1, 2),
		}
		before := register(t, q, page, tasks.New, tasks.New)
		r.exec(t, "DELETE FROM monitored_emails_seen WHERE uid = 2")
		page.Cursor, page.Entries = 3, entries(1, 3)
		if regs := register(t, q, page, tasks.Known, tasks.Known, tasks.New); regs[1].TaskID != before[1].TaskID {
			t.Errorf("UID 2 is of task %d, want %d", regs[1].TaskID, before[1].TaskID)
		}
		if left, err := q.Unseen(t.Context(), folderID, 1, []uint32{1, 2, 3}); len(left) > 0 || err != nil {
			t.Errorf("the ledger lacks %v, error %v; want all in it", left, err)
		}
	})
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

// TestForgetRequeuesDuplicates: it is unknown who got the message of a deleted task. Once the task
// is forgotten, its duplicates are decided again, and tasks that wait for it are due.
func TestForgetRequeuesDuplicates(t *testing.T) {
	onEach(t, func(t *testing.T, r registry) {
		q := New(r.DB)
		inboxID := r.inbox(t, "desk@example.com")
		page := tasks.Page{InboxID: inboxID, Epoch: 1, Cursor: 1, Dedupe: tasks.DedupeInbox, Entries: entries(1, 1)}
		in := func(name string) int64 {
			page.FolderID = r.folder(t, inboxID, name, 1)
			return register(t, q, page, tasks.New)[0].TaskID
		}
		first, waits := in("first"), in("waits")
		folderID := page.FolderID
		r.exec(t, "UPDATE monitored_emails_deliveries SET status = 'delivered' WHERE task_id = ?", first)
		duplicate := in("duplicate")
		if got, err := q.Get(t.Context(), duplicate); err != nil || got.Skip != tasks.SkipDuplicate {
			t.Fatalf("the copy is %s (%s), %v; want it skipped as a duplicate", got.Status, got.Reason, err)
		}
		r.exec(t, "DELETE FROM monitored_emails_tasks WHERE id = ?", first)
		for _, id := range []int64{folderID, folderID - 1} {
			if n, err := q.Forget(t.Context(), "ann", id, 1, 1); n != int(folderID-id) || err != nil {
				t.Fatalf("forgotten: %d, %v; want %d", n, err, folderID-id)
			}
		}
		got, err := q.Get(t.Context(), duplicate)
		want := []tasks.Delivery{{Recipient: "desk@firm.example", Status: tasks.Pending}}
		if err != nil || got.Status != tasks.Received || got.Skip != "" ||
			got.Revision != "" || !slices.Equal(got.Deliveries, want) {
			t.Errorf("its duplicate is %+v, %v; want it received, and to be decided again", got, err)
		}
		events, err := q.Events(t.Context(), duplicate)
		if err != nil || len(events) != 1 || events[0].Event != "requeued" || events[0].Worker != "ann" {
			t.Errorf("the trail of its duplicate is %+v, %v; want who requeued it", events, err)
		}
		claims, err := q.Receive(t.Context(), tasks.Want{
			InboxID: inboxID, Max: 9, Lease: 1, Worker: "w", MaxLostLeases: 3,
		})
		if err != nil || len(claims) != 2 || claims[0].Task.ID != waits && claims[1].Task.ID != waits {
			t.Errorf("claimed %+v, %v; want its duplicate, and what waited for it", claims, err)
		}
	})
}
