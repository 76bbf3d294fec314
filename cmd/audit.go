package cmd

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"

	"github.com/dustin/go-humanize"
	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/spf13/cobra"

	"postrider/internal/inbox"
	"postrider/internal/pass"
	"postrider/internal/tasks"
)

type auditOptions struct {
	inboxes            []string
	list, json, repair bool
}

func (a *app) auditCommand() *cobra.Command {
	var opts auditOptions
	c := &cobra.Command{
		Use:   "audit [--inbox ADDR]... [--list] [--repair] [--json]",
		Short: "Prove that every message on the servers is accounted for, and find those that are not",
		Long: `audit compares every message in the watched folders with the registry, and every task of the
registry with the servers: forwarded, and to whom; skipped, and why; waiting; uncertain; dead;
purged (its task has ended and was deleted); there before the start; new (the next run registers
it). What lies at or below a folder's cursor and is none of these is missing, and so is what had
a task that was deleted, though not by postrider; what was skipped as vanished and is there has
reappeared. It reads no bodies and, without --repair, changes nothing; runs may go on beside it.

--list prints every message, and every task whose message is not there any more, with how it is
accounted for, one a line: the proof. --repair registers what is missing, as a run would; the
next run forwards it. Without --inbox the active inboxes are audited; a disabled one can be
named.

Exit code 0: everything is accounted for, or was registered by --repair, or there is no active
inbox. 75: messages are missing or have reappeared, tasks were deleted, or something could not
be proved: an inbox that cannot be reached, a folder whose UIDVALIDITY has changed since the
last run.
` + exitHelp,
		Args: takesNone,
		RunE: func(c *cobra.Command, _ []string) error { return a.audit(c.Context(), opts) },
	}
	c.Flags().StringArrayVar(&opts.inboxes, "inbox", nil, "only this `ADDR`, may be repeated")
	c.Flags().BoolVar(&opts.list, "list", false, "print every message and task; with --json one object a line, and no report")
	c.Flags().BoolVar(&opts.repair, "repair", false, "register what is missing")
	c.Flags().BoolVar(&opts.json, "json", false, "print the report as one JSON object")
	complete(c, "inbox", a.addresses)
	return c
}

func (a *app) audit(ctx context.Context, opts auditOptions) error {
	ctx, stop := untilSignal(ctx)
	defer stop()
	s, err := a.open(ctx)
	if err != nil {
		return beforeItBegan(ctx, err)
	}
	defer s.close()
	boxes, err := toAudit(ctx, s, opts)
	if err != nil {
		return beforeItBegan(ctx, err)
	}
	if len(boxes) == 0 && opts.json {
		s.log.Warn(nothingToAudit)
	}
	watch := a.observer("comparing", runOptions{json: opts.json || opts.list})
	p, err := s.pass(ctx, nil, watch, false)
	if err != nil {
		return err
	}
	lines := &auditLines{app: a, out: bufio.NewWriter(a.out), json: opts.json}
	do := pass.AuditOptions{Repair: opts.repair, Who: a.who(s.host())}
	if opts.list {
		do.Each = lines.print
	}
	report := p.Audit(ctx, boxes, do)
	if err := errors.Join(watch.close(), lines.out.Flush(), a.printAudit(report, opts)); err != nil {
		return err
	}
	if !report.Sum().Clean() {
		return errRetry
	}
	return nil
}

const nothingToAudit = "there is nothing to audit: no inbox is active; add one with `postrider inbox add ADDR --host HOST`, " +
	"enable one with `postrider inbox enable ADDR`, or name a disabled one with --inbox ADDR"

// toAudit are the active inboxes, or those that were named. Only those that are worked on can be repaired.
func toAudit(ctx context.Context, s *services, opts auditOptions) ([]inbox.Inbox, error) {
	if opts.repair || len(opts.inboxes) == 0 {
		return chosen(ctx, s.inboxes, opts.inboxes)
	}
	boxes, err := s.all(ctx, opts.inboxes)
	slices.SortFunc(boxes, func(x, y inbox.Inbox) int { return cmp.Compare(x.Address, y.Address) })
	return slices.CompactFunc(boxes, func(x, y inbox.Inbox) bool { return x.ID == y.ID }), err
}

// auditLines prints messages, one a line.
type auditLines struct {
	*app
	mu   sync.Mutex
	out  *bufio.Writer
	json bool
}

func (l *auditLines) print(m pass.Audited) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.json {
		return (&app{out: l.out}).printJSON(m)
	}
	_, err := fmt.Fprintf(l.out, "%s %s UID %d: %s\n", m.Inbox, printable(m.Folder), m.UID, l.sentence(m))
	return err
}

// sentence says how a message is accounted for.
func (l *auditLines) sentence(m pass.Audited) string {
	text := strings.ReplaceAll(string(m.Account), "_", " ")
	switch m.Account {
	case pass.AsWaiting:
		text += fmt.Sprintf(" (%s) since %s", m.Status, l.when(m.Since))
		if m.NextTry != nil { // else it has ended just now
			text += ", not before " + l.when(m.NextTry)
		}
	case pass.AsPurged:
		text += fmt.Sprintf(", ended as %s", m.Status)
	case pass.AsBeforeStart, pass.AsNotNoted:
		text = "there before the start"
	case pass.AsNew:
		text += ", the next run registers it"
	case pass.AsMissing:
		return "MISSING, " + l.lost(m)
	}
	if len(m.To) > 0 {
		text += " to " + strings.Join(m.To, ", ")
	}
	if m.Reason != "" {
		text += ": " + printable(m.Reason)
	}
	switch {
	case m.Unwatched:
		text += ", in a folder that is not watched any more"
	case m.Gone:
		text += ", no longer on the server"
	}
	if m.TaskID != 0 {
		text += fmt.Sprintf(" (task %d)", m.TaskID)
	}
	return text
}

// lost says what is known of a message that is missing.
func (a *app) lost(m pass.Audited) string {
	if m.Received == nil {
		return fmt.Sprintf("and no longer on the server: its task %d was deleted, though not by postrider", m.TaskID)
	}
	return a.missing(pass.MissingMessage{TaskID: m.TaskID, Received: *m.Received, Size: m.Size})
}

func (a *app) missing(m pass.MissingMessage) string {
	text := a.arrived(m)
	if m.TaskID != 0 {
		text += fmt.Sprintf("; its task %d was deleted, though not by postrider, so who has it is not known", m.TaskID)
	}
	return text
}

// arrived is what the server says of a message that nothing else is known of.
func (a *app) arrived(m pass.MissingMessage) string {
	if m.Received.IsZero() {
		return "which the server does not describe"
	}
	return fmt.Sprintf("received %s, %s", a.when(&m.Received), humanize.IBytes(uint64(m.Size)))
}

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
