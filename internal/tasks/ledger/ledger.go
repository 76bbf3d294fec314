// Package ledger decides what becomes of each message of a page, from what the registry knows of messages seen before.
// It touches nothing, so that every queue decides alike.
//
// Dropping is worse than repeating: what is not certainly the same message is a new one.
package ledger

import (
	"strings"

	"postrider/internal/message"
	"postrider/internal/tasks"
)

// Row is one message of the ledger and the task it belongs to.
type Row struct {
	InboxID     int64
	FolderID    int64
	Epoch       int64
	TaskID      int64               // 0: there before the start
	Fingerprint message.Fingerprint // its outline when it was there before the start
	Status      tasks.Status        // of the task; empty when that has been purged
	PurgedAs    string              // then: as PurgedAs tells; empty when others than postrider have deleted the task
	Reached     bool                // of the task: somebody has the message, or may have it
	Route       string
	Reason      string
}

// Vanished is PurgedAs of a task that ended because its message was not there any more: should it show up again, it is new.
const Vanished = "vanished"

// Marks of PurgedAs: partly begins that of a task that was not forwarded though somebody has the message, and byPerson is that
// of one that a person skipped.
const (
	partly   = "partly_"
	byPerson = "by_person"
)

// PurgedAs is what the ledger keeps of a task that is deleted: Vanished, or the state in which it ended, with a mark when
// somebody has the message all the same, or a person said that it shall not go out.
func PurgedAs(s tasks.Status, reason string, reached bool) string {
	switch {
	case s == tasks.Skipped && strings.HasPrefix(reason, tasks.VanishedPrefix):
		return Vanished
	case s != tasks.Forwarded && reached:
		return partly + string(s)
	case s == tasks.Skipped && strings.HasPrefix(reason, tasks.ByPersonPrefix):
		return byPerson
	}
	return string(s)
}

// Disposed is the state in which a task ended that is gone; empty when nobody knows, since it was not postrider that
// deleted it.
func Disposed(purgedAs string) tasks.Status {
	switch purgedAs {
	case Vanished, byPerson:
		return tasks.Skipped
	}
	return tasks.Status(strings.TrimPrefix(purgedAs, partly))
}

// vanished reports whether the row's task ended because its message was not there any more.
func (r Row) vanished() bool {
	return r.Status == tasks.Skipped && strings.HasPrefix(r.Reason, tasks.VanishedPrefix)
}

// accounts reports whether the row's task makes duplicates of equal messages: it was or is to be forwarded, or a person has skipped
// it. One that somebody got, or may have got, counts whatever became of it: a copy would be sent to that one again, and who did
// not get it is the task's to tell. A live one counts from when it has a route: it is reserved, and none goes out before that.
func (r Row) accounts() bool {
	switch {
	case r.TaskID == 0:
		return false
	case r.Status == "":
		return Disposed(r.PurgedAs) == tasks.Forwarded || strings.HasPrefix(r.PurgedAs, partly) || r.PurgedAs == byPerson
	case r.Reached:
		return true
	case r.Status.Ended():
		return r.Status == tasks.Forwarded || r.Status == tasks.Uncertain && r.Route != "" ||
			r.Status == tasks.Skipped && strings.HasPrefix(r.Reason, tasks.ByPersonPrefix)
	}
	return r.Route != ""
}

// Duplicates reports whether the row makes a duplicate of a task that turned out to have the same content: by the
// scope, or since it is the same message of an older epoch.
func (r Row) Duplicates(t Row, dedupe tasks.Dedupe) bool {
	switch {
	case r.TaskID == t.TaskID || !r.accounts():
		return false
	case r.FolderID == t.FolderID && r.Epoch != t.Epoch, dedupe == tasks.DedupeAll:
		return true
	}
	return dedupe == tasks.DedupeInbox && r.InboxID == t.InboxID
}
