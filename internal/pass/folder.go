package pass

import (
	"context"
	"errors"
	"fmt"

	"postrider/internal/imapsrc"
	"postrider/internal/inbox"
)

// folder is one folder of an inbox while a pass works on it.
type folder struct {
	inbox.Folder
	next uint32 // UIDNEXT when the pass began: UIDs from there on are left to the next pass
	left int    // UIDs above the cursor that have not been registered, as far as known
}

func (f *folder) String() string { return fmt.Sprintf("folder %q", f.Name) }

// errEpoch is a folder whose UIDVALIDITY changed while the pass was at work. The next pass sorts it out.
var errEpoch = errors.New("its UIDVALIDITY changed during the pass; the next pass goes on")

// open selects all folders, gives each its cursor, and finds the tasks of folders whose UIDVALIDITY changed again. A folder
// that cannot be opened is left out and told of in the error; the others go on.
func (b *box) open(ctx context.Context) (map[int64]*folder, error) {
	folders := map[int64]*folder{}
	var errs []error
	for _, row := range b.in.Folders {
		f := &folder{Folder: row}
		if wanted, err := b.wanted(ctx, f); err != nil || !wanted {
			errs = append(errs, err)
			continue
		}
		err := b.retry(ctx, func() error { return b.openFolder(ctx, f) })
		if err == nil {
			err = b.reconcile(ctx, f)
		}
		if err != nil {
			errs = append(errs, err)
			if ctx.Err() != nil || lost(err) || scanLost(err) {
				break
			}
			continue
		}
		folders[f.ID] = f
	}
	return folders, errors.Join(errs...)
}

// wanted reports whether a folder has to be opened: one that is no longer watched only for the tasks it left behind.
func (b *box) wanted(ctx context.Context, f *folder) (bool, error) {
	if f.Active || f.InitializedAt == nil {
		return f.Active, nil
	}
	return b.Queue.Unreconciled(ctx, f.ID, noEpoch)
}

// noEpoch is no folder's.
const noEpoch = -1

func (b *box) openFolder(ctx context.Context, f *folder) error {
	return b.mail.in(ctx, f.Name, true, func(src Source, info imapsrc.Folder) error {
		var err error
		if f.next, err = UIDNext(ctx, src, info); err != nil {
			return err
		}
		switch {
		case f.InitializedAt == nil:
			return b.initialize(ctx, src, info, f)
		case uint32(f.UIDValidity) != info.UIDValidity:
			b.log.Warn("UIDVALIDITY has changed: all messages are compared with what is registered", "folder", f.Name,
				"was", uint32(f.UIDValidity), "is", info.UIDValidity)
			return b.newEpoch(ctx, info, f)
		case info.UIDNext != 0 && info.UIDNext <= f.LastSeenUID:
			b.log.Warn("UIDNEXT went backwards: all messages are compared with what is registered", "folder", f.Name,
				"cursor", f.LastSeenUID, "uidnext", info.UIDNext)
			return b.newEpoch(ctx, info, f)
		}
		return nil
	})
}

// UIDNext is the server's UIDNEXT; for a server that tells none, the UID behind the newest message.
func UIDNext(ctx context.Context, src Source, info imapsrc.Folder) (uint32, error) {
	if info.UIDNext != 0 {
		return info.UIDNext, nil
	}
	highest, err := src.HighestUID(ctx)
	return highest + 1, err
}

// initialize gives a folder that was never scanned its cursor.
func (b *box) initialize(ctx context.Context, src Source, info imapsrc.Folder, f *folder) error {
	start, err := StartUID(ctx, src, b.in.Start, info, f.next)
	if err != nil {
		return err
	}
	f.UIDValidity, f.LastSeenUID, f.StartUID = int64(info.UIDValidity), start, start
	if b.Config.DryRun {
		return nil
	}
	return b.Inboxes.Initialize(ctx, b.lease(), f.ID, f.UIDValidity, start)
}

// StartUID is where the cursor of a folder begins that was never scanned: the UID at and below which messages were
// there before. The folder is the one selected, next its UIDNEXT.
func StartUID(ctx context.Context, src Source, start inbox.Start, info imapsrc.Folder, next uint32) (uint32, error) {
	switch day, since := start.Since(); {
	case since:
		for w := newWindow(1, next); w.more(); w.advance(0) {
			uids, err := src.Since(ctx, w.from, w.to, day)
			if err != nil || len(uids) > 0 {
				return first(uids) - 1, err
			}
		}
	case start == inbox.StartAll:
		return 0, nil
	case start == inbox.StartLatest && info.Messages > 0:
		highest, err := src.HighestUID(ctx)
		return max(highest, 1) - 1, err
	}
	return next - 1, nil
}

func first(uids []uint32) uint32 {
	if len(uids) == 0 {
		return 1
	}
	return uids[0]
}

// newEpoch begins anew in the registry, from UID 0: every message is told by its content. The part above the server's
// 32 bits grows, so that no epoch ever comes back, not even when the server goes back to an old value.
func (b *box) newEpoch(ctx context.Context, info imapsrc.Folder, f *folder) error {
	epoch := (f.UIDValidity>>32+1)<<32 | int64(info.UIDValidity)
	if !b.Config.DryRun {
		if err := b.Inboxes.ResetEpoch(ctx, b.lease(), f.ID, f.UIDValidity, epoch); err != nil {
			return err
		}
	}
	f.UIDValidity, f.LastSeenUID, f.StartUID, f.BaselineUID = epoch, 0, 0, 0
	return nil
}

// reconcile registers a folder that began a new epoch through to its end before anything is worked off, so that the tasks of
// the old one find their messages again. Those that do not have vanished.
func (b *box) reconcile(ctx context.Context, f *folder) error {
	waiting, err := b.Queue.Unreconciled(ctx, f.ID, f.UIDValidity)
	if err != nil || !waiting || b.Config.DryRun {
		return err
	}
	return b.catchUp(ctx, f, nil)
}

// within runs fn with the folder selected, under the epoch that the pass knows.
func (b *box) within(ctx context.Context, f *folder, fn func(Source) error) error {
	return b.mail.in(ctx, f.Name, false, func(src Source, info imapsrc.Folder) error {
		if info.UIDValidity != uint32(f.UIDValidity) {
			return fmt.Errorf("%s: %w", f, errEpoch)
		}
		return fn(src)
	})
}

// retry runs fn again on a new connection when the old one broke.
func (b *box) retry(ctx context.Context, fn func() error) error {
	for {
		err := fn()
		if err == nil || !b.mail.again(ctx, err) {
			return err
		}
	}
}
