package cmd

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"postrider/internal/config"
	"postrider/internal/db"
	"postrider/internal/inbox"
	"postrider/internal/pass"
	"postrider/internal/text"
)

type checkOptions struct {
	chosen inbox.Selection
	overview
}

func (a *app) checkCommand() *cobra.Command {
	var opts checkOptions
	c := &cobra.Command{
		Use:   "check [--inbox ADDR]... [--label L]... [--all|--failing]",
		Short: "Check configuration, database, inboxes, relay and DNS",
		Long: `check tests everything that a run depends on, prints one line for each, and says
how to fix what fails. It sends no mail.

It tests that the database user can write. It writes 1 MiB beside an SQLite
file, to TMPDIR (for large messages) and to the directory of metrics.textfile,
and removes it. It logs in to each inbox and opens its folders. It names the
sender (forward.envelope_from), up to ten recipients, and the null
reverse-path of notices to the relay, and ends each transaction before any
content. For mode auto and arc it queries the DNS. It tests that the bounce
inbox is active, that the hook exists, and that the files of web can be used;
it does not run the hook. --inbox and --label choose inboxes; the rest is
always tested.

With more than ` + many + ` inboxes it prints a summary and those that fail; --all prints
all. The exit code is 75 when something fails, and 1 when everything does.
` + exitHelp,
		Args: takesNone,
		RunE: func(c *cobra.Command, _ []string) error { return a.check(c.Context(), opts) },
	}
	a.chooseInboxes(c, &opts.chosen)
	opts.register(c)
	return c
}

// finding is one line of the check.
type finding struct {
	what string // "inbox desk@firm.example"
	text string // what was found
	note bool   // nothing is wrong, but worth a look
	err  error
}

func (a *app) check(ctx context.Context, opts checkOptions) error {
	if err := opts.check(); err != nil {
		return err
	}
	path, err := config.Find(a.config, a.env)
	if err != nil {
		return usage(err)
	}
	cfg, err := a.loadConfig(ctx)
	if err != nil {
		return err
	}
	a.report(finding{what: "configuration", text: path})
	a.notes("routes", cfg.Table.Notes()...)
	found, err := a.checkStored(ctx, cfg, opts)
	if err != nil {
		return err
	}
	relay, err := a.checkSending(ctx, a.unopened(cfg))
	if err != nil {
		return err
	}
	a.checkDKIM(cfg)
	found = slices.Concat(found, relay, a.checkARC(ctx, cfg), a.checkTemporary(), a.checkOptional(ctx, cfg))
	failed := 0
	for _, f := range found {
		if f.err != nil {
			failed++
		}
	}
	return outcome(failed, len(found))
}

func (a *app) report(f finding) {
	state, what := "ok", f.text
	switch {
	case f.err != nil:
		state, what = "FAILED", text.Error(f.err)
	case f.note:
		state = "note"
	}
	a.print("%-6s  %s: %s\n", state, f.what, text.Line(what))
}

// notes prints remarks on what is valid.
func (a *app) notes(what string, texts ...string) {
	for _, note := range texts {
		a.report(finding{what: what, note: true, text: note})
	}
}

// checkStored checks the database and the inboxes in it.
func (a *app) checkStored(ctx context.Context, cfg *config.Config, opts checkOptions) ([]finding, error) {
	stored := finding{what: "database"}
	var all, active []inbox.Inbox
	var readable, unknown []string
	s, err := a.open(ctx)
	if err == nil {
		defer s.close()
		stored.text = cfg.Database.Driver + " " + s.db.Where()
		if exposed := s.db.Exposed(); exposed != nil {
			readable = append(readable, "other users can read it: "+exposed.Error())
		}
		if err = s.db.Writable(ctx); err == nil {
			all, err = s.inboxes.Chosen(ctx, opts.chosen)
		}
		if err == nil {
			active, err = s.inboxes.Active(ctx)
		}
		if err == nil {
			unknown, err = s.unknownNames(ctx)
		}
	}
	if exitCode(err) == exitUsage {
		return nil, err
	}
	if errors.As(err, new(*db.MissingError)) && opts.chosen.Empty() && isNew(cfg) {
		a.notes("database", err.Error())
		return nil, nil
	}
	stored.err = err
	a.report(stored)
	a.notes("database", readable...)
	a.notes("configuration", unknown...)
	found := []finding{stored}
	if stored.err != nil {
		return found, nil
	}
	boxes := slices.DeleteFunc(slices.Clone(all), func(in inbox.Inbox) bool { return !in.Active })
	if len(boxes) == 0 {
		a.notes("inboxes", noneActive(len(all)))
	} else if err := s.inboxes.CheckKey(); err != nil {
		key := finding{what: "inboxes", err: err}
		a.report(key)
		found = append(found, key)
	} else {
		logins := s.checkInboxes(ctx, boxes, active)
		byAccount := map[string][]inbox.Inbox{}
		for _, in := range active {
			byAccount[in.Account()] = append(byAccount[in.Account()], in)
		}
		notes := func(in inbox.Inbox) []string {
			routed := cfg.Table.InboxNotes(cfg.After.Rule(), in.Address, in.Labels.Texts()...)
			return append(routed, s.shared(in, byAccount[in.Account()])...)
		}
		a.reportInboxes(opts.overview, notes, boxes, logins, len(all)-len(boxes))
		found = append(found, logins...)
	}
	if cfg.Bounces.Inbox != "" {
		bounces := s.checkBounces(ctx)
		a.report(bounces)
		found = append(found, bounces)
	}
	return found, nil
}

// isNew reports whether no inbox was ever stored, so that there need not be a database file: what
// stores the first one makes the key file. With bounces.inbox there has to be one.
func isNew(cfg *config.Config) bool {
	if cfg.Bounces.Inbox != "" {
		return false
	}
	_, err := os.Stat(cfg.Secrets.KeyFile)
	return errors.Is(err, fs.ErrNotExist)
}

// reportInboxes prints a line for each of the inboxes that are shown.
func (a *app) reportInboxes(
	o overview, notes func(inbox.Inbox) []string, boxes []inbox.Inbox, found []finding, disabled int,
) {
	failed := func(f finding) bool { return f.err != nil }
	n := countInboxes(found, failed, func(finding) bool { return true })
	n.disabled = disabled
	if o.summed(n) {
		summary := finding{what: "inboxes", note: n.trouble > 0, text: n.String()}
		if rest := o.rest(n); rest != "" {
			summary.text += "; " + rest
		}
		a.report(summary)
	}
	for i, in := range boxes {
		if o.partly(n.all()) && !failed(found[i]) {
			continue
		}
		a.report(found[i])
		a.notes("inbox "+in.Address, notes(in)...)
	}
}

// noneActive says what to do when none of the inboxes is active.
func noneActive(all int) string {
	if all == 0 {
		return "there is none; " + activate(all)
	}
	return "none is active; " + activate(all)
}

// activate says how to get an active inbox when all are disabled.
func activate(all int) string {
	if all == 0 {
		return "add one with `postrider inbox add ADDR`"
	}
	return "enable one with `postrider inbox enable ADDR`"
}

// checkInboxes logs in to several inboxes at once, but not to more than one server accepts, and not
// to the rest of a server that cannot be reached. active are all active inboxes, also those that
// are not checked.
func (s *services) checkInboxes(ctx context.Context, boxes, active []inbox.Inbox) []finding {
	found, dial := make([]finding, len(boxes)), pass.GivingUp(s.dialer().dial)
	s.turns().Each(boxes, func(i int, in inbox.Inbox) {
		f := finding{what: "inbox " + in.Address}
		f.text = fmt.Sprintf("logged in to %s and opened %s", in.Server(), strings.Join(in.Watched(), ", "))
		conn, err := dial(ctx, in)
		if f.err = err; err == nil {
			err := pass.OpenFolders(ctx, conn, in)
			if err == nil {
				err = s.checkAfter(ctx, conn, in, active)
			}
			if err != nil {
				f.err = errors.New(text.Brief(err)) // the line names the inbox
			}
			_ = conn.Close()
		}
		found[i] = f
	})
	return found
}
