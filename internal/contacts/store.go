package contacts

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"gorm.io/gorm"

	"postrider/internal/db"
	"postrider/internal/text"
)

const (
	// Reads the whole table.
	sqlList   = `SELECT id, name, email, keywords, is_active FROM contacts ORDER BY id`
	sqlInsert = `INSERT INTO contacts (name, email, identity, keywords, is_active) VALUES (?, ?, ?, ?, ?)`
	sqlUpdate = `UPDATE contacts SET name = ?, email = ?, identity = ?, keywords = ?, is_active = ?
		WHERE id = ? AND name = ? AND email = ? AND keywords = ? AND is_active = ?`
	sqlDelete = `DELETE FROM contacts WHERE id IN ?`
)

// errChanged is for a contact that another process changed or removed since it was read.
var errChanged = fmt.Errorf("the contact was %w", db.ErrChanged)

// Store is the directory in the database. It is safe for concurrent use.
type Store struct{ db *db.DB }

// New returns the store over a database.
func New(db *db.DB) *Store { return &Store{db} }

// List returns all contacts in the order in which they were added.
func (s *Store) List(ctx context.Context) (all []Contact, err error) {
	err = s.db.View(ctx, func(tx *gorm.DB) error {
		all, err = list(tx)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("list contacts: %w", err)
	}
	return all, nil
}

func list(tx *gorm.DB) ([]Contact, error) {
	type row struct {
		Contact
		keywords string
	}
	rows, err := db.Query(tx, func(r *row) []any {
		return []any{&r.ID, &r.Name, &r.Email, &r.keywords, &r.Active}
	}, sqlList)
	all := make([]Contact, len(rows))
	for i, r := range rows {
		all[i] = r.Contact
		all[i].Keywords, all[i].stored = Keywords(r.keywords), r.keywords
	}
	return all, err
}

// Plan returns what Put would do, and changes nothing. An *InvalidError holds all faults of the
// entries.
func (s *Store) Plan(ctx context.Context, entries []Entry) ([]Change, error) {
	all, err := s.List(ctx)
	if err != nil {
		return nil, err
	}
	return plan(all, entries)
}

// Put adds contacts and changes existing ones in one transaction, and returns what it did. An
// *InvalidError holds all faults of the entries; then nothing is changed. When another process
// adds, changes or removes the same contact first, Put plans again.
func (s *Store) Put(ctx context.Context, entries []Entry) (changes []Change, err error) {
	err = s.db.Change(ctx, func(tx *gorm.DB, _ time.Time) error {
		all, err := list(tx)
		if err != nil {
			return err
		}
		if changes, err = plan(all, entries); err != nil {
			return err
		}
		for _, c := range changes {
			if err := put(tx, c); err != nil {
				return fmt.Errorf("save contact %s: %w", c.New, err)
			}
		}
		return nil
	})
	if errors.Is(err, gorm.ErrDuplicatedKey) {
		err = fmt.Errorf("%w; a contact that was edited in the database still has this identity; to fix it: "+
			"UPDATE contacts SET identity = NULL", err)
	}
	return changes, err
}

func put(tx *gorm.DB, c Change) error {
	n := c.New
	switch {
	case c.Old == nil:
		return db.Run(tx, sqlInsert, n.Name, n.Email, key(n), joined(n.Keywords), n.Active)
	case !c.Old.same(n):
		o := c.Old
		matched, err := db.Exec(tx, sqlUpdate, n.Name, n.Email, key(n), joined(n.Keywords), n.Active,
			o.ID, o.Name, o.Email, o.stored, o.Active)
		if err == nil && matched == 0 {
			err = errChanged
		}
		return err
	}
	return nil
}

// Find returns the contact with an ID, an email address or a name. An *InvalidError says that there
// is none, or lists several.
func (s *Store) Find(ctx context.Context, who string) (Contact, error) {
	all, err := s.List(ctx)
	if err != nil {
		return Contact{}, err
	}
	address, name := identity(who), normalized(who)
	var found []Contact
	var lines []string
	for _, c := range all {
		id := strconv.FormatInt(c.ID, 10)
		if who == id || who != "" && identity(c.Email) == address || c.Name == name {
			found, lines = append(found, c), append(lines, fmt.Sprintf("%s (%s)", id, text.Line(c.String())))
		}
	}
	switch len(found) {
	case 0:
		return Contact{}, &InvalidError{fmt.Errorf("there is no contact with the ID, email address or name %q; "+
			"see `postrider contact list`", who)}
	case 1:
		return found[0], nil
	}
	return Contact{}, &InvalidError{fmt.Errorf("%q matches %d contacts; name one by an ID or address of its own: %s",
		who, len(found), strings.Join(lines, ", "))}
}

// Remove deletes contacts. Decisions that were already made stay: a waiting message is still sent
// to a removed contact.
func (s *Store) Remove(ctx context.Context, ids ...int64) error {
	err := s.db.Tx(ctx, func(tx *gorm.DB) error { return db.Run(tx, sqlDelete, ids) })
	if err != nil {
		return fmt.Errorf("remove contacts: %w", err)
	}
	return nil
}
