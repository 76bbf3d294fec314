package pass

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"postrider/internal/inbox"
)

// repair registers what is missing, under the scan lease: nobody else moves the cursors meanwhile. The next run forwards it. What
// others have deleted, and is not on the server either, is forgotten.
func (a *auditor) repair(ctx context.Context) error {
	if !slices.ContainsFunc(a.folders, func(f *auditedFolder) bool { return len(f.found.Missing)+len(f.lost) > 0 }) {
		return nil
	}
	token, busy, err := a.acquire(ctx)
	if err != nil {
		return err
	}
	if busy != nil {
		return fmt.Errorf("nothing was registered: the inbox is in the hands of %s until %s unless that is renewed; try again after that",
			busy.Holder, busy.Until.Format(time.RFC3339))
	}
	a.token = token
	id := a.in.ID // current reads the inbox anew
	err = a.holding(ctx, func(ctx context.Context) error { return a.Inboxes.RenewScan(ctx, id, token, a.ttl()) },
		func(ctx context.Context) error {
			err := a.current(ctx)
			for _, f := range a.folders {
				if err == nil && len(f.found.Missing) > 0 {
					err = a.register(ctx, f)
				}
				if err == nil {
					err = a.forget(ctx, f)
				}
			}
			return err
		})
	if scanLost(err) {
		return errTakenOver
	}
	return errors.Join(err, a.Inboxes.ReleaseScan(context.WithoutCancel(ctx), id, token))
}

// register registers what is missing in one folder, as a run does, and leaves in Missing what still is. What a rewind has
// put above the cursor meanwhile is not missing any more, and left to the next run: a page up to it would pass over what
// lies before it.
func (a *auditor) register(ctx context.Context, f *auditedFolder) error {
	i := slices.IndexFunc(a.in.Folders, func(row inbox.Folder) bool { return row.ID == f.ID })
	if i < 0 || a.in.Folders[i].UIDValidity != f.UIDValidity {
		return fmt.Errorf("%s: %w", f.folder, errEpoch)
	}
	if err := a.forgetMissing(ctx, f); err != nil {
		return err
	}
	row := &folder{Folder: a.in.Folders[i], next: f.next}
	all := len(f.found.Missing)
	rest := slices.DeleteFunc(f.found.Missing, func(m MissingMessage) bool { return m.UID > row.LastSeenUID })
	f.found.Counts[AsNew] += all - len(rest)
	f.found.Missing = []MissingMessage{}
	var err error
	for part := range slices.Chunk(rest, a.Config.Page) {
		left := part
		if err == nil {
			left, err = a.registerPage(ctx, row, part)
		}
		f.found.Missing = append(f.found.Missing, left...)
		f.found.Registered += len(part) - len(left)
	}
	f.found.Counts[AsMissing] = len(f.found.Missing)
	return err
}

// forgetMissing has the registry forget the deleted tasks of messages that are there, so that these are registered anew: by the
// next run when the cursor is below them by now, and not at all in a folder that is not watched any more.
func (a *auditor) forgetMissing(ctx context.Context, f *auditedFolder) error {
	var deleted []uint32
	for _, m := range f.found.Missing {
		if m.TaskID != 0 {
			deleted = append(deleted, m.UID)
		}
	}
	for uids := range slices.Chunk(deleted, a.Config.Page) {
		n, err := a.Queue.Forget(ctx, a.opts.Who, f.ID, f.UIDValidity, uids...)
		if err != nil {
			return err
		}
		if !f.Active {
			f.found.Forgotten += n
		}
	}
	if !f.Active {
		f.found.Missing = []MissingMessage{}
	}
	return nil
}

// registerPage returns those that are still missing.
func (a *auditor) registerPage(ctx context.Context, f *folder, part []MissingMessage) ([]MissingMessage, error) {
	uids := make([]uint32, len(part))
	for i, m := range part {
		uids[i] = m.UID
	}
	a.Observer.Expect(len(part))
	failed := a.page(ctx, f, uids, nil)
	left, err := a.Queue.Unseen(context.WithoutCancel(ctx), f.ID, f.UIDValidity, uids)
	if err != nil {
		return part, errors.Join(failed, err)
	}
	still := slices.DeleteFunc(slices.Clone(part), func(m MissingMessage) bool { return !slices.Contains(left, m.UID) })
	return still, failed
}
