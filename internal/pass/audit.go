package pass

import (
	"context"
	"errors"
	"time"

	"postrider/internal/inbox"
	"postrider/internal/tasks"
	"postrider/internal/text"
)

// AuditOptions says how an audit is done.
type AuditOptions struct {
	Repair bool   // register what is missing
	Who    string // audits, for the stored results and for the audit trail of a repair
	// Each, when set, is called for every message on the server, by ascending UID in a folder, and
	// for every task whose message is not there; from several goroutines at once. Its error ends
	// the audit of that folder.
	Each func(Audited) error
}

// Audit compares every message on the servers with the registry, and every task of the registry
// with the servers. It lists UIDs in bounded ranges. It reads no bodies, except those of a few
// messages whose size or date has changed, see reused. Unless it repairs, it takes no lease and
// changes nothing but the stored result of each inbox. Runs may work at the same time: the cursor
// is read before the server is asked, and the ledger after that, so a message at or below the
// cursor already has its disposition when the audit looks for it.
func (p *Pass) Audit(ctx context.Context, boxes []inbox.Inbox, opts AuditOptions) AuditReport {
	start := p.Now()
	report := AuditReport{StartedAt: start.UTC(), Inboxes: make([]InboxAudit, len(boxes))}
	began := make([]time.Time, len(boxes))
	p.compare(ctx, boxes, func(i int, v visit) error {
		began[i] = p.Now()
		a := &auditor{visit: v, opts: opts, found: InboxAudit{Email: v.in.Address, Folders: []*FolderAudit{}}}
		err := a.inbox(ctx)
		report.Inboxes[i] = a.found
		return err
	}, func(i int, err error) {
		found := &report.Inboxes[i]
		if err != nil {
			found.Email, found.Error = boxes[i].Address, text.Error(err)
		}
		p.keepAudit(ctx, boxes[i], began[i], opts.Who, *found)
	})
	report.DurationMS, report.Interrupted = p.Now().Sub(start).Milliseconds(), ctx.Err() != nil
	return report
}

// auditor compares one inbox.
type auditor struct {
	visit   visit
	opts    AuditOptions
	found   InboxAudit
	folders []*auditedFolder
}

// auditedFolder is one folder while it is compared.
type auditedFolder struct {
	folder *folder
	found  *FolderAudit
	said   uint32        // how many messages there are, by the server
	known  uint32        // no UID above is in the ledger, and the cursor is not either
	lost   []tasks.Place // of its strays
	again  reused
	broken error // the first task that is not as postrider writes tasks
}

// inbox compares the folders. If a folder cannot be compared, it gets the error, and the others are
// compared as long as there is a connection.
func (a *auditor) inbox(ctx context.Context) error {
	// Get also returns the folders that are no longer watched.
	in, err := a.visit.pass.Inboxes.Get(ctx, a.visit.in.Address)
	if err != nil {
		return err
	}
	a.visit.in = in
	for _, row := range in.Folders {
		open, err := toOpen(ctx, a.visit.pass.Queue, row)
		if err != nil {
			return err
		}
		if !open {
			if err := a.unwatched(ctx, row); err != nil {
				return err
			}
			continue
		}
		f := &auditedFolder{
			folder: &folder{row: row}, found: newFolderAudit(row.Name), again: reused{max: a.visit.pass.Config.MaxSize},
		}
		err = a.folder(ctx, f)
		lost := err != nil && (ctx.Err() != nil || !a.visit.session.connected())
		if lost && f.found.UIDValidity == 0 {
			return err // the folder was never opened
		}
		a.folders, a.found.Folders = append(a.folders, f), append(a.found.Folders, f.found)
		if lost {
			f.found.Error = "only partly compared"
			return err
		}
		if err != nil {
			f.found.Error = text.Error(err)
			a.visit.log.Error("the folder could not be audited", "folder", row.Name, "error", err)
		}
	}
	if !a.opts.Repair {
		return nil
	}
	return a.repair(ctx)
}

// row reads a folder's row again.
func (a *auditor) row(ctx context.Context, id int64) (inbox.Folder, error) {
	in, err := a.visit.pass.Inboxes.Get(ctx, a.visit.in.Address)
	row := rowOf(in, id)
	if err == nil && row.ID == 0 {
		err = errors.New("the folder was removed from the inbox")
	}
	return row, err
}
