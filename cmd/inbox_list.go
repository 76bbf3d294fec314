package cmd

import (
	"context"
	"strings"

	"github.com/spf13/cobra"

	"postrider/internal/inbox"
)

type inboxListOptions struct {
	chosen inbox.Selection
	overview
	json bool
}

func (a *app) inboxListCommand() *cobra.Command {
	var opts inboxListOptions
	c := &cobra.Command{
		Use:   "list [--inbox ADDR]... [--label L]... [--failing]",
		Short: "List the inboxes",
		Long: `list shows the inboxes. With more than ` + many + ` it shows a summary and those with
trouble: the last scan failed, or a login is needed. --all shows all.
` + exitHelp,
		Args: takesNone,
		RunE: func(c *cobra.Command, _ []string) error { return a.inboxList(c.Context(), opts) },
	}
	a.chooseInboxes(c, &opts.chosen)
	opts.register(c)
	c.Flags().BoolVar(&opts.json, "json", false, "print one JSON object a line, for each inbox")
	return c
}

const noInbox = "There is no inbox; add one with `postrider inbox add ADDR`."

func (a *app) inboxList(ctx context.Context, opts inboxListOptions) error {
	if err := opts.check(); err != nil {
		return err
	}
	return a.with(ctx, func(s *services) error {
		boxes, err := s.inboxes.Chosen(ctx, opts.chosen)
		if err != nil {
			return err
		}
		logins, err := s.logins(ctx)
		if err != nil {
			return err
		}
		troubled := func(in inbox.Inbox) bool { return in.Active && in.LastError+logins[in.ID] != "" }
		if opts.json {
			for _, in := range toShow(opts.ofJSON(), boxes, troubled) {
				a.printJSON(s.inboxes.View(in, logins[in.ID]))
			}
			return nil
		}
		n := countInboxes(boxes, troubled, func(in inbox.Inbox) bool { return in.Active })
		a.overview(opts.overview, n, func() { a.inboxTable(toShow(opts.overview, boxes, troubled), logins) })
		return nil
	})
}

func (a *app) inboxTable(boxes []inbox.Inbox, logins map[int64]string) {
	g := a.table("inbox", "active", "server", "folders", "last scan", "last error", "labels")
	for _, in := range boxes {
		lastError := scanError(in.Address, in.LastError, logins[in.ID])
		if g.Width > 0 {
			lastError = "" // in whole below the table
		}
		g.Add(in.Address, yesNo(in.Active), in.Server(), strings.Join(in.Watched(), ", "),
			a.when(in.LastScannedAt), lastError, strings.Join(in.Labels.Texts(), ", "))
	}
	a.show(g, noInbox)
	for _, in := range boxes {
		if g.Width > 0 {
			a.lastError(in.Address, scanError(in.Address, in.LastError, logins[in.ID]))
		}
	}
}
