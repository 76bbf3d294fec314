package inbox

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"gorm.io/gorm"

	"postrider/internal/db"
	"postrider/internal/outbox"
	"postrider/internal/secret"
	"postrider/internal/text"
)

// Store reads and changes the inboxes in the database. It is safe for concurrent use.
type Store struct {
	Commands *secret.Commands // asks the programs that print passwords; New makes one

	db     *db.DB
	sealer *Sealer
	files  secret.Files

	follows map[outbox.Kind]bool

	acquisitions *db.Group[*acquisition]
	ends         *db.Group[finish]
}

// New returns the store over a database and the sealer of its passwords. A password may be
// file:PATH for files in dirs.
func New(d *db.DB, sealer *Sealer, dirs ...string) *Store {
	s := &Store{Commands: new(secret.Commands), db: d, sealer: sealer, files: dirs}
	s.acquisitions, s.ends = db.NewGroup(s.acquireAll), db.NewGroup(s.finishAll)
	return s
}

// Changes are the settings of an inbox that Set changes. A field that is nil stays unchanged.
type Changes struct {
	Description    *string
	Host           *string
	Port           *int
	Security       *Security // moves the port from the old default to the new one
	AllowPlaintext *bool
	AllowDelete    *bool
	Username       *string
	Auth           *string
	CAFile         *string
	TLSFingerprint *string
	ClientCert     *string
	Start          *Start   // for folders that were never scanned
	Password       *string  // the password itself, or where it is (secret.IsRef); without it the old one is kept
	Folders        []string // all folders to monitor; the others become inactive
	Labels         Labels   // the labels to set; one with an empty value is removed
}

// Add stores a new active inbox with the folders in in.Folders, or with INBOX when there are none.
// It encrypts the password, or the reference in its place (secret.IsRef). When the address exists
// already, the error is an *ExistsError.
func (s *Store) Add(ctx context.Context, in Inbox, password string) (Inbox, error) {
	in, err := complete(in)
	if err != nil {
		return Inbox{}, err
	}
	err = s.db.View(ctx, func(tx *gorm.DB) (err error) {
		in.Password, err = s.seal(tx, in, password)
		return err
	})
	if err != nil {
		return Inbox{}, err
	}
	if in.CreatedAt, err = s.db.Clock(ctx); err != nil {
		return Inbox{}, err
	}
	err = s.db.Tx(ctx, func(tx *gorm.DB) error { return insertInbox(tx, in) })
	if err != nil {
		return Inbox{}, fmt.Errorf("add an inbox: %w", err)
	}
	return s.Get(ctx, in.Address)
}

// insertInbox succeeds when the row exists with the same password and time: then an earlier attempt
// of this call was committed without an answer.
func insertInbox(tx *gorm.DB, in Inbox) error {
	found, err := find(tx, in.Address)
	if err != nil {
		return err
	}
	if found != nil {
		if found.Password == in.Password && found.CreatedAt.Equal(in.CreatedAt) {
			return nil
		}
		return &ExistsError{Address: in.Address}
	}
	err = insertInboxes(tx, []Inbox{in})
	if errors.Is(err, gorm.ErrDuplicatedKey) {
		return &ExistsError{Address: in.Address}
	}
	if err != nil {
		return err
	}
	return insertWhatIsIn(tx, map[string]Inbox{in.Address: in})
}

// Set changes an inbox and returns the new state. The password, and the settings that it is bound
// to (see binding), can be changed if the stored password was encrypted for the old settings. If it
// was not, host, port, security, username and a new password all have to be given, and certificate
// settings that are not given are removed; otherwise the error is an *InvalidError.
func (s *Store) Set(ctx context.Context, address string, c Changes) (Inbox, error) {
	in, err := s.Get(ctx, address)
	if err != nil {
		return Inbox{}, err
	}
	names := c.Folders
	if names != nil {
		if names, err = folderNames(names); err != nil {
			return Inbox{}, &InvalidError{err}
		}
	}
	now, err := s.db.Clock(ctx)
	if err != nil {
		return Inbox{}, err
	}
	err = s.db.Tx(ctx, func(tx *gorm.DB) error { return s.update(tx, in.ID, in.Address, c, names, now) })
	if invalid, ok := errors.AsType[*InvalidError](err); ok {
		return Inbox{}, invalid
	}
	if err != nil {
		return Inbox{}, fmt.Errorf("change inbox %s: %w", in.Address, err)
	}
	return s.Get(ctx, in.Address)
}

// update begins with a write, so that no other change comes between what it reads and what it
// writes.
func (s *Store) update(tx *gorm.DB, id int64, address string, c Changes, folders []string, now time.Time) error {
	touched, err := db.Exec(tx, sqlTouchInbox, now, id)
	if err != nil {
		return err
	}
	old, err := find(tx, address)
	if err != nil {
		return err
	}
	if touched == 0 || old == nil {
		return &NotFoundError{Address: address}
	}
	if c.Labels != nil {
		if old.Labels, err = labelsOf(tx, id); err != nil {
			return err
		}
	}
	in := *old
	in.apply(c)
	bad := in.normalize()
	password, err := s.next(*old, &in, c) // first: a row that somebody changed may be invalid, too
	if err != nil {
		return err
	}
	if bad != nil {
		return &InvalidError{bad}
	}
	if password != "" {
		if in.Password, err = s.seal(tx, in, password); err != nil {
			return err
		}
	}
	err = db.Run(tx, sqlUpdateInbox, string(in.Password), in.Description, in.Host, in.Port, in.Security,
		in.AllowPlaintext, in.AllowDelete, in.Username, in.Auth, in.CAFile, in.TLSFingerprint, in.ClientCert,
		in.Start, now, in.ID)
	if err == nil && c.Labels != nil {
		err = saveLabels(tx, in.ID, in.Labels)
	}
	if err != nil || folders == nil {
		return err
	}
	have, err := listFolders(tx, in.ID)
	if err != nil {
		return err
	}
	return watch(tx, in.ID, have, folders)
}

// Enable makes an inbox active again. Its audit trail has a line about it, with who and the detail,
// unless it was active already. Package tasks disables inboxes.
func (s *Store) Enable(ctx context.Context, address, who, detail string) error {
	in, err := s.Get(ctx, address)
	if err != nil {
		return err
	}
	now, err := s.db.Clock(ctx)
	if err == nil {
		err = s.db.Tx(ctx, func(tx *gorm.DB) error { return enable(tx, in.ID, now, who, detail) })
	}
	if err != nil {
		return fmt.Errorf("enable inbox %s: %w", in.Address, err)
	}
	return nil
}

func enable(tx *gorm.DB, id int64, now time.Time, who, detail string) error {
	enabled, err := db.Exec(tx, sqlEnableInbox, now, id)
	if err != nil || enabled == 0 {
		return err
	}
	return record(tx, id, now, who, "enabled", detail)
}

// Active returns the active inboxes sorted by address, with their active folders.
func (s *Store) Active(ctx context.Context) ([]Inbox, error) {
	all, err := s.List(ctx)
	active := keep(all, func(in Inbox) bool { return in.Active })
	for i := range active {
		active[i].Folders = keep(active[i].Folders, func(f Folder) bool { return f.Active })
	}
	return active, err
}

// List returns the inboxes sorted by address.
func (s *Store) List(ctx context.Context) ([]Inbox, error) {
	var inboxes []Inbox
	err := s.db.View(ctx, func(tx *gorm.DB) (err error) {
		inboxes, err = list(tx)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("list inboxes: %w", err)
	}
	return inboxes, nil
}

func list(tx *gorm.DB) (inboxes []Inbox, _ error) {
	if err := tx.Raw(sqlListInboxes).Scan(&inboxes).Error; err != nil {
		return nil, err
	}
	if err := attachLabels(tx, inboxes); err != nil {
		return nil, err
	}
	return inboxes, attachFolders(tx, inboxes)
}

// ByID returns those of the inboxes that are there, disabled ones too, with their labels and
// without their folders.
func (s *Store) ByID(ctx context.Context, ids []int64) (map[int64]Inbox, error) {
	out := map[int64]Inbox{}
	if len(ids) == 0 {
		return out, nil
	}
	err := s.db.View(ctx, func(tx *gorm.DB) error {
		var inboxes []Inbox
		if err := tx.Raw(sqlInboxesByID, ids).Scan(&inboxes).Error; err != nil {
			return err
		}
		if err := attachLabels(tx, inboxes); err != nil {
			return err
		}
		for _, in := range inboxes {
			out[in.ID] = in
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read inboxes: %w", err)
	}
	return out, nil
}

// Get returns one inbox with its labels and all its folders. When there is none, the error is a
// *NotFoundError.
func (s *Store) Get(ctx context.Context, address string) (Inbox, error) {
	// Not parsed: an older version may have stored an address that is refused now.
	address = fold(address)
	var found *Inbox
	var known []string
	err := s.db.View(ctx, func(tx *gorm.DB) error {
		var err error
		if found, err = find(tx, address); err != nil {
			return err
		}
		if found == nil {
			return tx.Raw(sqlAddresses).Scan(&known).Error
		}
		if found.Labels, err = labelsOf(tx, found.ID); err != nil {
			return err
		}
		found.Folders, err = listFolders(tx, found.ID)
		return err
	})
	if err != nil {
		return Inbox{}, fmt.Errorf("look up inbox %s: %w", address, err)
	}
	if found == nil {
		if _, err := ParseAddress(address); err != nil {
			return Inbox{}, err
		}
		return Inbox{}, &NotFoundError{Address: address, Nearest: text.Nearest(address, known)}
	}
	return *found, nil
}

// find returns the inbox without its labels and folders; nil when there is none.
func find(tx *gorm.DB, address string) (*Inbox, error) {
	var rows []Inbox
	if err := tx.Raw(sqlGetInbox, address).Scan(&rows).Error; err != nil || len(rows) == 0 {
		return nil, err
	}
	return &rows[0], nil
}

func listFolders(tx *gorm.DB, inboxIDs ...int64) (folders []Folder, err error) {
	err = tx.Raw(sqlListFolders, inboxIDs).Scan(&folders).Error
	return folders, err
}

func attachFolders(tx *gorm.DB, inboxes []Inbox) error {
	byID := map[int64]*Inbox{}
	for i := range inboxes {
		byID[inboxes[i].ID] = &inboxes[i]
	}
	for ids := range slices.Chunk(IDs(inboxes), 1000) { // SQLite takes 32,766
		folders, err := listFolders(tx, ids...)
		if err != nil {
			return err
		}
		for _, f := range folders {
			byID[f.InboxID].Folders = append(byID[f.InboxID].Folders, f)
		}
	}
	return nil
}

// watch makes names the active folders of an inbox. Existing folders keep their cursor.
func watch(tx *gorm.DB, inboxID int64, have []Folder, names []string) error {
	if err := db.Run(tx, sqlWatchFolders, names, inboxID); err != nil {
		return err
	}
	var rows [][]any
	for _, name := range names {
		if !slices.ContainsFunc(have, func(f Folder) bool { return f.Name == name }) {
			rows = append(rows, newFolder(inboxID, name))
		}
	}
	return db.Insert(tx, "monitored_folders", folderColumns, rows)
}

func (in *Inbox) apply(c Changes) {
	if c.Security != nil && in.Port == in.Security.DefaultPort() {
		in.Port = 0 // normalize fills in the new default
	}
	set(&in.Description, c.Description)
	set(&in.Host, c.Host)
	set(&in.Port, c.Port)
	set(&in.Security, c.Security)
	set(&in.AllowPlaintext, c.AllowPlaintext)
	set(&in.AllowDelete, c.AllowDelete)
	set(&in.Username, c.Username)
	set(&in.Auth, c.Auth)
	set(&in.CAFile, c.CAFile)
	set(&in.TLSFingerprint, c.TLSFingerprint)
	set(&in.ClientCert, c.ClientCert)
	set(&in.Start, c.Start)
	in.Labels = in.Labels.with(c.Labels)
}

func set[T any](field *T, value *T) {
	if value != nil {
		*field = *value
	}
}
