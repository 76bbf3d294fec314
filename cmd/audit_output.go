package cmd

import (
	"bufio"
	"cmp"
	"fmt"
	"io"
	"strings"

	"github.com/dustin/go-humanize"

	"postrider/internal/pass"
	"postrider/internal/tasks"
	"postrider/internal/text"
)

func (a *app) printAudit(r pass.AuditReport, opts auditOptions) error {
	switch {
	case opts.json && opts.list:
		return nil
	case opts.json:
		return a.printJSON(r)
	}
	out := bufio.NewWriter(a.out)
	g := a.table("inbox", "folder", "messages", "accounted for as", "missing", "note")
	for _, in := range r.Inboxes {
		if in.Error != "" {
			g.Add(in.Email, "", 0, "", 0, text.Cut(in.Error, 120))
		}
		for _, f := range in.Folders {
			g.Add(in.Email, f.Name, f.Messages, accounts(f), len(f.Missing), text.Cut(folderNote(f), 120))
		}
	}
	if g.Len() > 0 {
		_ = g.Print(out) // Flush returns the first error
	}
	for _, in := range r.Inboxes {
		for _, f := range in.Folders {
			a.auditFindings(out, in.Email, f)
		}
	}
	_, _ = fmt.Fprintln(out, verdict(r))
	return out.Flush()
}

// accounts are the accounts that there are messages in, with their numbers.
func accounts(f *pass.FolderAudit) string {
	parts := counted(f.Counts)
	if f.Registered > 0 {
		parts = append(parts, fmt.Sprintf("%d registered now", f.Registered))
	}
	return strings.Join(parts, ", ")
}

// counted is like "3 forwarded", for each account but the missing ones, which have a column.
func counted(counts map[pass.Account]int) (parts []string) {
	for _, as := range pass.Accounts {
		if n := counts[as]; n > 0 && as != pass.AsMissing {
			parts = append(parts, fmt.Sprintf("%d %s", n, strings.ReplaceAll(string(as), "_", " ")))
		}
	}
	return parts
}

func folderNote(f *pass.FolderAudit) string {
	switch {
	case f.Error != "":
		return f.Error
	case f.NeverScanned:
		return "never scanned: the next run begins with it"
	case f.Unwatched:
		parts := counted(f.GoneAs)
		if len(f.Strays) > 0 {
			parts = append(parts, fmt.Sprintf("%d to look at", len(f.Strays)))
		}
		return "not watched any more, so not compared; it had " + strings.Join(parts, ", ")
	case f.Gone > 0:
		return fmt.Sprintf("%d no longer on the server: %s", f.Gone, strings.Join(counted(f.GoneAs), ", "))
	}
	return ""
}

// auditFindings are the messages of a folder that an operator should look at.
func (a *app) auditFindings(out io.Writer, email string, f *pass.FolderAudit) {
	for _, m := range f.Missing {
		_, _ = fmt.Fprintf(out, "missing: %s %s UID %d, %s\n", email, text.Line(f.Name), m.UID, a.missing(m))
	}
	for _, s := range f.Strays {
		_, _ = fmt.Fprintf(out, "task %d (%s): %s %s UID %d %s\n",
			s.TaskID, cmp.Or(s.Status, "deleted"), email, text.Line(f.Name), s.UID, strayNote(s, f))
	}
}

func strayNote(s pass.Stray, f *pass.FolderAudit) string {
	where := "is no longer on the server"
	switch {
	case s.Status == tasks.Skipped:
		return fmt.Sprintf("was skipped as vanished, and is on the server; to forward it: `postrider task retry %d`", s.TaskID)
	case f.Unwatched:
		where = "is of a folder that is not watched any more"
	case s.UIDValidity != f.UIDValidity:
		where = fmt.Sprintf("of UIDVALIDITY %d has not been found again", s.UIDValidity)
	}
	switch {
	case s.Lost():
		return where + "; something other than postrider deleted its task, so its fate is unknown"
	case s.Status == tasks.Uncertain && f.Unwatched:
		return where + "; an operator has to decide: `postrider task resolve`"
	case s.Status == tasks.Uncertain:
		return where + "; an operator has to decide, and it cannot be sent again"
	}
	return where + "; a run that does not find it ends it as vanished"
}

// verdict is the last line.
func verdict(r pass.AuditReport) string {
	if len(r.Inboxes) == 0 {
		return "N" + nothingToAudit[1:] + "."
	}
	sum := r.Sum()
	var parts []string
	add := func(is bool, format string, args ...any) {
		if is {
			parts = append(parts, fmt.Sprintf(format, args...))
		}
	}
	add(sum.Forgotten > 0, "Forgotten: %d whose tasks were deleted and that are not on the server either.", sum.Forgotten)
	add(sum.Registered > 0, "Registered: %d that were missing; the next run processes them.", sum.Registered)
	add(sum.Missing > 0, "Missing: %d; to register them, as a run would: `postrider audit --repair`.", sum.Missing)
	add(sum.Reappeared > 0, "Skipped as vanished, but on the server: %d; an operator has to decide about them.", sum.Reappeared)
	add(sum.Lost > 0, "Deleted by something other than postrider, and not on the server either: %d; restore the database from a backup, "+
		"or forget them: `postrider audit --repair`.", sum.Lost)
	add(!sum.Proved, "Not everything could be compared, so there is no proof.")
	add(sum.Clean(), "Every message is accounted for: %d on the servers.", sum.Messages)
	add(sum.Clean() && sum.Gone > 0, "No longer there, and accounted for: %d.", sum.Gone)
	return strings.Join(parts, " ")
}

func (l *auditLines) print(m pass.Audited) error {
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
		out = "there before the start"
	case pass.AsNew:
		out += ", the next run registers it"
	case pass.AsMissing:
		return "MISSING, " + l.lost(m)
	}
	if len(m.To) > 0 {
		out += " to " + strings.Join(m.To, ", ")
	}
	if m.Reason != "" {
		out += ": " + text.Line(m.Reason)
	}
	switch {
	case m.Unwatched:
		out += ", in a folder that is not watched any more"
	case m.Gone:
		out += ", no longer on the server"
	}
	if m.TaskID != 0 {
		out += fmt.Sprintf(" (task %d)", m.TaskID)
	}
	return out
}

// lost says what is known of a message that is missing.
func (a *app) lost(m pass.Audited) string {
	if m.Received == nil {
		return fmt.Sprintf("and no longer on the server: something other than postrider deleted its task %d", m.TaskID)
	}
	return a.missing(pass.MissingMessage{TaskID: m.TaskID, Received: *m.Received, Size: m.Size})
}

func (a *app) missing(m pass.MissingMessage) string {
	out := "which the server does not describe"
	if !m.Received.IsZero() {
		out = fmt.Sprintf("received %s, %s", a.when(&m.Received), humanize.IBytes(uint64(m.Size)))
	}
	if m.TaskID != 0 {
		out += fmt.Sprintf("; something other than postrider deleted its task %d, so its fate is unknown", m.TaskID)
	}
	return out
}
