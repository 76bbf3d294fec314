package cmd

import (
	"github.com/spf13/cobra"

	"postrider/internal/inbox"
)

// inboxChoice are the flags that choose inboxes.
type inboxChoice struct{ inbox.Selection }

func (f *inboxChoice) register(a *app, c *cobra.Command) {
	c.Flags().StringArrayVar(&f.Inboxes, "inbox", nil, "only the inbox `ADDR`, or those that a glob such as '*@acme.example' matches; may be repeated")
	complete(c, "inbox", a.addresses)
	c.Flags().StringArrayVar(&f.Labels, "label", nil, "only inboxes with the `LABEL`: tenant=acme, or tenant for any value; may be repeated, all have to hold")
	complete(c, "label", a.labels)
}
