package cmd

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"postrider/internal/address"
	"postrider/internal/arrivals"
)

func (a *app) recipientCommand() *cobra.Command {
	return group("recipient", "Show and resume recipients whose mail bounced too often",
		a.recipientListCommand(), a.recipientResumeCommand())
}

func (a *app) recipientListCommand() *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use:   "list [--json]",
		Short: "List the recipients whose mail bounced too often",
		Long: `list shows the recipients whose mail bounced at least bounces.suspend_after
times within bounces.suspend_within, and whether they are suspended. Nothing is
sent to a suspended recipient: messages for it end dead. It stays in the list
until recipient resume, and as resumed for bounces.suspend_within after that.
` + exitHelp,
		Args: takesNone,
		RunE: func(c *cobra.Command, _ []string) error { return a.recipientList(c.Context(), asJSON) },
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print one JSON object a line")
	return c
}

// notedView is a line of recipient list --json.
type notedView struct {
	Recipient string     `json:"recipient"`
	Since     time.Time  `json:"since"`
	Bounces   int        `json:"bounces"`
	Last      string     `json:"last_bounce"`
	Suspended bool       `json:"suspended"`
	Resumed   *time.Time `json:"resumed_at"`
}

func (a *app) recipientList(ctx context.Context, asJSON bool) error {
	return a.with(ctx, func(s *services) error {
		all, _, err := arrivals.NewStore(s.db).Noted(ctx)
		if err != nil {
			return err
		}
		g := a.table("recipient", "since", "bounces", "suspended", "last bounce")
		for _, n := range all {
			n.Suspended = n.Suspended && s.cfg.Bounces.Suspend // else mail is sent to it
			if asJSON {
				a.printJSON(notedView{n.Recipient, n.Since, n.Bounces, n.Why, n.Suspended, n.Resumed})
				continue
			}
			suspended := yesNo(n.Suspended)
			if n.Resumed != nil {
				suspended = "resumed " + n.Resumed.Format(time.DateOnly)
			}
			g.Add(n.Recipient, n.Since.Format(time.DateOnly), n.Bounces, suspended, g.Short(n.Why, 80))
		}
		if !asJSON {
			a.show(g, "No recipient has bounced too often.")
		}
		return nil
	})
}

func (a *app) recipientResumeCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "resume ADDR...",
		Short: "Send to suspended recipients again",
		Long: `resume ends the suspension of recipients (bounces.suspend): mail is sent to them
again, and earlier bounces no longer count. Messages that ended dead in the
meantime stay dead; postrider task retry ID sends them.
` + exitHelp,
		Args: takes(0, "one or more addresses"),
		RunE: func(c *cobra.Command, args []string) error { return a.recipientResume(c.Context(), args) },
	}
}

func (a *app) recipientResume(ctx context.Context, addresses []string) error {
	for _, addr := range addresses {
		if err := address.Check(addr); err != nil {
			return usage(err)
		}
	}
	return a.with(ctx, func(s *services) error {
		done := "Bounces of %s before now no longer count.\n"
		if s.cfg.Bounces.Suspend {
			done = "Mail is sent to %s again.\n"
		}
		var unknown []error
		for _, addr := range addresses {
			was, err := arrivals.NewStore(s.db).Resume(ctx, addr)
			if err != nil {
				return err
			}
			if !was {
				unknown = append(unknown,
					fmt.Errorf("%s is not suspended; `postrider recipient list` shows who is", addr))
				continue
			}
			s.log.Info("a recipient was resumed", "recipient", addr)
			a.tell(done, addr)
		}
		return errors.Join(unknown...)
	})
}
