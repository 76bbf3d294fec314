package outbox

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"gorm.io/gorm"

	"postrider/internal/db"
)

// Planned is an entry that is to take the place of an occurrence.
type Planned struct {
	Occurrence  Occurrence
	Destination string
	EventID     string
	InboxID     int64 // of the task; 0 when the occurrence has it
	Action      string
	Body        []byte
	Delay       time.Duration // not before that has passed
	Error       string        // why there is no Body: the entry is dead from the beginning; else empty
}

// Plan finds out what follows from occurrences: any number of entries from each, and at most one for
// each destination and action.
type Plan func(ctx context.Context, os []Occurrence) ([]Planned, error)

// Expand replaces the oldest occurrences, at most most of them, by entries, and returns how many it replaced.
// If they were changed concurrently, it plans again. Killed anywhere, it leaves either the occurrence or
// all of its entries.
func (s *Store) Expand(ctx context.Context, most int, plan Plan) (expanded int, _ error) {
	for range maxTries {
		os, err := s.oldest(ctx, most)
		if err != nil || len(os) == 0 {
			return 0, err
		}
		planned, err := plan(ctx, os)
		if err != nil {
			return 0, err
		}
		took, err := s.replace(ctx, os, planned)
		if err != nil {
			return 0, fmt.Errorf("replace %d occurrences by outbox entries: %w", len(os), err)
		}
		if took {
			return len(os), nil
		}
	}
	return 0, nil // changed concurrently each time
}

// occurrenceRow is a row of monitored_occurrences.
type occurrenceRow struct {
	Occurrence
	at int64
}

func (r *occurrenceRow) into() []any { return []any{&r.ID, &r.Kind, &r.TaskID, &r.InboxID, &r.at} }

func (s *Store) oldest(ctx context.Context, most int) (out []Occurrence, _ error) {
	var rows []occurrenceRow
	err := s.db.View(ctx, func(tx *gorm.DB) (err error) {
		rows, err = db.Query(tx, (*occurrenceRow).into, sqlOccurrences, most)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("read occurrences: %w", err)
	}
	for _, r := range rows {
		r.At = time.UnixMicro(r.at).UTC()
		out = append(out, r.Occurrence)
	}
	return out, nil
}

// errTaken is that others have expanded some of the occurrences.
var errTaken = errors.New("the occurrences were changed concurrently")

// replace reports whether all of the occurrences were there.
func (s *Store) replace(ctx context.Context, os []Occurrence, planned []Planned) (took bool, _ error) {
	ids := make([]int64, len(os))
	for i, o := range os {
		ids[i] = o.ID
	}
	err := s.db.Tx(ctx, func(tx *gorm.DB) error {
		now, err := s.db.Now(tx)
		if err != nil {
			return err
		}
		gone, err := db.Exec(tx, sqlTakeOccurrences, ids)
		if err == nil && gone != int64(len(ids)) {
			err = errTaken
		}
		if err != nil {
			return err
		}
		return db.Insert(tx, tableOutbox, newColumns, rowsOf(planned, now))
	})
	if errors.Is(err, errTaken) {
		return false, nil
	}
	return err == nil, err
}

func rowsOf(planned []Planned, now int64) [][]any {
	rows := make([][]any, len(planned))
	for i, p := range planned {
		body := p.Body
		if body == nil {
			body = []byte{}
		}
		at := time.UnixMicro(now).UTC()
		status, visible, ended := Waiting, any(now+p.Delay.Microseconds()), any(nil)
		if p.Error != "" {
			status, visible, ended = DeadLetter, nil, at
		}
		rows[i] = []any{
			p.EventID, p.Occurrence.ID, p.Destination, p.Occurrence.Kind, p.Occurrence.TaskID, cmp.Or(p.InboxID, p.Occurrence.InboxID), p.Action, body,
			status, 0, visible, "", "", db.Cut(p.Error, 4000), at, ended,
		}
	}
	return rows
}
