package pass

import (
	"cmp"
	"context"
	"errors"
	"slices"

	"postrider/internal/inbox"
	"postrider/internal/tasks"
	"postrider/internal/text"
)

// AuditOptions says how an audit is done.
type AuditOptions struct {
	Repair bool   // register what is missing
	Who    string // repairs, for the audit trail
	// Each is told of every message on the server, if it is set, by ascending UID in a folder, and of every task whose message is
	// not there; from several goroutines at once. Its error ends the audit of that folder.
	Each func(Audited) error
}

// Audit compares every message that the servers have with the registry, and every task of the registry with the servers. It
// lists UIDs in bounded ranges and reads no bodies; unless it repairs it takes no lease and changes nothing. Runs may go on beside it:
// the cursor is read before the server is asked, and the ledger after it, so a message at or below that cursor had its
// disposition before it was looked for.
func (p *Pass) Audit(ctx context.Context, boxes []inbox.Inbox, opts AuditOptions) AuditReport {
	start := p.Now()
	report := AuditReport{StartedAt: start.UTC(), Inboxes: make([]InboxAudit, len(boxes))}
	r := &running{Pass: p, hosts: newHosts(p.Config.PerHost)}
	p.each(boxes, func(i int, in inbox.Inbox) { report.Inboxes[i] = r.audit(ctx, in, opts) })
	report.DurationMS, report.Interrupted = p.Now().Sub(start).Milliseconds(), ctx.Err() != nil
	return report
}

// auditor compares one inbox.
type auditor struct {
	*box
	opts    AuditOptions
	found   InboxAudit
	folders []*auditedFolder
}

// auditedFolder is one folder while it is compared.
type auditedFolder struct {
	*folder
	found *FolderAudit
	lost  []tasks.Place // of its strays
}

func (r *running) audit(ctx context.Context, in inbox.Inbox, opts AuditOptions) InboxAudit {
	a := &auditor{box: r.box(in), opts: opts, found: InboxAudit{Email: in.Address, Folders: []*FolderAudit{}}}
	err := a.comparing(ctx, a.inbox)
	if err != nil {
		a.found.Error = oneLine(err)
	}
	if err != nil && ctx.Err() == nil {
		a.log.Error("the inbox could not be audited", "error", err)
	}
	return a.found
}

// comparing does work, which compares all of an inbox, once its server has a place for one more connection.
func (b *box) comparing(ctx context.Context, work func(context.Context) error) error {
	defer b.mail.close()
	leave, err := b.hosts.enter(ctx, b.in.Host)
	if err == nil {
		err = work(ctx)
		leave()
	}
	if ctx.Err() != nil {
		return errors.New("stopped before all of it was compared")
	}
	return err
}

func oneLine(err error) string { return text.Error(err) }

// inbox compares the folders. One that cannot be compared is told of; the others go on, as long as there is a connection.
func (a *auditor) inbox(ctx context.Context) error {
	in, err := a.Inboxes.Get(ctx, a.in.Address) // with the folders that are no longer watched
	if err != nil {
		return err
	}
	a.in = in
	for _, row := range a.in.Folders {
		f := &folder{Folder: row}
		wanted, err := a.wanted(ctx, f)
		if err != nil {
			return err
		}
		if !wanted {
			if err := a.unwatched(ctx, row); err != nil {
				return err
			}
			continue
		}
		af := &auditedFolder{folder: f, found: newFolderAudit(row.Name)}
		a.folders, a.found.Folders = append(a.folders, af), append(a.found.Folders, af.found)
		if err := a.folder(ctx, af); err != nil {
			af.found.Error = oneLine(err)
			if ctx.Err() != nil || a.mail.src == nil {
				af.found.Error = "not compared to its end"
				return err
			}
			a.log.Error("the folder could not be audited", "folder", f.Name, "error", err)
		}
	}
	if !a.opts.Repair {
		return nil
	}
	return a.repair(ctx)
}

// row reads a folder's row anew.
func (a *auditor) row(ctx context.Context, id int64) (inbox.Folder, error) {
	in, err := a.Inboxes.Get(ctx, a.in.Address)
	i := slices.IndexFunc(in.Folders, func(f inbox.Folder) bool { return f.ID == id })
	if err != nil || i < 0 {
		return inbox.Folder{}, cmp.Or(err, errors.New("the folder was removed from the inbox"))
	}
	return in.Folders[i], nil
}
