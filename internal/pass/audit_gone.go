package pass

import (
	"context"
	"maps"
	"math"
	"slices"

	"postrider/internal/inbox"
	"postrider/internal/tasks"
	"postrider/internal/text"
)

// allEpochs is greater than every epoch.
const allEpochs = math.MaxInt64

// unwatched reports the tasks of a folder that is no longer watched and has no task waiting. It
// asks only the registry.
func (a *auditor) unwatched(ctx context.Context, row inbox.Folder) error {
	f := &auditedFolder{folder: &folder{row: row}, found: newFolderAudit(row.Name)}
	f.found.Unwatched, f.found.UIDValidity = true, uint32(row.UIDValidity)
	if err := a.leftBehind(ctx, f, allEpochs); err != nil {
		return err
	}
	if f.broken != nil {
		f.found.Error = text.Error(f.broken)
	}
	if f.found.Gone+len(f.found.Strays) > 0 || f.broken != nil {
		a.folders, a.found.Folders = append(a.folders, f), append(a.found.Folders, f.found)
	}
	return nil
}

// leftBehind reports the tasks that the folder had in epochs before that one.
func (a *auditor) leftBehind(ctx context.Context, f *auditedFolder, before int64) error {
	return a.visit.pass.Queue.LeftBehind(ctx, f.folder.row.ID, before, func(epoch int64, d tasks.Disposition) error {
		return a.gone(f, epoch, d)
	})
}

// absent reports the tasks of this epoch whose messages are not on the server.
func (a *auditor) absent(f *auditedFolder, known map[uint32]*tasks.Disposition) error {
	for _, uid := range slices.Sorted(maps.Keys(known)) {
		if err := a.gone(f, f.folder.row.UIDValidity, *known[uid]); err != nil {
			return err
		}
	}
	return nil
}

// gone counts a task whose message is not on the server, and reports it.
func (a *auditor) gone(f *auditedFolder, epoch int64, d tasks.Disposition) error {
	if d.TaskID == 0 {
		return nil
	}
	f.examine(d)
	as := accountOf[d.Status]
	switch {
	case d.Lost():
		as = AsMissing
		f.lost = append(f.lost, tasks.Place{Epoch: epoch, UID: d.UID})
	case d.Purged:
		as = AsPurged
	}
	if d.Lost() || needsMessage(&d) {
		f.found.Strays = append(f.found.Strays, Stray{
			TaskID: d.TaskID, UIDValidity: uint32(epoch), UID: d.UID, Status: d.Status,
		})
	} else if as != "" {
		f.found.Gone++
		f.found.GoneAs[as]++
	}
	line := Audited{
		Inbox: a.visit.in.Address, Folder: f.folder.row.Name, UIDValidity: uint32(epoch), UID: d.UID, Account: as,
		Gone: !f.found.Unwatched, Unwatched: f.found.Unwatched,
	}
	line.add(d)
	return a.tell(f, line)
}

// forget drops tasks that something else deleted and whose message is not on the server either.
// Nothing more can be done about them.
func (a *auditor) forget(ctx context.Context, f *auditedFolder) error {
	for _, at := range f.lost {
		n, err := a.visit.pass.Queue.Forget(ctx, a.opts.Who, f.folder.row.ID, at.Epoch, at.UID)
		if err != nil {
			return err
		}
		f.found.Forgotten += n
	}
	f.lost = nil
	f.found.Strays = slices.DeleteFunc(f.found.Strays, Stray.Lost)
	return nil
}
