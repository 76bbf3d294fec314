package cmd

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"postrider/internal/inbox"
	"postrider/internal/pass"
	"postrider/internal/tasks"
)

func (a *app) inboxCheckCommand() *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use:   "check ADDR... [--json]",
		Short: "Log in and show folders and where the cursor would start",
		Long: `check logs in and shows what the server offers, its folders, and for each
watched folder where the cursor is or would start, and how many messages are
above it. It changes nothing. The exit code is 75 when some of the inboxes fail,
and 1 when all do.
` + exitHelp,
		Args:              takes(0, "the ADDR of an inbox, or several"),
		ValidArgsFunction: a.addresses,
		RunE: func(c *cobra.Command, args []string) error {
			return a.inboxCheck(c.Context(), args, asJSON)
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print one JSON object a line")
	return c
}

func (a *app) inboxCheck(ctx context.Context, addresses []string, asJSON bool) error {
	return a.with(ctx, func(s *services) error {
		boxes, err := s.inboxes.Named(ctx, addresses)
		if err != nil {
			return err
		}
		checks, dial := make([]pass.InboxCheck, len(boxes)), pass.GivingUp(s.dialer().dial)
		s.turns().Each(boxes, func(i int, in inbox.Inbox) { checks[i] = pass.Look(ctx, dial, in) })
		failed := 0
		for _, check := range checks {
			if check.Failed() {
				failed++
			}
			if asJSON {
				a.printJSON(check)
			} else {
				a.showCheck(check)
			}
		}
		return outcome(failed, len(boxes))
	})
}

type rewindOptions struct {
	inbox.Back
	toStart     bool
	dryRun, yes bool
}

func (a *app) inboxRewindCommand() *cobra.Command {
	var opts rewindOptions
	c := &cobra.Command{
		Use:   "rewind ADDR --to-uid N | --to-start | --since DAY",
		Short: "Move the cursor of a folder back",
		Long: `rewind moves a cursor back: the next run registers the messages above it that
were never registered, as if they were new. Registered messages stay registered
and are not forwarded again. rewind shows the number of messages and asks.
` + exitHelp,
		Args:              takes(1, "the ADDR of one inbox"),
		ValidArgsFunction: a.addresses,
		RunE: func(c *cobra.Command, args []string) error {
			if err := opts.check(c); err != nil {
				return err
			}
			return a.inboxRewind(c.Context(), args[0], opts)
		},
	}
	c.Flags().StringVar(&opts.Folder, "folder", "", "only the folder `NAME` (default all that are watched)")
	complete(c, "folder", a.completeFolders)
	c.Flags().Uint32Var(&opts.UID, "to-uid", 0, "messages above UID `N`")
	c.Flags().BoolVar(&opts.toStart, "to-start", false, "all messages in the folder")
	c.Flags().StringVar(&opts.Since, "since", "",
		"messages from the first one received on that `DAY`, YYYY-MM-DD, or later")
	c.Flags().BoolVar(&opts.dryRun, "dry-run", false, "only show the number of messages")
	c.Flags().BoolVar(&opts.yes, "yes", false, "do not ask")
	return c
}

func (o *rewindOptions) check(c *cobra.Command) error {
	ways := 0
	for _, flag := range []string{"to-uid", "to-start", "since"} {
		if c.Flags().Changed(flag) {
			ways++
		}
	}
	if ways != 1 {
		return usage(errors.New("say how far back: one of --to-uid N, --to-start or --since YYYY-MM-DD"))
	}
	if c.Flags().Changed("since") {
		if _, err := time.Parse(time.DateOnly, o.Since); err != nil {
			return usage(fmt.Errorf("--since is %q; write the day as YYYY-MM-DD", o.Since))
		}
	}
	return nil
}

func (a *app) inboxRewind(ctx context.Context, address string, opts rewindOptions) error {
	return a.with(ctx, func(s *services) error {
		in, err := s.inboxes.Get(ctx, address)
		if err != nil {
			return err
		}
		if _, err := opts.Folders(in); err != nil { // before it connects
			return err
		}
		conn, err := s.connect(ctx, in)
		if err != nil {
			return err
		}
		plans, err := pass.PlanRewind(ctx, conn, s.queue, in, opts.Back)
		_ = conn.Close() // it only looked
		if err != nil {
			return err
		}
		moves := a.showRewind(in, plans, opts.dryRun || !opts.yes)
		if opts.dryRun || len(moves) == 0 {
			return nil
		}
		if err := a.confirm(opts.yes, fmt.Sprintf("Rewind inbox %s?", in.Address)); err != nil {
			return err
		}
		who := tasks.By{Who: a.who(s.host())}
		return s.underLease(ctx, in, func(by inbox.Scan) error {
			for _, p := range moves {
				if err := s.inboxes.Rewind(ctx, by, p.Folder, p.To, who.Who, who.Detail()); err != nil {
					return err
				}
				a.rewound(in, p)
			}
			return nil
		})
	})
}
