package cmd

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"postrider/internal/contacts"
)

type importOptions struct{ yes, dryRun bool }

func (a *app) contactImportCommand() *cobra.Command {
	var opts importOptions
	c := &cobra.Command{
		Use:   "import {FILE.csv | -} [--dry-run] [--yes]",
		Short: "Add and change contacts by a CSV file; first shows what would change",
		Long: `import reads contacts from a CSV file, or from standard input, shows what would be added (+) and
changed (~), and asks. Then all of it is done in one transaction, or nothing.

The first line names the columns, in any order: name, email, keywords (separated by ; or , in
quotes), active (yes or no). Only name has to be there; what a missing column would say stays as
it is. Separators are commas, semicolons or tabs; a line on top such as sep=; may say so. The
text is UTF-8, or UTF-16 as Excel writes it. Whatever is wrong with the file is told at once, by
line, and nothing is changed then.

A line is about the contact with that email address; else, when the address is new, about the
contact of that name that has none yet; and without an address about the contact of that name,
of several the one that has none. Contacts that the file does not name stay as they are.
` + exitHelp,
		Example: `  postrider contact import people.csv --dry-run
  postrider contact import people.csv --yes`,
		Args: takes(1, 1, "one FILE.csv, or - for standard input"),
		RunE: func(c *cobra.Command, args []string) error { return a.contactImport(c.Context(), args[0], opts) },
	}
	c.Flags().BoolVar(&opts.dryRun, "dry-run", false, "only show what would change")
	c.Flags().BoolVar(&opts.yes, "yes", false, "do not ask")
	return c
}

func (a *app) contactImport(ctx context.Context, name string, opts importOptions) error {
	entries, err := a.readContacts(name)
	if err != nil {
		return err
	}
	return a.with(ctx, func(s *services) error {
		plan, err := s.people.Plan(ctx, entries)
		if err != nil {
			return notImported(err)
		}
		if opts.dryRun || !opts.yes {
			if _, err := fmt.Fprint(a.out, lines(plan)+summary(plan)); err != nil || opts.dryRun || lines(plan) == "" {
				return err
			}
		}
		if err := a.confirm(opts.yes, "Do that?"); err != nil {
			return err
		}
		done, err := s.people.Put(ctx, entries)
		if err != nil {
			return notImported(err)
		}
		return a.tell("Done: %s", summary(done))
	})
}

func notImported(err error) error {
	return fmt.Errorf("import contacts: nothing was changed:\n%w", err)
}

func (a *app) readContacts(name string) ([]contacts.Entry, error) {
	in := a.in
	if name != "-" {
		f, err := os.Open(name)
		if err != nil {
			return nil, usage(fmt.Errorf("import contacts: %w", err))
		}
		defer func() { _ = f.Close() }()
		in = f
	}
	entries, err := contacts.ReadCSV(name, io.Reader(in))
	if err != nil {
		return nil, usage(notImported(err))
	}
	return entries, nil
}

// lines are the changes, one a line.
func lines(changes []contacts.Change) string {
	var out strings.Builder
	for _, c := range changes {
		if s := c.String(); s != "" {
			out.WriteString(printable(s) + "\n")
		}
	}
	return out.String()
}

func summary(changes []contacts.Change) string {
	var added, changed int
	for _, c := range changes {
		switch {
		case c.Old == nil:
			added++
		case c.String() != "":
			changed++
		}
	}
	return fmt.Sprintf("%d new, %d changed, %d unchanged.\n", added, changed, len(changes)-added-changed)
}
