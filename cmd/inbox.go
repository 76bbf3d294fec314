package cmd

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"postrider/internal/inbox"
)

func (a *app) inboxCommand() *cobra.Command {
	return group("inbox", "Add, change and check the monitored inboxes",
		a.inboxAddCommand(), a.inboxListCommand(), a.inboxShowCommand(), a.inboxSetCommand(),
		a.inboxEnableCommand(), a.inboxDisableCommand(), a.inboxRemoveCommand(),
		a.inboxCheckCommand(), a.inboxRewindCommand())
}

// group is a command that only holds others.
func group(name, short string, sub ...*cobra.Command) *cobra.Command {
	c := &cobra.Command{
		Use:                        name + " COMMAND",
		Short:                      short,
		Long:                       short + ".\n" + exitHelp,
		Args:                       subcommand,
		RunE:                       func(c *cobra.Command, _ []string) error { return c.Help() },
		SuggestionsMinimumDistance: 2,
	}
	c.AddCommand(sub...)
	return c
}

// subcommand refuses the arguments of a command that only holds others.
func subcommand(c *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	mend := "see `" + c.CommandPath() + " --help`"
	if near := c.SuggestionsFor(args[0]); len(near) > 0 {
		mend = "did you mean " + strings.Join(near, " or ") + "?"
	}
	return usage(fmt.Errorf("unknown command %q for `%s`; %s", args[0], c.CommandPath(), mend))
}

// takesNone refuses any argument.
func takesNone(c *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	return usage(fmt.Errorf("`%s` takes no arguments, %q is too much; see `%[1]s --help`", c.CommandPath(), args[0]))
}

// takes checks the number of arguments; most is 0 for any number.
func takes(least, most int, what string) cobra.PositionalArgs {
	return func(c *cobra.Command, args []string) error {
		switch {
		case len(args) < least:
			return usage(fmt.Errorf("`%s` needs %s; see `%[1]s --help`", c.CommandPath(), what))
		case most > 0 && len(args) > most:
			return usage(fmt.Errorf("`%s` takes %s, %q is too much; see `%[1]s --help`", c.CommandPath(), what, args[most]))
		}
		return nil
	}
}

// with runs f with the configuration read and the database open.
func (a *app) with(ctx context.Context, f func(*services) error) error {
	s, err := a.open(ctx)
	if err != nil {
		return err
	}
	defer s.close()
	return f(s)
}

// all looks several inboxes up before anything is done to the first.
func (s *services) all(ctx context.Context, addresses []string) ([]inbox.Inbox, error) {
	var boxes []inbox.Inbox
	for _, address := range addresses {
		in, err := s.inboxes.Get(ctx, address)
		if err != nil {
			return nil, err
		}
		boxes = append(boxes, in)
	}
	return boxes, nil
}

func oneLine(err error) string { return strings.ReplaceAll(err.Error(), "\n", "; ") }

// addresses completes the addresses of inboxes. It answers at once or not at all.
func (a *app) addresses(c *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
	ctx, cancel := context.WithTimeout(c.Context(), time.Second)
	defer cancel()
	var out []string
	err := a.with(ctx, func(s *services) error {
		boxes, err := s.inboxes.List(ctx, false)
		for _, in := range boxes {
			out = append(out, cobra.CompletionWithDesc(in.Address, cmp.Or(in.Description, in.Host)))
		}
		return err
	})
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	return out, cobra.ShellCompDirectiveNoFileComp
}
