package sqlqueue

import (
	"time"

	"gorm.io/gorm"

	"postrider/internal/outbox"
	"postrider/internal/tasks"
)

// Follow has registrations and ends of tasks noted, each in its own transaction (package outbox).
// Woken is called when that is done, mostly before the transaction is committed. Call it before
// anything else.
func (q *Queue) Follow(woken func(), kinds ...outbox.Kind) {
	q.follows, q.woken = map[outbox.Kind]bool{}, woken
	for _, k := range kinds {
		q.follows[k] = true
	}
}

// note notes occurrences that are followed.
func (q *Queue) note(tx *gorm.DB, now time.Time, os []outbox.Occurrence) error {
	var followed []outbox.Occurrence
	for _, o := range os {
		if q.follows[o.Kind] {
			followed = append(followed, o)
		}
	}
	if len(followed) == 0 {
		return nil
	}
	q.woken()
	return outbox.Note(tx, now, followed)
}

// noteEnd notes that a task has ended.
func (q *Queue) noteEnd(tx *gorm.DB, now time.Time, id int64, as tasks.Status) error {
	return q.note(tx, now, []outbox.Occurrence{{Kind: outbox.Kind(as), TaskID: id}})
}
