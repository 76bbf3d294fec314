package cmd

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"postrider/internal/inbox"
)

// inboxChoice are the flags that choose inboxes.
type inboxChoice struct{ inbox.Selection }

func (f *inboxChoice) register(a *app, c *cobra.Command) {
	c.Flags().StringArrayVar(&f.Inboxes, "inbox", nil, "only the inbox `ADDR`, or those that a glob such as '*@acme.example' matches; may be repeated")
	complete(c, "inbox", a.addresses)
	f.registerLabel(a, c)
}

func (f *inboxChoice) registerLabel(a *app, c *cobra.Command) {
	c.Flags().StringArrayVar(&f.Labels, "label", nil, "only inboxes with the `LABEL`: tenant=acme, or tenant for any value; may be repeated, all have to hold")
	complete(c, "label", a.labels)
}

// labels completes the labels that inboxes have. It answers within a second or not at all.
func (a *app) labels(c *cobra.Command, _ []string, _ string) (out []string, _ cobra.ShellCompDirective) {
	ctx, cancel := context.WithTimeout(c.Context(), time.Second)
	defer cancel()
	err := a.with(ctx, func(s *services) error {
		boxes, err := s.inboxes.List(ctx, false)
		out = inbox.LabelsOf(boxes)
		return err
	})
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	return out, cobra.ShellCompDirectiveNoFileComp
}
