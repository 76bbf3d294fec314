package inbox

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"gorm.io/gorm"

	"postrider/internal/db"
	"postrider/internal/secret"
)

// PlanImport returns what Import would do, and changes nothing. An *ImportError holds all faults of
// the entries.
func (s *Store) PlanImport(ctx context.Context, entries []Entry, o ImportOptions) (plans []Planned, err error) {
	err = s.db.View(ctx, func(tx *gorm.DB) error {
		plans, err = s.planned(tx, entries, o)
		return err
	})
	return plans, importFailed(err)
}

// Import adds inboxes and changes existing ones in one transaction, and returns what it did. It
// never changes a cursor. An *ImportError holds all faults of the entries; then nothing is changed.
func (s *Store) Import(ctx context.Context, entries []Entry, o ImportOptions) (plans []Planned, err error) {
	err = s.db.Tx(ctx, func(tx *gorm.DB) error {
		if plans, err = s.planned(tx, entries, o); err != nil {
			return err
		}
		now, err := s.db.Now(tx)
		if err != nil {
			return err
		}
		if err := s.insertAll(tx, plans, now); err != nil {
			return err
		}
		for _, p := range plans {
			if len(p.Differences) == 0 {
				continue
			}
			if err := s.updateTo(tx, p, o, now); err != nil {
				return fmt.Errorf("%s: %w", p.Where, err)
			}
		}
		return nil
	})
	return plans, importFailed(err)
}

func importFailed(err error) error {
	if _, invalid := errors.AsType[*ImportError](err); err == nil || invalid {
		return err
	}
	return fmt.Errorf("import inboxes: %w", err)
}

func (s *Store) planned(tx *gorm.DB, entries []Entry, o ImportOptions) ([]Planned, error) {
	all, err := list(tx)
	if err != nil {
		return nil, err
	}
	return s.plan(all, entries, o)
}

// updateTo is Set, in this transaction. What the entry does not say may have changed meanwhile, and
// stays so.
func (s *Store) updateTo(tx *gorm.DB, p Planned, o ImportOptions, now time.Time) error {
	if err := s.update(tx, p.Old.ID, p.Old.Address, p.changes, p.changes.Folders, now); err != nil {
		return err
	}
	if p.New.Active && !p.Old.Active {
		return enable(tx, p.Old.ID, now, o.Who, o.Detail)
	}
	return nil
}

// insertAll inserts the inboxes that are new, with their folders.
func (s *Store) insertAll(tx *gorm.DB, plans []Planned, now time.Time) error {
	var boxes []Inbox
	added := map[string]Inbox{} // by address
	if err := s.requireKey(tx, ""); err != nil {
		return err
	}
	for _, p := range plans {
		if p.Old != nil {
			continue
		}
		in := p.New
		box, err := s.sealer.Seal(in, *p.entry.Set.Password)
		if err != nil {
			return err
		}
		in.Password, in.CreatedAt = secret.String(box), now
		boxes = append(boxes, in)
		added[in.Address] = in
	}
	err := insertInboxes(tx, boxes)
	if errors.Is(err, gorm.ErrDuplicatedKey) {
		return errors.New("another process added one of these inboxes meanwhile; try again")
	}
	if err != nil {
		return err
	}
	return insertWhatIsIn(tx, added)
}

// insertInboxes inserts the rows of inboxes, without their folders and labels.
func insertInboxes(tx *gorm.DB, boxes []Inbox) error {
	var rows [][]any
	for _, in := range boxes {
		rows = append(rows, []any{
			in.Address, string(in.Password), in.Description, in.Active, in.Host, in.Port, string(in.Security),
			in.AllowPlaintext, in.AllowDelete, in.Username, in.Auth, in.CAFile, in.TLSFingerprint, in.ClientCert,
			string(in.Start), "", "", 0, 0, in.CreatedAt, in.CreatedAt,
		})
	}
	const columns = "email_address, email_password, description, is_active, host, port, security, " +
		"allow_plaintext, allow_delete, username, auth, ca_file, tls_fingerprint, client_cert, " +
		"start, last_error, scan_holder, scan_token, scan_until, created_at, updated_at"
	return db.Insert(tx, "monitored_emails", columns, rows)
}

// newFolder is the row of a folder that is watched from now on.
func newFolder(inboxID int64, name string) []any { return []any{inboxID, name, 1, 0, 0, 0, 0, 0, 0} }

// insertWhatIsIn inserts the folders and labels of inboxes, by address, that are inserted already.
func insertWhatIsIn(tx *gorm.DB, added map[string]Inbox) error {
	addresses := slices.Sorted(maps.Keys(added))
	var rows, labels [][]any
	for some := range slices.Chunk(addresses, 1000) { // SQLite takes 32,766
		found, err := db.Query(tx, func(in *Inbox) []any { return []any{&in.ID, &in.Address} }, sqlIDs, some)
		if err != nil {
			return err
		}
		for _, in := range found {
			for _, name := range added[in.Address].Watched() {
				rows = append(rows, newFolder(in.ID, name))
			}
			for name, value := range added[in.Address].Labels {
				labels = append(labels, []any{in.ID, name, value})
			}
		}
	}
	if err := db.Insert(tx, "monitored_folders", folderColumns, rows); err != nil {
		return err
	}
	return db.Insert(tx, "monitored_labels", labelColumns, labels)
}

// requireKey fails when encrypted passwords or tokens exist, besides the password of one inbox, and
// the key does not. It counts first: a process that stores the first password in the meantime has
// then already created the file.
func (s *Store) requireKey(tx *gorm.DB, besides string) error {
	var sealed int64
	if err := tx.Raw(sqlCountSealedElsewhere, besides).Scan(&sealed).Error; err != nil {
		return fmt.Errorf("count what is encrypted: %w", err)
	}
	if sealed == 0 {
		return nil
	}
	return s.sealer.requireKey()
}

// Unstored returns the plans that add or change an inbox, with the password of New encrypted as
// Import does it, so that a login can be tried. It stores nothing.
func (s *Store) Unstored(ctx context.Context, plans []Planned) ([]Planned, error) {
	if err := s.db.View(ctx, func(tx *gorm.DB) error { return s.requireKey(tx, "") }); err != nil {
		return nil, err
	}
	var out []Planned
	for _, p := range plans {
		var err error
		var password string
		switch {
		case p.String() == "":
			continue
		case p.Old == nil:
			password = *p.entry.Set.Password
		default:
			password, err = s.next(*p.Old, &p.New, p.entry.Set)
		}
		if err == nil && password != "" {
			var box string
			box, err = s.sealer.Seal(p.New, password)
			p.New.Password = secret.String(box)
		}
		if err != nil {
			return nil, err
		}
		out = append(out, p)
	}
	return out, nil
}
