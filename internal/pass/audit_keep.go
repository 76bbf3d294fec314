package pass

import (
	"context"
	"errors"
	"time"

	"postrider/internal/inbox"
	"postrider/internal/tasks"
	"postrider/internal/text"
)

// keepAudit stores what an audit found in one inbox. An audit that was stopped leaves the last
// result as it was; one that ran out of time does not.
func (p *Pass) keepAudit(ctx context.Context, in inbox.Inbox, began time.Time, who string, found InboxAudit) {
	if errors.Is(ctx.Err(), context.Canceled) && found.Error != "" {
		return
	}
	report := AuditReport{Inboxes: []InboxAudit{found}}
	sum := report.Sum()
	err := p.Inboxes.KeepAudit(context.WithoutCancel(ctx), in.ID, inbox.Audit{
		StartedAt: began, DurationMS: p.Now().Sub(began).Milliseconds(), By: who,
		Messages: sum.Messages, Accounted: sum.Messages - sum.Missing - sum.Reappeared, Unaccounted: sum.Unaccounted(),
		Clean: sum.Clean(), Summary: report.Verdict(), Error: found.Error, Findings: found.findings(),
	})
	if err != nil {
		p.Log.Warn("the result of the audit could not be stored", "inbox", in.Address, "error", err)
	}
}

// findings are the folders that could not be compared, and then what is not accounted for, as far
// as it is stored.
func (a InboxAudit) findings() (out []inbox.Finding) {
	add := func(f inbox.Finding) {
		if len(out) < inbox.MaxFindings {
			f.Folder = text.Line(f.Folder)
			out = append(out, f)
		}
	}
	for _, f := range a.Folders {
		if f.Error != "" {
			add(inbox.Finding{Folder: f.Name, Says: f.Error})
		}
	}
	for _, f := range a.Folders {
		for _, m := range f.Missing {
			add(m.finding(f))
		}
		for _, s := range f.Strays {
			if s.Lost() || s.Status == tasks.Skipped {
				add(inbox.Finding{Folder: f.Name, UID: s.UID, TaskID: s.TaskID, Says: s.Note(f)})
			}
		}
	}
	return out
}

func (m MissingMessage) finding(f *FolderAudit) inbox.Finding {
	out := inbox.Finding{
		Folder: f.Name, UID: m.UID, TaskID: m.TaskID, Received: m.Received, Size: m.Size, Says: "missing",
	}
	if m.TaskID != 0 {
		out.Says = "something other than postrider deleted its task, so it is unknown who got it"
	}
	return out
}
