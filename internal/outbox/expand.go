package outbox

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"time"

	"gorm.io/gorm"

	"postrider/internal/db"
)

// Planned is an entry that will replace an occurrence.
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

// Plan finds out what follows from occurrences: any number of entries from each, and at most one
// for each destination and action.
type Plan func(ctx context.Context, os []Occurrence) ([]Planned, error)

// Expanded is what Expand did.
type Expanded struct {
	N       int             // occurrences that were replaced
	Claims  []Claim         // new events that were claimed
	Waiting map[string]bool // destinations with new entries that wait
}

// maxTries bounds how often Expand plans again.
const maxTries = 20

// Expand replaces up to most of the oldest occurrences with entries. It also claims new events, at
// most as many as wants asks for, so that they need not be looked up again: the first event of each
// task, unless an earlier event of that task has not ended yet.
//
// If the occurrences were changed concurrently, it plans again. A kill at any point leaves either
// the occurrence or all of its entries.
func (s *Store) Expand(ctx context.Context, most int, plan Plan, wants ...Want) (Expanded, error) {
	for range maxTries {
		os, err := s.oldest(ctx, most)
		if err != nil || len(os) == 0 {
			return Expanded{}, err
		}
		planned, err := plan(ctx, os)
		if err != nil {
			return Expanded{}, err
		}
		done, err := s.replace(ctx, os, planned, wants)
		switch {
		case errors.Is(err, errTaken):
		case err != nil:
			return Expanded{}, fmt.Errorf("replace %d occurrences by outbox entries: %w", len(os), err)
		default:
			return done, nil
		}
	}
	return Expanded{}, nil // changed concurrently each time
}

// occurrenceRow is a row of monitored_occurrences.
type occurrenceRow struct {
	Occurrence
	at int64
}

func (r *occurrenceRow) into() []any { return []any{&r.ID, &r.Kind, &r.TaskID, &r.InboxID, &r.at} }

func (s *Store) oldest(ctx context.Context, most int) (out []Occurrence, _ error) {
	rows, err := db.Read(ctx, s.db, (*occurrenceRow).into, sqlOccurrences, most)
	if err != nil {
		return nil, fmt.Errorf("read occurrences: %w", err)
	}
	for _, r := range rows {
		r.At = time.UnixMicro(r.at).UTC()
		out = append(out, r.Occurrence)
	}
	return out, nil
}

// errTaken means that others have already expanded some of the occurrences.
var errTaken = errors.New("the occurrences were changed concurrently")

// replace returns errTaken if not all of the occurrences are there.
func (s *Store) replace(ctx context.Context, os []Occurrence, planned []Planned, wants []Want) (Expanded, error) {
	var claims []Claim
	var waiting map[string]bool
	ids := make([]int64, len(os))
	for i, o := range os {
		ids[i] = o.ID
	}
	err := s.db.Tx(ctx, func(tx *gorm.DB) error {
		if done, err := stand(tx, claims, InProgress); err != nil || len(done) > 0 {
			return err // an earlier try was committed, and the answer was lost
		}
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
		entries := entriesOf(planned, now)
		if claims, err = claimNew(tx, entries, wants); err != nil {
			return err
		}
		waiting = waitingIn(entries)
		if err := db.Insert(tx, tableOutbox, newColumns, rowsOf(entries, claims)); err != nil {
			return err
		}
		return identify(tx, claims)
	})
	return Expanded{len(os), claims, waiting}, err
}

// waitingIn are the destinations of entries that wait.
func waitingIn(entries []Entry) map[string]bool {
	out := map[string]bool{}
	for _, e := range entries {
		if e.Status == Waiting {
			out[e.Destination] = true
		}
	}
	return out
}

// entriesOf returns the planned entries, which are not claimed yet.
func entriesOf(planned []Planned, now time.Time) []Entry {
	entries := make([]Entry, len(planned))
	for i, p := range planned {
		due := now.Add(p.Delay)
		entries[i] = Entry{
			EventID: p.EventID, OccurrenceID: p.Occurrence.ID, Destination: p.Destination, Kind: p.Occurrence.Kind,
			TaskID: p.Occurrence.TaskID, InboxID: cmp.Or(p.InboxID, p.Occurrence.InboxID),
			Action: p.Action, Body: p.Body, Status: Waiting, VisibleAt: &due, CreatedAt: now,
		}
		if p.Error != "" {
			e := &entries[i]
			e.Status, e.VisibleAt, e.FinishedAt, e.Error = DeadLetter, nil, &now, db.Cut(p.Error, 4000)
		}
	}
	return entries
}

// lane is a task and a destination: events in one are kept in order.
type lane struct {
	taskID      int64
	destination string
}

func (l *lane) into() []any { return []any{&l.taskID, &l.destination} }

// claimNew claims the new entries that are wanted and that Receive would also claim. They have no
// IDs yet.
func claimNew(tx *gorm.DB, entries []Entry, wants []Want) (claims []Claim, _ error) {
	wanted := map[string]Want{}
	for _, w := range wants {
		wanted[w.Destination] = w
	}
	var ids []int64
	for _, e := range entries {
		if wanted[e.Destination].Max > 0 && e.TaskID != 0 {
			ids = append(ids, e.TaskID)
		}
	}
	if len(ids) == 0 {
		return nil, nil
	}
	waiting, err := db.Query(tx, (*lane).into, sqlLanes, distinct(ids))
	if err != nil {
		return nil, err
	}
	busy := map[lane]bool{}
	for _, l := range waiting {
		busy[l] = true
	}
	receipt := rand.Text()
	for i := range entries {
		e := &entries[i]
		w, l := wanted[e.Destination], lane{e.TaskID, e.Destination}
		if e.Status != Waiting || e.TaskID == 0 || busy[l] {
			continue
		}
		busy[l] = true
		if w.Max <= 0 || e.VisibleAt.After(e.CreatedAt) {
			continue
		}
		until := e.CreatedAt.Add(w.Lease)
		e.Status, e.Attempts, e.Worker, e.VisibleAt = InProgress, 1, w.Worker, &until
		claims = append(claims, Claim{Entry: *e, Receipt: receipt})
		w.Max--
		wanted[e.Destination] = w
	}
	return claims, nil
}

// distinct returns each ID once: MariaDB runs a query differently if a list has more than 1,000.
func distinct(ids []int64) []int64 {
	slices.Sort(ids)
	return slices.Compact(ids)
}

func rowsOf(entries []Entry, claims []Claim) [][]any {
	receipts := map[string]string{}
	for _, c := range claims {
		receipts[c.EventID] = c.Receipt
	}
	rows := make([][]any, len(entries))
	for i, e := range entries {
		if e.Body == nil {
			e.Body = []byte{}
		}
		rows[i] = []any{
			e.EventID, e.OccurrenceID, e.Destination, e.Kind, e.TaskID, e.InboxID, e.Action, e.Body,
			e.Status, e.Attempts, db.Micros(&e.VisibleAt), receipts[e.EventID], db.Cut(e.Worker, 255), e.Error,
			e.CreatedAt, e.FinishedAt,
		}
	}
	return rows
}

// madeRow is an entry that was made.
type madeRow struct {
	id      int64
	eventID string
}

func (r *madeRow) into() []any { return []any{&r.id, &r.eventID} }

// identify gives claims of new entries the IDs that these have in the database.
func identify(tx *gorm.DB, claims []Claim) error {
	if len(claims) == 0 {
		return nil
	}
	var tasks []int64
	for _, c := range claims {
		tasks = append(tasks, c.TaskID)
	}
	rows, err := db.Query(tx, (*madeRow).into, sqlMade, distinct(tasks), claims[0].Receipt)
	ids := map[string]int64{}
	for _, r := range rows {
		ids[r.eventID] = r.id
	}
	for i := range claims {
		claims[i].ID = ids[claims[i].EventID]
	}
	return err
}
