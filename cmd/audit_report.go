package cmd

import (
	"bufio"
	"cmp"
	"fmt"
	"io"
	"strings"

	"github.com/jedib0t/go-pretty/v6/table"

	"postrider/internal/pass"
	"postrider/internal/tasks"
)

func (a *app) printAudit(r pass.AuditReport, opts auditOptions) error {
	switch {
	case opts.json && opts.list:
		return nil
	case opts.json:
		return a.printJSON(r)
	}
	out := bufio.NewWriter(a.out)
	t := newTable(out, "inbox", "folder", "messages", "accounted for as", "missing", "")
	for _, in := range r.Inboxes {
		if in.Error != "" {
			t.AppendRow(table.Row{in.Email, "", "", "", "", shorten(printable(in.Error), 80)})
		}
		for _, f := range in.Folders {
			t.AppendRow(table.Row{in.Email, printable(f.Name), f.Messages, accounts(f), len(f.Missing), shorten(printable(folderNote(f)), 120)})
		}
	}
	if t.Length() > 0 {
		t.Render()
	}
	for _, in := range r.Inboxes {
		for _, f := range in.Folders {
			a.auditFindings(out, in.Email, f)
		}
	}
	_, _ = fmt.Fprintln(out, verdict(r))
	return out.Flush() // the first error of all
}

// accounts are the accounts that there are messages in, and how many.
func accounts(f *pass.FolderAudit) string {
	parts := counted(f.Counts)
	if f.Registered > 0 {
		parts = append(parts, fmt.Sprintf("%d registered now", f.Registered))
	}
	return strings.Join(parts, ", ")
}

// counted is like "3 forwarded", for each account but missing ones, which stand by themselves.
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
		return "not watched any more, so not compared; it had " + strings.Join(append(counted(f.GoneAs), strays(f)...), ", ")
	case f.Gone > 0:
		return fmt.Sprintf("%d more are no longer on the server: %s", f.Gone, strings.Join(counted(f.GoneAs), ", "))
	}
	return ""
}

// strays is how many of its tasks a folder that is not watched any more has not ended.
func strays(f *pass.FolderAudit) []string {
	if len(f.Strays) == 0 {
		return nil
	}
	return []string{fmt.Sprintf("%d to look at", len(f.Strays))}
}

// auditFindings are the messages of a folder that a person should know of.
func (a *app) auditFindings(out io.Writer, email string, f *pass.FolderAudit) {
	for _, m := range f.Missing {
		_, _ = fmt.Fprintf(out, "missing: %s %s UID %d, %s\n", email, printable(f.Name), m.UID, a.missing(m))
	}
	for _, s := range f.Strays {
		_, _ = fmt.Fprintf(out, "task %d (%s): %s %s UID %d %s\n", s.TaskID, cmp.Or(s.Status, "deleted"), email, printable(f.Name), s.UID, strayNote(s, f))
	}
}

func strayNote(s pass.Stray, f *pass.FolderAudit) string {
	where := "is no longer on the server"
	switch {
	case s.Status == tasks.Skipped:
		return fmt.Sprintf("was skipped as vanished, and is on the server; `postrider task retry %d` lets it go on", s.TaskID)
	case f.Unwatched:
		where = "is of a folder that is not watched any more"
	case s.UIDValidity != f.UIDValidity:
		where = fmt.Sprintf("of UIDVALIDITY %d has not been found again", s.UIDValidity)
	}
	switch {
	case s.Lost():
		return where + "; its task was deleted, though not by postrider, so nobody knows what became of it"
	case s.Status == tasks.Uncertain && f.Unwatched:
		return where + "; it waits for your word: `postrider task resolve`"
	case s.Status == tasks.Uncertain:
		return where + "; it waits for your word, and cannot be sent again"
	}
	return where + "; a run that does not find it ends it as vanished"
}

// verdict is the last line.
func verdict(r pass.AuditReport) string {
	if len(r.Inboxes) == 0 {
		return "T" + nothingToAudit[1:] + "."
	}
	sum := r.Sum()
	var parts []string
	if sum.Forgotten > 0 {
		parts = append(parts, fmt.Sprintf("Forgotten: %d that others had deleted, and that are not on the server either.", sum.Forgotten))
	}
	if sum.Registered > 0 {
		parts = append(parts, fmt.Sprintf("Registered: %d that were missing; the next run forwards what is to be forwarded.", sum.Registered))
	}
	if sum.Missing > 0 {
		parts = append(parts, fmt.Sprintf("Missing: %d; `postrider audit --repair` registers what is missing, as a run would.", sum.Missing))
	}
	if sum.Reappeared > 0 {
		parts = append(parts, fmt.Sprintf("Skipped as vanished, and there: %d; it is for you to say what becomes of them.", sum.Reappeared))
	}
	if sum.Lost > 0 {
		parts = append(parts, fmt.Sprintf("Deleted, though not by postrider, and not on the server either: %d; restore the database from a backup, or "+
			"have `postrider audit --repair` forget them.", sum.Lost))
	}
	if !sum.Proved {
		parts = append(parts, "Not everything could be compared, so there is no proof.")
	}
	if sum.Clean() {
		parts = append(parts, fmt.Sprintf("Every message is accounted for: %d on the servers.", sum.Messages))
		if sum.Gone > 0 {
			parts = append(parts, fmt.Sprintf("No longer there, and accounted for: %d.", sum.Gone))
		}
	}
	return strings.Join(parts, " ")
}
