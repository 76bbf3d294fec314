package memqueue

import (
	"cmp"
	"slices"

	"postrider/internal/message"
	"postrider/internal/tasks"
	"postrider/internal/tasks/ledger"
)

// place is where a message is, or was.
type place struct {
	folderID, epoch int64
	uid             uint32
}

// row notes one message that is accounted for. It outlives the task.
type row struct {
	place
	inboxID  int64
	taskID   int64 // 0: there before the start
	key      message.Fingerprint
	purgedAs string
}

// ledgerRows are the rows by their two indexes.
type ledgerRows struct {
	at   map[place]*row
	like map[message.Fingerprint][]*row
}

func (l *ledgerRows) note(r *row) {
	l.at[r.place] = r
	l.like[r.key] = append(l.like[r.key], r)
}

// read has a task be known by its content, wherever its message was known by its outline.
func (l *ledgerRows) read(taskID int64, outline, content message.Fingerprint) {
	for _, r := range slices.Clone(l.like[outline]) {
		if r.taskID == taskID {
			l.rekey(r, content)
		}
	}
}

// rekey lets a row be found by another key.
func (l *ledgerRows) rekey(r *row, key message.Fingerprint) {
	l.like[r.key] = slices.DeleteFunc(l.like[r.key], func(other *row) bool { return other == r })
	r.key = key
	l.like[key] = append(l.like[key], r)
}

// purge keeps how a task ended that is about to be deleted.
func (l *ledgerRows) purge(taskID int64, as string) {
	for _, r := range l.at {
		if r.taskID == taskID {
			r.purgedAs = as
		}
	}
}

// drop forgets the messages of an inbox.
func (l *ledgerRows) drop(inboxID int64) {
	for at, r := range l.at {
		if r.inboxID == inboxID {
			delete(l.at, at)
			l.like[r.key] = slices.DeleteFunc(l.like[r.key], func(other *row) bool { return other == r })
		}
	}
}

// alike are the rows with one of the keys, ordered by task, with what their tasks say now.
func (q *Queue) alike(keys ...message.Fingerprint) []ledger.Row {
	var found []*row
	for key := range unique(keys) {
		found = append(found, q.ledger.like[key]...)
	}
	slices.SortFunc(found, func(a, b *row) int {
		return cmp.Or(cmp.Compare(a.taskID, b.taskID), cmp.Compare(a.epoch, b.epoch), cmp.Compare(a.uid, b.uid))
	})
	out := make([]ledger.Row, len(found))
	for i, r := range found {
		out[i] = ledger.Row{
			InboxID: r.inboxID, FolderID: r.folderID, Epoch: r.epoch, TaskID: r.taskID, Fingerprint: r.key, PurgedAs: r.purgedAs,
		}
		if t := q.tasks[r.taskID]; t != nil {
			out[i].Status, out[i].Route, out[i].Reason, out[i].Reached = t.Status, t.Route, t.Reason, tasks.Reached(t.Deliveries)
		}
	}
	return out
}

func unique(keys []message.Fingerprint) map[message.Fingerprint]bool {
	set := make(map[message.Fingerprint]bool, len(keys))
	for _, key := range keys {
		set[key] = true
	}
	return set
}
