package pass

import (
	"context"
	"errors"
	"fmt"

	"postrider/internal/imapsrc"
	"postrider/internal/inbox"
	"postrider/internal/tasks"
)

// folder is one folder of an inbox while a pass works on it.
type folder struct {
	row  inbox.Folder
	next uint32 // UIDNEXT when the pass began: UIDs from there on are left to the next pass
	left int    // UIDs above the cursor that have not been registered, as far as known

	opened imapsrc.Folder // as it was when it was opened
}

func (f *folder) String() string { return fmt.Sprintf("folder %q", f.row.Name) }

// rowOf is a folder of an inbox; the zero row when it was removed.
func rowOf(in inbox.Inbox, id int64) inbox.Folder {
	for _, row := range in.Folders {
		if row.ID == id {
			return row
		}
	}
	return inbox.Folder{}
}

// compared reports that all messages of the epoch were compared with what is registered. Nothing of
// the folder is claimed before that.
func (f *folder) compared() bool { return f.row.Reconciled == f.row.UIDValidity }

// moves reports whether the cursor moves. The cursor of an unwatched folder moves only while its
// messages are compared, and is 0 afterwards, so that unregistered messages are registered once the
// folder is watched again.
func (f *folder) moves() bool { return f.row.Active || !f.compared() }

// open selects all folders, gives each its cursor, looks again below it, and has the tasks of
// folders whose UIDVALIDITY changed find their messages again. A folder that cannot be opened is
// part of the error, unless it is no longer watched and was deleted; the others go on.
func (s *scanner) open(ctx context.Context) ([]*folder, error) {
	var folders []*folder
	var errs []error
	for _, row := range s.in.Folders {
		f := &folder{row: row}
		if open, err := toOpen(ctx, s.pass.Queue, row); err != nil || !open {
			errs = append(errs, err)
			continue
		}
		err := s.openFolder(ctx, f)
		if err == nil {
			err = s.lookBack(ctx, f)
		}
		if err == nil {
			err = s.reconcile(ctx, f)
		}
		if err == nil {
			folders = append(folders, f)
			continue
		}
		if !row.Active && deleted(err) { // the deliverer ends its tasks
			s.log.Info("a folder that is no longer watched is not on the server", "folder", row.Name)
			continue
		}
		if errs = append(errs, err); fatal(ctx, err) {
			break
		}
	}
	return folders, errors.Join(errs...)
}

// toOpen reports whether a folder has to be opened: one that is no longer watched only for the
// tasks that it left behind.
func toOpen(ctx context.Context, q tasks.Registrar, row inbox.Folder) (bool, error) {
	if row.Active || row.InitializedAt == nil {
		return row.Active, nil
	}
	return q.Unreconciled(ctx, row.ID, noEpoch)
}

// noEpoch is an epoch that no folder has.
const noEpoch = -1

func (s *scanner) openFolder(ctx context.Context, f *folder) error {
	return s.session.reopen(ctx, f.row.Name, func(src Source, info imapsrc.Folder) error {
		var err error
		f.opened = info
		if f.next, err = UIDNext(ctx, src, info); err != nil {
			return err
		}
		s.log.Info("folder opened", "folder", f.row.Name,
			"messages", info.Messages, "uidnext", f.next, "cursor", f.row.LastSeenUID)
		if f.row.InitializedAt == nil {
			return s.initialize(ctx, src, info, f)
		}
		if why := startsOver(f.row, info); why != "" {
			s.log.Warn(why+"; all messages are compared with what is registered", "folder", f.row.Name)
			return s.newEpoch(ctx, info.UIDValidity, f)
		}
		return nil
	})
}

// startsOver is why a folder that was scanned before begins a new epoch: its UIDs may stand for
// other messages than the registered ones. It is empty if they do not.
func startsOver(row inbox.Folder, info imapsrc.Folder) string {
	switch {
	case row.Epoch() != info.UIDValidity:
		return fmt.Sprintf("UIDVALIDITY has changed from %d to %d", row.Epoch(), info.UIDValidity)
	case info.UIDNext != 0 && info.UIDNext <= row.LastSeenUID:
		return fmt.Sprintf("UIDNEXT is %d and the cursor %d, so UIDNEXT went backwards", info.UIDNext, row.LastSeenUID)
	case row.Distrusted():
		return row.Doubt()
	}
	return ""
}

// UIDNext is the server's UIDNEXT; for a server that does not say it, the UID behind the newest
// message.
func UIDNext(ctx context.Context, src Source, info imapsrc.Folder) (uint32, error) {
	switch {
	case info.UIDNext != 0:
		return info.UIDNext, nil
	case info.Messages == 0:
		return 1, nil
	}
	highest, err := src.HighestUID(ctx)
	return highest + 1, err
}

// initialize gives a folder that was never scanned its cursor.
func (s *scanner) initialize(ctx context.Context, src Source, info imapsrc.Folder, f *folder) error {
	start, err := StartUID(ctx, src, s.in.Start, info, f.next)
	if err != nil {
		return err
	}
	f.row.UIDValidity, f.row.LastSeenUID, f.row.StartUID = int64(info.UIDValidity), start, start
	f.row.Reconciled = f.row.UIDValidity
	if s.pass.Config.DryRun {
		return nil
	}
	return s.pass.Inboxes.Initialize(ctx, s.lease, f.row.ID, f.row.UIDValidity, start)
}

// StartUID is where the cursor of a folder begins that was never scanned: the UID at and below
// which messages were there before. The folder is the one selected, next its UIDNEXT.
func StartUID(ctx context.Context, src Source, start inbox.Start, info imapsrc.Folder, next uint32) (uint32, error) {
	switch day, since := start.Since(); {
	case since:
		if first, err := src.FirstSince(ctx, next-1, day); err != nil || first > 0 {
			return max(first, 1) - 1, err
		}
	case start == inbox.StartAll:
		return 0, nil
	case start == inbox.StartLatest && info.Messages > 0:
		if highest, err := src.HighestUID(ctx); err != nil || highest > 0 {
			return max(highest, 1) - 1, err
		}
	}
	return next - 1, nil
}

// newEpoch begins a new epoch in the registry, from UID 0: every message is identified by its
// content. The part of the epoch above the server's 32 bits grows, so that no epoch is ever used
// twice, even if the server returns to an old UIDVALIDITY.
func (s *scanner) newEpoch(ctx context.Context, validity uint32, f *folder) error {
	epoch := (f.row.UIDValidity>>32+1)<<32 | int64(validity)
	if !s.pass.Config.DryRun {
		if err := s.pass.Inboxes.ResetEpoch(ctx, s.lease, f.row.ID, f.row.UIDValidity, epoch); err != nil {
			return err
		}
	}
	f.row.UIDValidity, f.row.LastSeenUID, f.row.StartUID, f.row.BaselineUID = epoch, 0, 0, 0
	return nil
}

// reconcile first registers all of a folder that began a new epoch, so that the tasks of the old
// epoch find their messages again. Messages that are not found have vanished.
func (s *scanner) reconcile(ctx context.Context, f *folder) error {
	if !f.moves() { // all would be compared again
		return nil
	}
	waiting, err := s.pass.Queue.Unreconciled(ctx, f.row.ID, f.row.UIDValidity)
	if err != nil || !waiting || s.pass.Config.DryRun {
		return err
	}
	return s.catchUp(ctx, f)
}
