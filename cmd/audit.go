package cmd

import (
	"bufio"
	"context"
	"sync"

	"github.com/spf13/cobra"

	"postrider/internal/inbox"
	"postrider/internal/pass"
)

type auditOptions struct {
	chosen             inbox.Selection
	list, json, repair bool
}

func (a *app) auditCommand() *cobra.Command {
	var opts auditOptions
	c := &cobra.Command{
		Use:   "audit [--inbox ADDR]... [--label L]... [--list] [--repair]",
		Short: "Prove that every message on the servers is accounted for",
		Long: `audit compares every message in the watched folders with the registry, and
every task of the registry with the servers. A message is accounted for when it
was forwarded or skipped, waits, is uncertain or dead, was purged (its task
ended and was deleted), is older than --start, or is new (the next run
registers it). A message at or below a folder's cursor that is none of these is
missing. So is one whose task something other than postrider deleted. A message
that was skipped as vanished but is on the server has reappeared. Nothing can be
proved about a folder whose server gave the UID of a message to another one.
audit reads no bodies, except of a few messages whose size or date has changed.
Without --repair it changes nothing, except that it stores the result, which the
status page shows. Runs may continue meanwhile.

--list prints the proof: one line for every message, and for every task whose
message is gone. --repair registers what is missing, as a run would; the next
run forwards it, and compares a folder whose UIDs have other messages. Without
--inbox and --label it audits the active inboxes; with them, disabled ones, too.

Exit codes:
  0   everything is accounted for, or --repair registered it, or no inbox is
      active
  1   failed
  2   bad usage or configuration, nothing touched
  75  messages are missing or have reappeared, tasks were deleted, or something
      could not be proved: an inbox cannot be reached, the UIDVALIDITY of a
      folder has changed since the last run, or a UID has another message`,
		Args: takesNone,
		RunE: func(c *cobra.Command, _ []string) error { return a.audit(c.Context(), opts) },
	}
	a.chooseInboxes(c, &opts.chosen)
	c.Flags().BoolVar(&opts.list, "list", false,
		"print every message and task; with --json one object a line, and no report")
	c.Flags().BoolVar(&opts.repair, "repair", false, "register what is missing")
	c.Flags().BoolVar(&opts.json, "json", false, "print the report as one JSON object")
	return c
}

func (a *app) audit(ctx context.Context, opts auditOptions) error {
	choose := func(ctx context.Context, s *services) ([]inbox.Inbox, error) {
		if opts.repair || opts.chosen.Empty() { // only an active one can be repaired
			return s.inboxes.ActiveOf(ctx, opts.chosen)
		}
		return s.inboxes.Chosen(ctx, opts.chosen)
	}
	audit := func(ctx context.Context, s *services, p *pass.Pass, boxes []inbox.Inbox) (clean bool) {
		if len(boxes) == 0 && opts.json {
			s.log.Warn(opts.nothing())
		}
		lines := &auditLines{app: a, out: bufio.NewWriter(a.out), json: opts.json}
		do := pass.AuditOptions{Repair: opts.repair, Who: a.who(s.host())}
		if opts.list {
			do.Each = lines.add
		}
		report := p.Audit(ctx, boxes, do)
		a.bar.Close()
		a.printed(lines.out.Flush())
		a.printAudit(report, opts)
		return report.Sum().Clean()
	}
	return a.compare(ctx, opts.json || opts.list, choose, audit)
}

// compare is what audit and route replay have in common: it opens what a pass needs that only
// compares, shows the progress, and sets the exit code when the result is not clean. do closes the
// bar before it prints.
func (a *app) compare(ctx context.Context, quiet bool, choose func(context.Context, *services) ([]inbox.Inbox, error),
	do func(context.Context, *services, *pass.Pass, []inbox.Inbox) (clean bool),
) error {
	ctx, stop := untilSignal(ctx)
	defer stop()
	s, err := a.open(ctx)
	if err != nil {
		return beforeItBegan(ctx, err)
	}
	defer s.close()
	defer context.AfterFunc(ctx, s.db.StopWaiting)()
	boxes, err := choose(ctx, s)
	if err != nil {
		return beforeItBegan(ctx, err)
	}
	p, err := s.pass(ctx, nil, a.observer("comparing", runOptions{json: quiet}), false)
	if err != nil {
		return err
	}
	if !do(ctx, s, p, boxes) {
		return errRetry
	}
	return nil
}

// nothing says why no inbox is audited. Without --repair one that was chosen is, active or not.
func (o auditOptions) nothing() string {
	if !o.chosen.Empty() {
		return "no inbox that was chosen is active, and --repair is for active ones; " +
			"enable one with `postrider inbox enable ADDR`"
	}
	return "no inbox is active, so there is nothing to audit; add one with `postrider inbox add ADDR`, " +
		"enable one with `postrider inbox enable ADDR`, or name a disabled one with --inbox ADDR"
}

// auditLines prints messages, one a line.
type auditLines struct {
	*app
	mu   sync.Mutex
	out  *bufio.Writer
	json bool
}
