package cmd

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/dustin/go-humanize"

	"postrider/internal/forward"
	"postrider/internal/pass"
	"postrider/internal/tasks"
	"postrider/internal/text"
)

func (a *app) printAudit(r pass.AuditReport, opts auditOptions) {
	switch {
	case opts.json && opts.list:
		return
	case opts.json:
		a.printJSON(r)
		return
	}
	g := a.table("inbox", "folder", "messages", "accounted for as", "missing", "note")
	for _, in := range r.Inboxes {
		if in.Error != "" {
			note := in.Error
			if g.Width > 0 && !r.Interrupted {
				note = "failed, see above" // the log has the whole error
			}
			g.Add(in.Email, "", 0, "", 0, g.Short(note, 120))
		}
		for _, f := range in.Folders {
			g.Add(in.Email, f.Name, f.Messages, f.Accounts(), len(f.Missing), g.Short(f.Note(), 120))
		}
	}
	if g.Len() > 0 {
		a.printed(g.Print(a.out))
	}
	for _, in := range r.Inboxes {
		for _, f := range in.Folders {
			a.auditFindings(in.Email, f)
		}
	}
	if len(r.Inboxes) == 0 {
		a.print("N%s.\n", opts.nothing()[1:])
	} else {
		a.print("%s\n", r.Verdict())
	}
}

// auditFindings are the messages of a folder that an operator should look at.
func (a *app) auditFindings(email string, f *pass.FolderAudit) {
	for _, m := range f.Missing {
		a.print("missing: %s %s UID %d, %s\n", email, text.Line(f.Name), m.UID, a.missing(m))
	}
	for _, s := range f.Strays {
		a.print("task %d (%s): %s %s UID %d %s\n",
			s.TaskID, cmp.Or(s.Status, "deleted"), email, text.Line(f.Name), s.UID, s.Note(f))
	}
}

func (l *auditLines) add(m pass.Audited) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.json {
		return printJSON(l.out, m)
	}
	_, err := fmt.Fprintf(l.out, "%s %s UID %d: %s\n", m.Inbox, text.Line(m.Folder), m.UID, l.account(m))
	return err
}

// account says how a message is accounted for.
func (l *auditLines) account(m pass.Audited) string {
	out := strings.ReplaceAll(string(m.Account), "_", " ")
	switch m.Account {
	case pass.AsWaiting:
		out += fmt.Sprintf(" (%s) since %s", m.Status, l.when(m.Since))
		if m.NextTry != nil { // else it has just ended
			out += ", not before " + l.when(m.NextTry)
		}
	case pass.AsPurged:
		out += fmt.Sprintf(", ended as %s", m.Status)
	case pass.AsBeforeStart, pass.AsNotNoted:
		out = "older than --start"
	case pass.AsNew:
		out += ", the next run registers it"
	case pass.AsMissing:
		return "MISSING, " + l.lost(m)
	}
	switch to := strings.Join(m.To, ", "); {
	case to == "":
	case m.Account == pass.AsForwarded && m.Mode == string(forward.Notice):
		out += " (only a notice) to " + to
	case m.Account == pass.AsForwarded:
		out += " to " + to
	default:
		out += " (accepted for " + to + ")"
	}
	if len(m.Confirmed) > 0 {
		out += "; confirmed: " + strings.Join(m.Confirmed, ", ")
	}
	if len(m.Bounced) > 0 {
		out += "; bounced: " + strings.Join(m.Bounced, ", ")
	}
	if m.Reason != "" {
		out += ": " + text.Line(m.Reason)
	}
	switch {
	case m.Unwatched:
		out += ", in a folder that is not watched any more"
	case m.Gone && !strings.HasPrefix(m.Reason, string(tasks.SkipVanished)):
		out += ", no longer on the server"
	}
	if m.TaskID != 0 {
		out += fmt.Sprintf(" (task %d)", m.TaskID)
	}
	return out
}

// lost says what is known of a message that is missing.
func (a *app) lost(m pass.Audited) string {
	if m.Gone || m.Unwatched {
		return fmt.Sprintf("and no longer on the server: something other than postrider deleted its task %d", m.TaskID)
	}
	return a.missing(pass.MissingMessage{TaskID: m.TaskID, Received: m.Received, Size: m.Size})
}

func (a *app) missing(m pass.MissingMessage) string {
	out := "which the server does not describe"
	if m.Received != nil {
		out = fmt.Sprintf("received %s, %s", a.when(m.Received), humanize.IBytes(uint64(m.Size)))
	}
	if m.TaskID != 0 {
		out += fmt.Sprintf("; something other than postrider deleted its task %d, so it is unknown who got it",
			m.TaskID)
	}
	return out
}
