package cmd

import (
	"context"
	"fmt"
	"strings"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/spf13/cobra"

	"postrider/internal/contacts"
)

func (a *app) contactCommand() *cobra.Command {
	return group("contact", "Keep the directory: the people whom routes look up in messages (to_contacts)",
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
		Use:   "add NAME [--email ADDR] [--keyword WORD]... [--inactive] [--update]",
		Short: "Add a contact, or change one",
		Long: `add adds a contact. Routes with to_contacts look for its name and its keywords as whole words,
in Chinese, Japanese and Thai anywhere; each has at least two letters or digits. The next run
knows it.

A contact goes by its email address, and one without an address by its name. With --update the
one that is there takes what is given here, and keeps the rest.
` + exitHelp,
		Example: `  postrider contact add "Ann Müller" --email ann@firm.example --keyword "file 4711" --keyword ミュラー
  postrider contact add "Ann Müller" --email ann@firm.example --inactive --update`,
		Args: takes(1, 1, "the NAME of the contact"),
		RunE: func(c *cobra.Command, args []string) error {
			return a.contactAdd(c.Context(), opts.entry(c, args[0]), opts.update)
		},
	}
	c.Flags().StringVar(&opts.email, "email", "", "its `ADDR`; without one it is known, and cannot be written to")
	c.Flags().StringArrayVar(&opts.keywords, "keyword", nil, "a `WORD`, or several, to look for beside the name, may be repeated")
	c.Flags().BoolVar(&opts.inactive, "inactive", false, "routes do not look for it; --inactive=false --update makes it active again")
	c.Flags().BoolVar(&opts.update, "update", false, "change the contact that is there")
	return c
}

// entry is what was said of the contact.
func (o *contactOptions) entry(c *cobra.Command, name string) contacts.Entry {
	e := contacts.Entry{Name: name}
	if c.Flags().Changed("email") {
		e.Email = &o.email
	}
	if c.Flags().Changed("keyword") {
		e.Keywords = o.keywords
	}
	if c.Flags().Changed("inactive") {
		active := !o.inactive
		e.Active = &active
	}
	return e
}

func (a *app) contactAdd(ctx context.Context, e contacts.Entry, update bool) error {
	return a.with(ctx, func(s *services) error {
		plan, err := s.people.Plan(ctx, []contacts.Entry{e})
		if err != nil {
			return fmt.Errorf("add contact %q: %w", e.Name, err)
		}
		if old := plan[0].Old; old != nil && !update {
			return usage(fmt.Errorf("there is a contact %s already, with the ID %d; say --update to change it", old, old.ID))
		}
		done, err := s.people.Put(ctx, []contacts.Entry{e})
		if err != nil {
			return fmt.Errorf("add contact %q: %w", e.Name, err)
		}
		return a.tell("%s", lines(done))
	})
}

// contactView is a contact as JSON.
type contactView struct {
	ID       int64    `json:"id"`
	Name     string   `json:"name"`
	Email    string   `json:"email"`
	Keywords []string `json:"keywords"`
	Active   bool     `json:"active"`
}

func (a *app) contactListCommand() *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use:   "list [--json]",
		Short: "List the contacts",
		Args:  takesNone,
		RunE:  func(c *cobra.Command, _ []string) error { return a.contactList(c.Context(), asJSON) },
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
		t := newTable(a.out, "id", "name", "email", "keywords", "active")
		for _, c := range all {
			if asJSON {
				if err := a.printJSON(contactView{c.ID, c.Name, c.Email, append([]string{}, c.Keywords...), c.Active}); err != nil {
					return err
				}
				continue
			}
			t.AppendRow(table.Row{c.ID, printable(c.Name), printable(c.Email), printable(strings.Join(c.Keywords, "; ")), yesNo(c.Active)})
		}
		if asJSON {
			return nil
		}
		return a.show(t, "The directory is empty; add people with `postrider contact add NAME --email ADDR`, or `postrider contact import FILE.csv`.")
	})
}

func (a *app) contactRemoveCommand() *cobra.Command {
	var yes bool
	c := &cobra.Command{
		Use:   "remove {ID | ADDR | NAME}... [--yes]",
		Short: "Remove contacts; what was decided before still goes out to them",
		Args:  takes(1, 0, "an ID, ADDR or NAME"),
		RunE:  func(c *cobra.Command, args []string) error { return a.contactRemove(c.Context(), args, yes) },
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
			ids, names = append(ids, c.ID), append(names, printable(c.String()))
		}
		if err := a.confirm(yes, fmt.Sprintf("Remove %s?", strings.Join(names, ", "))); err != nil {
			return err
		}
		return s.people.Remove(ctx, ids...)
	})
}
