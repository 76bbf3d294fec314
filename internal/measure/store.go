package measure

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"gorm.io/gorm"

	"postrider/internal/db"
)

const (
	table      = "monitored_measures"
	keyColumns = "name, inbox_id, label"
)

const (
	// Reads the whole table: some rows for each inbox.
	sqlNumbers = `SELECT name, inbox_id, label, value FROM monitored_measures`

	// PRIMARY KEY (name, inbox_id, label)
	sqlNamed = sqlNumbers + ` WHERE name IN ?`

	// A join in place of a condition of the DELETE, which would lock rows of the inboxes.
	sqlRemoved = `SELECT DISTINCT m.inbox_id FROM monitored_measures m LEFT JOIN monitored_emails e ON e.id = m.inbox_id
WHERE m.inbox_id > 0 AND e.id IS NULL`

	sqlForget = `DELETE FROM monitored_measures WHERE inbox_id IN ?`
)

// Store keeps the sums in the database.
type Store struct{ db *db.DB }

// New is a Store in an open database.
func New(d *db.DB) *Store { return &Store{d} }

// row is a row of the table.
type row struct {
	key   key
	value float64
}

func (r *row) into() []any { return []any{&r.key.name, &r.key.inboxID, &r.key.label, &r.value} }

// Read returns the sums. It is one statement for any number of inboxes.
func (s *Store) Read(ctx context.Context) (Numbers, error) {
	rows, err := db.Read(ctx, s.db, (*row).into, sqlNumbers)
	n := newNumbers()
	for _, r := range rows {
		n.add(r)
	}
	for _, ds := range n.Deliveries {
		slices.SortFunc(ds, Deliveries.compare)
	}
	if err != nil {
		return n, fmt.Errorf("read what passes measured: %w", err)
	}
	return n, nil
}

// Keep adds what the meter counted to the sums, in one transaction, and empties the meter. When it
// fails the meter stays as it is, so that a later call adds the numbers.
func (s *Store) Keep(ctx context.Context, m *Meter) error {
	added, set, ended := m.take()
	if len(added)+len(set) == 0 && !ended {
		return nil
	}
	err := s.db.Tx(ctx, func(tx *gorm.DB) error { return s.keep(tx, added, set, ended) })
	if err != nil {
		m.putBack(added, set, ended)
		return fmt.Errorf("record what this pass measured: %w", err)
	}
	return nil
}

func (s *Store) keep(tx *gorm.DB, added, set map[key]float64, ended bool) error {
	set = maps.Clone(set)
	if ended {
		now, err := s.db.Now(tx)
		if err != nil {
			return err
		}
		set[key{lastPass, 0, ""}] = float64(now.UnixMicro()) / 1e6
	}
	if err := unchanged(tx, set); err != nil {
		return err
	}
	if err := db.AddTo(tx, table, keyColumns, "value", sorted(added)); err != nil {
		return err
	}
	if err := db.Upsert(tx, table, keyColumns, "value", sorted(set)); err != nil {
		return err
	}
	return forget(tx)
}

// unchanged removes from set what the database has already.
func unchanged(tx *gorm.DB, set map[key]float64) error {
	var names []string
	for k := range set {
		if !slices.Contains(names, k.name) {
			names = append(names, k.name)
		}
	}
	if len(names) == 0 {
		return nil
	}
	rows, err := db.Query(tx, (*row).into, sqlNamed, names)
	for _, r := range rows {
		if v, ok := set[r.key]; ok && v == r.value {
			delete(set, r.key)
		}
	}
	return err
}

// sorted are rows in the order of their keys: two transactions never wait for each other then.
func sorted(values map[key]float64) [][]any {
	keys := slices.SortedFunc(maps.Keys(values), func(a, b key) int {
		return cmp.Or(
			strings.Compare(a.name, b.name), cmp.Compare(a.inboxID, b.inboxID), strings.Compare(a.label, b.label),
		)
	})
	var rows [][]any
	for _, k := range keys {
		rows = append(rows, []any{k.name, k.inboxID, k.label, values[k]})
	}
	return rows
}

// forget deletes the numbers of inboxes that were removed.
func forget(tx *gorm.DB) error {
	removed, err := db.Query(tx, db.Value[int64], sqlRemoved)
	if err != nil || len(removed) == 0 {
		return err
	}
	return db.Run(tx, sqlForget, removed)
}
