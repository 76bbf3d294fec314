package ledger

import (
	"crypto/sha256"
	"testing"

	"postrider/internal/message"
	"postrider/internal/tasks"
)

func hash(s string) message.Fingerprint { return sha256.Sum256([]byte(s)) }

func entry(uid uint32, content string) tasks.Entry {
	return tasks.Entry{UID: uid, Fingerprint: hash(content), Outline: hash("outline of " + content), Route: "desk"}
}

// TestPlan decides on one message by one thing that the ledger knows. The page is of folder 1 of inbox 1, under epoch 5.
func TestPlan(t *testing.T) {
	skip := entry(9, "a")
	skip.Skip = "too_large"
	unread := tasks.Entry{UID: 9, Fingerprint: hash("outline of a"), Outline: hash("outline of a"), Route: "desk"}
	m := func(inbox, folder, epoch, task int64, key string, status tasks.Status, route string) Row {
		h := hash(key)
		return Row{InboxID: inbox, FolderID: folder, Epoch: epoch, TaskID: task, Fingerprint: h, Status: status, Route: route}
	}
	for _, c := range []struct {
		name  string
		seen  map[uint32]int64
		found []Row
		entry tasks.Entry
		fate  tasks.Fate
		task  int64
		note  bool
	}{
		{"nothing known", nil, nil, entry(9, "a"), tasks.New, 0, true},
		{"registered", map[uint32]int64{9: 3}, nil, entry(9, "a"), tasks.Known, 3, false},
		{"there before the start", map[uint32]int64{9: 0}, nil, entry(9, "a"), tasks.Known, 0, false},
		{"another UID", map[uint32]int64{8: 3}, nil, entry(9, "a"), tasks.New, 0, true},
		{"to be skipped", nil, nil, skip, tasks.SkippedAt, 0, true},
		{"in an older epoch", nil, []Row{m(1, 1, 4, 3, "a", tasks.Forwarded, "desk")}, entry(9, "a"), tasks.Moved, 3, true},
		{"in an older epoch, purged", nil, []Row{{InboxID: 1, FolderID: 1, Epoch: 4, TaskID: 3, Fingerprint: hash("a"), PurgedAs: "forwarded"}}, entry(9, "a"), tasks.Known, 3, true},
		{"in an older epoch, and others deleted its task", nil, []Row{m(1, 1, 4, 3, "a", "", "")}, entry(9, "a"), tasks.Known, 3, true},
		{"in an older epoch, before the start", nil, []Row{m(1, 1, 4, 0, "outline of a", "", "")}, entry(9, "a"), tasks.Known, 0, true},
		{"in an older epoch, unread", nil, []Row{m(1, 1, 4, 3, "outline of a", tasks.Skipped, "")}, entry(9, "a"), tasks.Moved, 3, true},
		{"found again already", nil, []Row{m(1, 1, 4, 3, "a", tasks.Forwarded, "desk"), m(1, 1, 5, 3, "a", tasks.Forwarded, "desk")}, entry(9, "a"), tasks.Duplicate, 0, true},
		{"older epoch of another folder", nil, []Row{m(1, 2, 4, 3, "a", tasks.Forwarded, "desk")}, entry(9, "a"), tasks.Duplicate, 0, true},
		{"equal in this folder", nil, []Row{m(1, 1, 5, 3, "a", tasks.Received, "desk")}, entry(9, "a"), tasks.Duplicate, 0, true},
		{"equal in another inbox", nil, []Row{m(2, 7, 1, 3, "a", tasks.Forwarded, "desk")}, entry(9, "a"), tasks.New, 0, true},
		{"equal and purged", nil, []Row{{InboxID: 1, FolderID: 2, Epoch: 1, TaskID: 3, Fingerprint: hash("a"), PurgedAs: "forwarded"}}, entry(9, "a"), tasks.Duplicate, 0, true},
		{"equal, and others deleted its task", nil, []Row{m(1, 2, 1, 3, "a", "", "")}, entry(9, "a"), tasks.New, 0, true},
		{"equal, purged and dead", nil, []Row{{InboxID: 1, FolderID: 2, Epoch: 1, TaskID: 3, Fingerprint: hash("a"), PurgedAs: "dead"}}, entry(9, "a"), tasks.New, 0, true},
		{"in an older epoch, purged and skipped", nil, []Row{{InboxID: 1, FolderID: 1, Epoch: 4, TaskID: 3, Fingerprint: hash("a"), PurgedAs: "skipped"}}, entry(9, "a"), tasks.Known, 3, true},
		{"in an older epoch, purged and vanished", nil, []Row{{InboxID: 1, FolderID: 1, Epoch: 4, TaskID: 3, Fingerprint: hash("a"), PurgedAs: Vanished}}, entry(9, "a"), tasks.New, 0, true},
		{"equal and dead", nil, []Row{m(1, 2, 1, 3, "a", tasks.Dead, "desk")}, entry(9, "a"), tasks.New, 0, true},
		{"equal without a route", nil, []Row{m(1, 2, 1, 3, "a", tasks.Received, "")}, entry(9, "a"), tasks.New, 0, true},
		{"equal outline elsewhere", nil, []Row{m(1, 2, 1, 3, "outline of a", tasks.Forwarded, "desk")}, entry(9, "a"), tasks.New, 0, true},
		{"equal outline, unread both", nil, []Row{m(1, 1, 5, 3, "outline of a", tasks.Forwarded, "desk")}, unread, tasks.New, 0, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			page := tasks.Page{InboxID: 1, FolderID: 1, Epoch: 5, Dedupe: tasks.DedupeInbox}
			page.Entries = []tasks.Entry{c.entry}
			f := Decide(page, c.seen, c.found)[0]
			if f.Fate != c.fate || f.TaskID != c.task || f.Note != c.note || f.UID != 9 {
				t.Errorf("fate %d of task %d, noted %t; want %d, %d, %t", f.Fate, f.TaskID, f.Note, c.fate, c.task, c.note)
			}
			if skipped := c.fate == tasks.SkippedAt || c.fate == tasks.Duplicate; skipped != (f.Why != "" || f.Of != 0 || f.OfUID != 0) {
				t.Errorf("why is %q, of task %d, UID %d; a reason belongs to what is skipped, and to that alone", f.Why, f.Of, f.OfUID)
			}
		})
	}
}
