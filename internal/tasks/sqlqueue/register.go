package sqlqueue

import (
	"context"
	"maps"
	"slices"
	"time"

	"gorm.io/gorm"

	"postrider/internal/db"
	"postrider/internal/message"
	"postrider/internal/tasks"
)

// Unseen implements tasks.Queue.
func (q *Queue) Unseen(ctx context.Context, folderID, epoch int64, uids []uint32) ([]uint32, error) {
	return q.without(ctx, sqlSeenByUID, folderID, epoch, uids)
}

// Unregistered implements tasks.Queue.
func (q *Queue) Unregistered(ctx context.Context, folderID, epoch int64, uids []uint32) ([]uint32, error) {
	return q.without(ctx, sqlRegisteredByUID, folderID, epoch, uids)
}

// without returns those of uids that the query does not find.
func (q *Queue) without(ctx context.Context, query string, folderID, epoch int64, uids []uint32) ([]uint32, error) {
	var left []uint32
	err := q.db.View(ctx, func(tx *gorm.DB) error {
		found, err := byUID(tx, query, folderID, epoch, uids)
		left = nil
		for _, uid := range uids {
			if r, ok := found[uid]; !ok || r.Gone() {
				left = append(left, uid)
			}
		}
		return err
	})
	return left, wrap(err, "look up which messages are registered")
}

// Noted implements tasks.Queue.
func (q *Queue) Noted(ctx context.Context, folderID, epoch int64, from, to uint32) ([]tasks.Noted, error) {
	out, err := db.Read(ctx, q.db, notedInto, sqlNoted, folderID, epoch, from, to)
	return out, wrap(err, "look up what is noted of folder %d", folderID)
}

// Restate implements tasks.Queue.
func (q *Queue) Restate(ctx context.Context, folderID, epoch int64, now map[uint32]tasks.Stated) error {
	err := q.db.Change(ctx, func(tx *gorm.DB, _ time.Time) error {
		for _, uid := range slices.Sorted(maps.Keys(now)) {
			s := now[uid]
			if err := db.Run(tx, sqlRestate, seconds{&s.Received}, s.Size, s.Size, folderID, epoch, uid); err != nil {
				return err
			}
		}
		return nil
	})
	return wrap(err, "record the sizes and dates of messages in folder %d", folderID)
}

// Register implements tasks.Queue.
func (q *Queue) Register(ctx context.Context, page tasks.Page) (out []tasks.Registration, _ error) {
	if page.DryRun {
		return q.preview(ctx, page)
	}
	again := false
	err := q.db.Change(ctx, func(tx *gorm.DB, now time.Time) (err error) {
		out, err = q.register(tx, now, page, again)
		again = true
		return err
	})
	if err != nil {
		return nil, wrap(err, "register a page of folder %d", page.FolderID)
	}
	return out, nil
}

// register registers a page. Again is set when that failed: something other than postrider may have
// deleted rows of the ledger whose tasks are there.
func (q *Queue) register(tx *gorm.DB, now time.Time, page tasks.Page, again bool) ([]tasks.Registration, error) {
	in, err := beginPage(tx, sqlAdvance, page)
	if err == nil && again {
		err = db.Run(tx, sqlEnterAgain, page.FolderID, page.Epoch, uidsOf(page.Entries))
	}
	if err != nil {
		return nil, err
	}
	b, err := decided(tx, page, in, now, q.db.Share)
	if err != nil {
		return nil, err
	}
	out, err := b.carryOut(tx)
	if err == nil {
		err = b.keepHeaders(tx)
	}
	if err != nil {
		return nil, err
	}
	return out, q.note(tx, now, b.occurrences())
}

// preview says what Register would do.
func (q *Queue) preview(ctx context.Context, page tasks.Page) (out []tasks.Registration, _ error) {
	err := q.db.View(ctx, func(tx *gorm.DB) error {
		in, err := first(tx, (*inboxRow).into, sqlInbox, page.InboxID)
		if err != nil {
			return err
		}
		now, err := q.db.Now(tx)
		if err != nil {
			return err
		}
		b, err := decided(tx, page, in, now, unlocked)
		if err == nil {
			out = b.registrations()
		}
		return err
	})
	return out, wrap(err, "look up a page of folder %d", page.FolderID)
}

// Baseline implements tasks.Queue.
func (q *Queue) Baseline(ctx context.Context, page tasks.Page) error {
	err := q.db.Change(ctx, func(tx *gorm.DB, _ time.Time) error {
		if _, err := beginPage(tx, sqlBaselined, page); err != nil {
			return err
		}
		seen, err := byUID(tx, sqlSeenByUID, page.FolderID, page.Epoch, uidsOf(page.Entries))
		if err != nil {
			return err
		}
		var rows [][]any
		for _, e := range page.Entries {
			if _, ok := seen[e.UID]; !ok {
				rows = append(rows, newSeen(page, e, 0, ""))
			}
		}
		return db.Insert(tx, tableSeen, seenColumns, rows)
	})
	return wrap(err, "note what was in folder %d before the start", page.FolderID)
}

// Unreconciled implements tasks.Queue.
func (q *Queue) Unreconciled(ctx context.Context, folderID, epoch int64) (bool, error) {
	n, err := one[int](ctx, q, sqlUnreconciled, folderID, epoch)
	return n > 0, wrap(err, "look for tasks of an older UIDVALIDITY")
}

// inboxRow is a row of sqlInbox.
type inboxRow struct {
	Address   string
	ScanToken int64
	IsActive  bool
}

func (r *inboxRow) into() []any { return []any{&r.Address, &r.ScanToken, &r.IsActive} }

// beginPage changes the row of the page's folder, so that two pages of one folder follow one
// another.
//
// The scan token is only read, and may be taken over before this is committed. That is enough: the
// new holder registers the same messages under the same unique keys, and finds them known. Whoever
// moves the cursor otherwise (a new epoch, a rewind) changes the row of the folder: it comes after
// this, or this fails. is_active is only read, too: Disable changes the row of the folder.
func beginPage(tx *gorm.DB, query string, page tasks.Page) (in inboxRow, _ error) {
	current, err := update(tx, query, page.Cursor, page.Cursor, page.FolderID, page.Epoch, page.InboxID)
	if err == nil && !current {
		err = tasks.ErrEpochChanged
	}
	if err != nil {
		return in, err
	}
	if in, err = first(tx, (*inboxRow).into, sqlInbox, page.InboxID); err == nil && in.ScanToken != page.ScanToken {
		err = tasks.ErrScanLost
	}
	return in, err
}

// decided reads what the ledger knows of the page's messages, and decides what becomes of them.
func decided(tx *gorm.DB, page tasks.Page, in inboxRow, now time.Time, lock func(string) string) (*batch, error) {
	seen, err := byUID(tx, sqlSeenByUID, page.FolderID, page.Epoch, uidsOf(page.Entries))
	if err != nil {
		return nil, err
	}
	var keys []message.Fingerprint
	for _, e := range page.Entries {
		keys = append(keys, e.Identity.Fingerprint, e.Outline())
	}
	var found []tasks.Seen
	if len(keys) > 0 {
		if found, err = db.Query(tx, seenInto, sqlSeenByFingerprint, keys); err != nil {
			return nil, err
		}
	}
	b := &batch{page: page, now: now, plan: tasks.Plan(page, seen, found)}
	for i, p := range b.plan {
		if p.Fate == tasks.New {
			b.add(i, p.Entry, in)
		}
	}
	return b, b.decide(tx, lock)
}

// seenInto is for a row of sqlSeenByFingerprint.
func seenInto(s *tasks.Seen) []any {
	return []any{&s.FolderID, &s.Epoch, &s.TaskID, &s.Fingerprint, &s.PurgedAs, &s.Status, &s.Skip}
}

// newSeen is the row of a message in the ledger: by its content, or by its outline if it was there
// before the start.
func newSeen(page tasks.Page, e tasks.Entry, taskID int64, purgedAs string) []any {
	key := e.Identity.Fingerprint
	if taskID == 0 {
		key = e.Outline()
	}
	received := seconds{&e.Stated.Received}
	return []any{page.FolderID, page.Epoch, e.UID, page.InboxID, taskID, key, received, e.Stated.Size, purgedAs}
}

func byUID(tx *gorm.DB, sql string, folderID, epoch int64, uids []uint32) (map[uint32]tasks.Seen, error) {
	out := make(map[uint32]tasks.Seen, len(uids))
	if len(uids) == 0 {
		return out, nil
	}
	rows, err := db.Query(tx, (*uidRow).into, sql, folderID, epoch, uids)
	for _, r := range rows {
		out[r.uid] = r.Seen
	}
	return out, err
}

// uidRow is a row of sqlSeenByUID, sqlRegisteredByUID and sqlTaskIDs.
type uidRow struct {
	uid uint32
	tasks.Seen
}

func (r *uidRow) into() []any { return []any{&r.uid, &r.TaskID, &r.Skip} }

func uidsOf(entries []tasks.Entry) []uint32 {
	out := make([]uint32, len(entries))
	for i, e := range entries {
		out[i] = e.UID
	}
	return out
}
