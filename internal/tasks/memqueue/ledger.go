package memqueue

import (
	"cmp"
	"slices"

	"postrider/internal/message"
	"postrider/internal/tasks"
)

// place is where a message is, or was.
type place struct {
	folderID, epoch int64
	uid             uint32
}

// row notes one message that is accounted for. It outlives the task.
type row struct {
	place    place
	inboxID  int64
	taskID   int64 // 0: there before the start
	key      message.Fingerprint
	stated   tasks.Stated
	purgedAs string
}

// ledger has the rows by two indexes.
type ledger struct {
	at   map[place]*row
	like map[message.Fingerprint][]*row
}

func (l *ledger) note(r *row) {
	l.at[r.place] = r
	l.like[r.key] = append(l.like[r.key], r)
}

// read has a task be known by its content, wherever its message was known by its outline.
func (l *ledger) read(taskID int64, outline, content message.Fingerprint) {
	for _, r := range slices.Clone(l.like[outline]) {
		if r.taskID == taskID {
			l.rekey(r, content)
		}
	}
}

// rekey lets a row be found by another key.
func (l *ledger) rekey(r *row, key message.Fingerprint) {
	l.drop(r)
	r.key = key
	l.note(r)
}

func (l *ledger) drop(r *row) {
	delete(l.at, r.place)
	l.like[r.key] = slices.DeleteFunc(l.like[r.key], func(other *row) bool { return other == r })
}

// purge keeps how a task ended that is about to be deleted.
func (l *ledger) purge(taskID int64, as string) {
	for _, r := range l.at {
		if r.taskID == taskID {
			r.purgedAs = as
		}
	}
}

// alike are the rows with one of the keys, ordered by task, with what their tasks say now.
func (q *Queue) alike(keys ...message.Fingerprint) []tasks.Seen {
	slices.SortFunc(keys, func(a, b message.Fingerprint) int { return slices.Compare(a[:], b[:]) })
	var found []*row
	for _, key := range slices.Compact(keys) {
		found = append(found, q.ledger.like[key]...)
	}
	slices.SortFunc(found, func(a, b *row) int {
		return cmp.Or(cmp.Compare(a.taskID, b.taskID),
			cmp.Compare(a.place.epoch, b.place.epoch), cmp.Compare(a.place.uid, b.place.uid))
	})
	out := make([]tasks.Seen, len(found))
	for i, r := range found {
		out[i] = q.seen(r)
	}
	return out
}

// seen is a row, with what its task says now.
func (q *Queue) seen(r *row) tasks.Seen {
	out := tasks.Seen{
		FolderID: r.place.folderID, Epoch: r.place.epoch, TaskID: r.taskID,
		Fingerprint: r.key, PurgedAs: r.purgedAs,
	}
	if t := q.tasks[r.taskID]; t != nil {
		out.Status, out.Skip = t.Status, t.Skip
	}
	return out
}

// noted is a row as Noted returns it.
func (q *Queue) noted(r *row) tasks.Noted {
	return tasks.Noted{UID: r.place.uid, Fingerprint: r.key, Stated: r.stated, Skip: q.seen(r).Skip}
}
