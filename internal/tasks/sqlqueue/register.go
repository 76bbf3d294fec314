package sqlqueue

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"gorm.io/gorm"

	"postrider/internal/db"
	"postrider/internal/tasks"
	"postrider/internal/tasks/ledger"
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
			if _, ok := found[uid]; !ok {
				left = append(left, uid)
			}
		}
		return err
	})
	return left, wrap(err, "look up which messages are registered")
}

// Register implements tasks.Queue.
func (q *Queue) Register(ctx context.Context, page tasks.Page) ([]tasks.Registration, error) {
	var out []tasks.Registration
	if page.DryRun {
		return q.preview(ctx, page)
	}
	err := q.again(ctx, func(tx *gorm.DB) error {
		out = nil
		if page.Dedupe != tasks.DedupeOff {
			if err := q.lockScope(tx, page.InboxID, page.Dedupe); err != nil {
				return err
			}
		}
		active, err := q.lockFolder(tx, page)
		if err != nil {
			return err
		}
		fates, err := fatesOf(tx, page.In(active))
		if err != nil {
			return err
		}
		if err := q.carryOut(tx, page, fates); err != nil {
			return err
		}
		for _, f := range fates {
			out = append(out, f.Registration)
		}
		return tx.Exec(sqlAdvance, page.Cursor, page.Cursor, page.FolderID).Error
	})
	if slices.ContainsFunc(out, mayBeDue) {
		q.bell.ring()
	}
	return out, wrap(err, "register a page of folder %d", page.FolderID)
}

// errPurged is a task that a person has purged since it was found to have its message in the page.
var errPurged = errors.New("the task was purged meanwhile")

// again is a transaction that decides anew, from what the ledger says by then, as often as a task is purged under its hands.
func (q *Queue) again(ctx context.Context, f func(tx *gorm.DB) error) error {
	for {
		if err := q.db.Tx(ctx, f); !errors.Is(err, errPurged) {
			return err
		}
	}
}

// mayBeDue reports whether registering the message may have made a task visible.
func mayBeDue(r tasks.Registration) bool { return r.Fate == tasks.New || r.Fate == tasks.Moved }

// preview tells what Register would do.
func (q *Queue) preview(ctx context.Context, page tasks.Page) ([]tasks.Registration, error) {
	var out []tasks.Registration
	err := q.db.View(ctx, func(tx *gorm.DB) error {
		fates, err := fatesOf(tx, page)
		out = nil
		for _, f := range fates {
			out = append(out, f.Registration)
		}
		return err
	})
	return out, wrap(err, "look up a page of folder %d", page.FolderID)
}

// Baseline implements tasks.Queue.
func (q *Queue) Baseline(ctx context.Context, page tasks.Page) error {
	err := q.db.Tx(ctx, func(tx *gorm.DB) error {
		if _, err := q.lockFolder(tx, page); err != nil {
			return err
		}
		seen, err := seenByUID(tx, page.FolderID, page.Epoch, uidsOf(page.Entries))
		if err != nil {
			return err
		}
		var rows []seenRow
		for _, e := range page.Entries {
			if _, ok := seen[e.UID]; !ok {
				rows = append(rows, newSeen(page, e.UID, 0, e.Outline[:]))
			}
		}
		if err := insert(tx, tableSeen, rows); err != nil {
			return err
		}
		return tx.Exec(sqlBaselined, page.Cursor, page.Cursor, page.FolderID, page.Epoch).Error
	})
	return wrap(err, "note what was in folder %d before the start", page.FolderID)
}

// Unreconciled implements tasks.Queue.
func (q *Queue) Unreconciled(ctx context.Context, folderID, epoch int64) (bool, error) {
	var n int
	err := q.db.View(ctx, func(tx *gorm.DB) error {
		return tx.Raw(sqlUnreconciled, folderID, epoch).Scan(&n).Error
	})
	return n > 0, wrap(err, "look for tasks of an older UIDVALIDITY")
}

// lockScope makes processes reserve, and leave a place to heirs, one after the other where what one does makes a duplicate of what
// the other does: they lock the same rows, all folders of the inbox, after the first of all folders when that is the scope. So those
// that have different scopes, while the configuration is being changed, follow one another in the inbox. It comes before all other locks.
func (q *Queue) lockScope(tx *gorm.DB, inboxID int64, dedupe tasks.Dedupe) error {
	if dedupe == tasks.DedupeAll {
		if err := q.lockFolders(tx, sqlScopeAll); err != nil {
			return err
		}
	}
	return q.lockFolders(tx, sqlScopeInbox, inboxID)
}

// lockFolders locks the folders that a query gives, in its order; those that it gives by then when one was removed meanwhile.
func (q *Queue) lockFolders(tx *gorm.DB, query string, args ...any) error {
	if q.db.Dialect() == db.SQLite {
		return nil // its writers follow one another
	}
	for there := false; !there; {
		var ids []int64
		if err := tx.Raw(query, args...).Scan(&ids).Error; err != nil {
			return err
		}
		there = true
		for _, id := range ids {
			res := tx.Raw(q.db.Lock(sqlScopeOne), id).Scan(&id)
			if res.Error != nil {
				return res.Error
			}
			there = there && res.RowsAffected > 0
		}
	}
	return nil
}

// lockFolder makes two processes that scan one folder register one after the other, and keeps out the one that has lost
// the scan. It reports whether the inbox is in use. That and the scan lease are read, not locked: who changes them finds the
// folder locked until this is committed.
func (q *Queue) lockFolder(tx *gorm.DB, page tasks.Page) (active bool, _ error) {
	var epoch int64
	var in struct {
		ScanToken int64
		IsActive  bool
	}
	res := tx.Raw(q.db.Lock(sqlFolder), page.FolderID).Scan(&epoch)
	if res.Error == nil && (res.RowsAffected == 0 || epoch != page.Epoch) {
		return false, tasks.ErrEpochChanged
	}
	if res.Error != nil {
		return false, res.Error
	}
	err := tx.Raw(sqlScanToken, page.InboxID).Scan(&in).Error
	if err == nil && in.ScanToken != page.ScanToken {
		return false, tasks.ErrScanLost
	}
	return in.IsActive, err
}

// fatesOf reads what the ledger knows of the page's messages and decides on each.
func fatesOf(tx *gorm.DB, page tasks.Page) ([]ledger.Fate, error) {
	if len(page.Entries) == 0 {
		return nil, nil
	}
	seen, err := seenByUID(tx, page.FolderID, page.Epoch, uidsOf(page.Entries))
	if err != nil {
		return nil, err
	}
	keys := make([][]byte, 0, 2*len(page.Entries))
	for _, e := range page.Entries {
		keys = append(keys, e.Fingerprint[:], e.Outline[:])
	}
	found, err := seenLike(tx, keys...)
	if err != nil {
		return nil, err
	}
	fates := ledger.Decide(page, seen, found)
	return fates, remember(tx, page, seen, fates)
}

// remember mends a ledger that lacks the row of a task that is there, which no run leaves behind: else its message could never be
// registered, nor those beside it.
func remember(tx *gorm.DB, page tasks.Page, seen map[uint32]int64, fates []ledger.Fate) error {
	there, err := byUID(tx, sqlTaskIDs, page.FolderID, page.Epoch, uidsOf(page.Entries))
	for i, f := range fates {
		_, noted := seen[f.UID]
		if id, ok := there[f.UID]; ok && !noted {
			fates[i] = ledger.Fate{
				Registration: tasks.Registration{UID: f.UID, TaskID: id, Fate: tasks.Known}, Entry: f.Entry, Note: true,
			}
		}
	}
	return err
}

// carryOut writes tasks and ledger. It fills in the ids of new tasks; duplicates come after the messages that they
// are duplicates of.
func (q *Queue) carryOut(tx *gorm.DB, page tasks.Page, fates []ledger.Fate) error {
	micros, now, err := q.now(tx)
	if err != nil {
		return err
	}
	for _, f := range fates {
		if f.Fate != tasks.Moved {
			continue
		}
		moved := tx.Exec(sqlMoveTask, page.Epoch, f.UID, now, f.TaskID)
		if moved.Error == nil && moved.RowsAffected == 0 {
			return errPurged
		}
		if moved.Error != nil {
			return moved.Error
		}
		if f.Back {
			if err := revive(tx, now, f.TaskID, "its message is there again"); err != nil {
				return err
			}
		}
	}
	ids := map[uint32]int64{}
	for _, kinds := range [][]tasks.Fate{{tasks.New, tasks.SkippedAt}, {tasks.Duplicate}} {
		var rows []taskRow
		for _, f := range fates {
			if slices.Contains(kinds, f.Fate) {
				rows = append(rows, newTask(page, f, ids, micros, now))
			}
		}
		if err := insertTasks(tx, page, rows, ids); err != nil {
			return err
		}
	}
	var notes []seenRow
	for i := range fates {
		f := &fates[i]
		if id, ok := ids[f.UID]; ok {
			f.TaskID = id
		}
		if f.Note {
			note := newSeen(page, f.UID, f.TaskID, noted(*f))
			note.PurgedAs = f.PurgedAs
			notes = append(notes, note)
		}
		if f.Read {
			if err := tx.Exec(sqlReadSeen, f.Entry.Fingerprint[:], f.Entry.Outline[:], f.TaskID).Error; err != nil {
				return err
			}
		}
	}
	return insert(tx, tableSeen, notes)
}

// noted is what a message is known by later: its content, or its outline when it was there before the start.
func noted(f ledger.Fate) []byte {
	if f.TaskID == 0 {
		return f.Entry.Outline[:]
	}
	return f.Entry.Fingerprint[:]
}

func newTask(page tasks.Page, f ledger.Fate, ids map[uint32]int64, micros int64, now time.Time) taskRow {
	e := f.Entry
	r := taskRow{
		InboxID: page.InboxID, FolderID: page.FolderID, UIDValidity: page.Epoch, UID: e.UID,
		MessageID: db.Cut(e.MessageID, maxText), Fingerprint: e.Fingerprint[:], Subject: db.Cut(e.Subject, maxText),
		Sender: db.Cut(e.Sender, maxText), Size: e.Size, Route: db.Cut(e.Route, 255), Mode: e.Mode, Priority: e.Priority,
		Status: tasks.Received, VisibleAt: &micros, CreatedAt: now, QueuedAt: now, UpdatedAt: now, EmailDate: storable(e.Date),
	}
	if f.Fate == tasks.Duplicate {
		f.Why = tasks.DuplicateOf(max(f.Of, ids[f.OfUID]))
	}
	if f.Fate != tasks.New {
		r.Status, r.ErrorMessage, r.VisibleAt, r.FinishedAt = tasks.Skipped, db.Cut(f.Why, maxText), nil, &now
	}
	return r
}

// storable is a date as the databases can hold it, nil when they cannot.
func storable(date time.Time) *time.Time {
	date = date.UTC()
	if date.Year() < 1000 || date.Year() > 9999 {
		return nil
	}
	return &date
}

func newSeen(page tasks.Page, uid uint32, taskID int64, key []byte) seenRow {
	return seenRow{
		FolderID: page.FolderID, UIDValidity: page.Epoch, UID: uid, InboxID: page.InboxID, TaskID: taskID, Fingerprint: key,
	}
}

// insertTasks adds the ids of the rows to ids. They are looked up: neither dialect promises that those of one INSERT
// follow one another.
func insertTasks(tx *gorm.DB, page tasks.Page, rows []taskRow, ids map[uint32]int64) error {
	if err := insert(tx, tableTasks, rows); err != nil {
		return err
	}
	uids := make([]uint32, len(rows))
	for i, r := range rows {
		uids[i] = r.UID
	}
	found, err := byUID(tx, sqlTaskIDs, page.FolderID, page.Epoch, uids)
	maps.Copy(ids, found)
	return err
}

func seenByUID(tx *gorm.DB, folderID, epoch int64, uids []uint32) (map[uint32]int64, error) {
	return byUID(tx, sqlSeenByUID, folderID, epoch, uids)
}

func byUID(tx *gorm.DB, sql string, folderID, epoch int64, uids []uint32) (map[uint32]int64, error) {
	out := make(map[uint32]int64, len(uids))
	if len(uids) == 0 {
		return out, nil
	}
	var rows []struct {
		TaskID int64
		UID    uint32 `gorm:"column:uid"`
	}
	if err := tx.Raw(sql, folderID, epoch, uids).Scan(&rows).Error; err != nil {
		return nil, err
	}
	for _, r := range rows {
		out[r.UID] = r.TaskID
	}
	return out, nil
}

func insert[R any](tx *gorm.DB, table string, rows []R) error {
	if len(rows) == 0 {
		return nil
	}
	return tx.Table(table).CreateInBatches(&rows, 200).Error
}

func uidsOf(entries []tasks.Entry) []uint32 {
	out := make([]uint32, len(entries))
	for i, e := range entries {
		out[i] = e.UID
	}
	return out
}

func wrap(err error, format string, args ...any) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf(format+": %w", append(args, err)...)
}
