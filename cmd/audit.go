package cmd

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/dustin/go-humanize"
	"github.com/spf13/cobra"

	"postrider/internal/inbox"
	"postrider/internal/pass"
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
