package pass

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"
)

// repair registers what is missing. It holds the scan lease, so no one else moves the cursors
// meanwhile. The next run forwards the messages. A task that something other than postrider
// deleted, and whose message is not on the server either, is forgotten.
func (a *auditor) repair(ctx context.Context) error {
	if !slices.ContainsFunc(a.folders, func(f *auditedFolder) bool { return len(f.found.Missing)+len(f.lost) > 0 }) {
		return nil
	}
	p := a.visit.pass
	lease, busy, err := acquireScan(ctx, p, a.visit.in)
	if err != nil {
		return err
	}
	if busy != nil {
		return fmt.Errorf("nothing was registered: %s holds the scan lease of the inbox (until %s unless renewed); "+
			"try again then",
			busy.Holder, busy.Until.Format(time.RFC3339))
	}
	err = lease.renewing(ctx, a.visit.log, func(ctx context.Context) error {
		var err error
		for _, f := range a.folders {
			if err == nil && len(f.found.Missing) > 0 {
				err = a.register(ctx, f, lease)
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
	return errors.Join(err, p.Inboxes.ReleaseScan(context.WithoutCancel(ctx), lease.by))
}

// register registers what is missing in one folder, as a run does. What is still missing stays in
// Missing. A message that a rewind put above the cursor meanwhile is no longer missing: the next
// run registers it. A page up to it would move the cursor over the messages before it.
func (a *auditor) register(ctx context.Context, f *auditedFolder, lease *scanLease) error {
	was := f.folder.row
	row := &folder{row: rowOf(lease.in, was.ID), next: f.folder.next}
	if row.row.ID == 0 || row.row.UIDValidity != was.UIDValidity {
		return fmt.Errorf("%s: %w", f.folder, errEpoch)
	}
	if err := a.forgetMissing(ctx, f); err != nil {
		return err
	}
	all := len(f.found.Missing)
	rest := slices.DeleteFunc(f.found.Missing, func(m MissingMessage) bool { return m.UID > row.row.LastSeenUID })
	f.found.Counts[AsNew] += all - len(rest)
	f.found.Missing = []MissingMessage{}
	var err error
	for part := range slices.Chunk(rest, a.visit.pass.Config.Page) {
		left := part
		if err == nil {
			left, err = a.registerPage(ctx, row, lease, part)
		}
		f.found.Missing = append(f.found.Missing, left...)
		f.found.Registered += len(part) - len(left)
	}
	f.found.Counts[AsMissing] = len(f.found.Missing)
	return err
}

// forgetMissing has the registry forget the deleted tasks of messages that are on the server, so
// that the messages can be registered again. The next run does so when the cursor is below them by
// now. In a folder that is no longer watched they are not registered at all.
func (a *auditor) forgetMissing(ctx context.Context, f *auditedFolder) error {
	var deleted []uint32
	for _, m := range f.found.Missing {
		if m.TaskID != 0 {
			deleted = append(deleted, m.UID)
		}
	}
	for uids := range slices.Chunk(deleted, a.visit.pass.Config.Page) {
		n, err := a.visit.pass.Queue.Forget(ctx, a.opts.Who, f.folder.row.ID, f.folder.row.UIDValidity, uids...)
		if err != nil {
			return err
		}
		if !f.folder.row.Active {
			f.found.Forgotten += n
		}
	}
	if !f.folder.row.Active {
		f.found.Missing = []MissingMessage{}
	}
	return nil
}

// registerPage returns the messages that are still missing.
func (a *auditor) registerPage(
	ctx context.Context, f *folder, lease *scanLease, part []MissingMessage,
) ([]MissingMessage, error) {
	uids := make([]uint32, len(part))
	for i, m := range part {
		uids[i] = m.UID
	}
	p := a.visit.pass
	p.Observer.Expect(len(part))
	cache := newCache(0, 0) // the next run fetches the bodies
	cache.close()
	s := &scanner{
		pass: p, revision: p.revisionFor(lease.in, p.revision()), in: lease.in, log: a.visit.log,
		session: a.visit.session, cache: cache,
		tally: newTally(p.Observer, InboxReport{}), lease: lease.by, registered: func() {},
	}
	failed := s.page(ctx, f, uids)
	left, err := p.Queue.Unseen(context.WithoutCancel(ctx), f.row.ID, f.row.UIDValidity, uids)
	if err != nil {
		return part, errors.Join(failed, err)
	}
	return slices.DeleteFunc(slices.Clone(part), func(m MissingMessage) bool {
		return !slices.Contains(left, m.UID)
	}), failed
}
