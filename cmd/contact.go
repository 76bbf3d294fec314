package cmd

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"postrider/internal/contacts"
	"postrider/internal/text"
)

func (a *app) contactCommand() *cobra.Command {
	return group("contact", "Manage the directory of people (to_contacts)",
		a.contactAddCommand(), a.contactListCommand(), a.contactRemoveCommand(), a.contactImportCommand())
}

type contactOptions struct {
	email            string
	keywords         []string
	inactive, update bool
}

func (a *app) contactAddCommand() *cobra.Command {
	var opts contactOptions
	c := &cobra.Command{
		Use:   "add NAME [--email ADDR] [--keyword WORD]...",
		Short: "Add a contact, or change one",
		Long: `add adds a contact. Routes with to_contacts look for its name and its keywords
as whole words, and in Chinese, Japanese and Thai anywhere. Each needs at least
two letters or digits. The next run uses it.

A contact is identified by its email address, and without one by its name. With
--update an existing contact takes what is given here, and keeps the rest. To
remove the address or all keywords of a contact, remove it and add it again.
` + exitHelp,
		Example: `  postrider contact add "Ann Müller" --email ann@firm.example \
      --keyword "file 4711" --keyword ミュラー
  postrider contact add "Ann Müller" --email ann@firm.example --inactive \
      --update`,
		Args: takes(1, "the NAME of the contact"),
		RunE: func(c *cobra.Command, args []string) error {
			return a.contactAdd(c.Context(), opts.entry(c, args[0]), opts.update)
		},
	}
	c.Flags().StringVar(&opts.email, "email", "", "the contact's `ADDR`; without one, nothing can be sent to it")
	c.Flags().StringArrayVar(&opts.keywords, "keyword", nil, "also look for this `WORD`; may be repeated")
	c.Flags().BoolVar(&opts.inactive, "inactive", false,
		"routes do not look for it; --inactive=false --update makes it active again")
	c.Flags().BoolVar(&opts.update, "update", false, "change the existing contact")
	return c
}

// entry is what the flags say of the contact.
func (o *contactOptions) entry(c *cobra.Command, name string) contacts.Entry {
	e := contacts.Entry{Name: name, Email: o.email}
	if c.Flags().Changed("keyword") {
		e.Keywords = o.keywords
	}
	active := !o.inactive
	e.Active = given(c, "inactive", &active)
	return e
}

func (a *app) contactAdd(ctx context.Context, e contacts.Entry, update bool) error {
	return a.with(ctx, func(s *services) error {
		plan, err := s.people.Plan(ctx, []contacts.Entry{e})
		if err != nil {
			return fmt.Errorf("add contact %q: %w", e.Name, err)
		}
		if old := plan[0].Old; old != nil && !update {
			return usage(fmt.Errorf("contact %s exists already, with the ID %d; to change it: --update", old, old.ID))
		}
		done, err := s.people.Put(ctx, []contacts.Entry{e})
		if err != nil {
			return fmt.Errorf("add contact %q: %w", e.Name, err)
		}
		a.tell("%s.\n", added(done[0]))
		return nil
	})
}

// added is what became of one contact.
func added(c contacts.Change) string {
	who := text.Line(c.New.String())
	switch {
	case c.Old != nil && c.String() == "":
		return fmt.Sprintf("Contact %s already has these settings; nothing was changed", who)
	case c.Old != nil:
		return "Changed " + text.Line(strings.TrimPrefix(c.String(), "~ "))
	case c.New.Email == "":
		return fmt.Sprintf("Added %s. Nothing can be sent to a contact without an address; to give it one: "+
			"postrider contact add %s --email ADDR --update", who, text.Arg(c.New.Name))
	}
	return "Added " + who
}

func (a *app) contactListCommand() *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use:   "list [--json]",
		Short: "List the contacts",
		Long: `list shows all contacts.
` + exitHelp,
		Args: takesNone,
		RunE: func(c *cobra.Command, _ []string) error { return a.contactList(c.Context(), asJSON) },
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print one JSON object a line")
	return c
}

func (a *app) contactList(ctx context.Context, asJSON bool) error {
	return a.with(ctx, func(s *services) error {
		all, err := s.people.List(ctx)
		if err != nil {
			return err
		}
		g := a.table("id", "name", "email", "keywords", "active")
		for _, c := range all {
			if asJSON {
				a.printJSON(c.View())
				continue
			}
			g.Add(c.ID, c.Name, c.Email, strings.Join(c.Keywords, "; "), yesNo(c.Active))
		}
		if !asJSON {
			a.show(g, "The directory is empty; add people with `postrider contact add NAME --email ADDR`, "+
				"or `postrider contact import FILE.csv`.")
		}
		return nil
	})
}

func (a *app) contactRemoveCommand() *cobra.Command {
	var yes bool
	c := &cobra.Command{
		Use:   "remove {ID | ADDR | NAME}... [--yes]",
		Short: "Remove contacts; messages already decided still go to them",
		Long: `remove removes contacts. Messages that are decided already still go to them.
` + exitHelp,
		Args: takes(0, "an ID, ADDR or NAME"),
		RunE: func(c *cobra.Command, args []string) error { return a.contactRemove(c.Context(), args, yes) },
	}
	c.Flags().BoolVar(&yes, "yes", false, "do not ask")
	return c
}

func (a *app) contactRemove(ctx context.Context, args []string, yes bool) error {
	return a.with(ctx, func(s *services) error {
		var ids []int64
		var names []string
		for _, who := range args {
			c, err := s.people.Find(ctx, who)
			if err != nil {
				return fmt.Errorf("remove a contact: %w", err)
			}
			ids, names = append(ids, c.ID), append(names, text.Line(c.String()))
		}
		if err := a.confirm(yes, fmt.Sprintf("Remove %s?", strings.Join(names, ", "))); err != nil {
			return err
		}
		if err := s.people.Remove(ctx, ids...); err != nil {
			return err
		}
		a.tell("Removed %s.\n", strings.Join(names, ", "))
		return nil
	})
}

type importOptions struct{ yes, dryRun bool }

func (a *app) contactImportCommand() *cobra.Command {
	var opts importOptions
	c := &cobra.Command{
		Use:   "import {FILE.csv | -} [--dry-run] [--yes]",
		Short: "Add and change contacts by a CSV file; shows the changes first",
		Long: `import reads contacts from a CSV file, or from standard input, shows what it
would add (+) and change (~), and asks. Then it does everything in one
transaction, or nothing.

The first line names the columns, in any order: name, email, keywords (separated
by ; or , in quotes), active (yes or no). Only name is required; a missing
column, or an empty email or active, changes nothing. Empty keywords remove all
keywords of the contact. Separators are commas, semicolons or tabs; a first line
such as sep=; may name them. The text is UTF-8, or UTF-16 as Excel writes it.
import prints all errors of the file with their lines, and changes nothing then.

A line belongs to the contact with that email address. When the address is new,
it belongs to the contact of that name that has none yet. A line without an
address belongs to the contact of that name; of several, to the one without an
address. Contacts that the file does not name stay as they are.
` + exitHelp,
		Example: `  postrider contact import people.csv --dry-run
  postrider contact import people.csv --yes`,
		Args: takes(1, "one FILE.csv, or - for standard input"),
		RunE: func(c *cobra.Command, args []string) error { return a.contactImport(c.Context(), args[0], opts) },
	}
	c.Flags().BoolVar(&opts.dryRun, "dry-run", false, "only show the changes")
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
			a.print("%s%s", text.Effects(plan), text.EffectCounts(plan))
			if opts.dryRun || text.Effects(plan) == "" {
				return nil
			}
		}
		if err := a.confirm(opts.yes, "Make these changes?"); err != nil {
			return err
		}
		done, err := s.people.Put(ctx, entries)
		if err != nil {
			return notImported(err)
		}
		a.tell("Done: %s", text.EffectCounts(done))
		return nil
	})
}

func notImported(err error) error {
	return fmt.Errorf("import contacts: nothing was changed:\n%w", err)
}

func (a *app) readContacts(name string) ([]contacts.Entry, error) {
	in, done, err := a.input(name)
	if err != nil {
		return nil, usage(fmt.Errorf("import contacts: %w", err))
	}
	defer done()
	entries, err := contacts.ReadCSV(shownFile(name), in)
	if err != nil {
		return nil, usage(notImported(err))
	}
	return entries, nil
}
