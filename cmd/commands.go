package cmd

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/user"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"postrider/internal/config"
	"postrider/internal/db"
	"postrider/internal/text"
)

func (a *app) commands() []*cobra.Command {
	return []*cobra.Command{
		a.initCommand(),
		a.runCommand(),
		a.watchCommand(),
		a.migrateCommand(),
		a.inboxCommand(),
		a.taskCommand(),
		a.contactCommand(),
		a.recipientCommand(),
		a.eventCommand(),
		a.routeCommand(),
		a.statusCommand(),
		a.metricsCommand(),
		a.auditCommand(),
		a.serveCommand(),
		a.smtpCommand(), a.srsCommand(),
		a.checkCommand(),
		a.demoCommand(),
		a.versionCommand(),
	}
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
	hint := "see `" + c.CommandPath() + " --help`"
	if near := c.SuggestionsFor(args[0]); len(near) > 0 {
		hint = "did you mean " + strings.Join(near, " or ") + "?"
	}
	return usage(fmt.Errorf("unknown command %q for `%s`; %s", args[0], c.CommandPath(), hint))
}

// takesNone refuses any argument.
func takesNone(c *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	return usage(fmt.Errorf("`%s` takes no arguments, but got %q; see `%[1]s --help`", c.CommandPath(), args[0]))
}

// takes wants arguments: at least one, and at most that many, or any number if most is 0.
func takes(most int, what string) cobra.PositionalArgs {
	return func(c *cobra.Command, args []string) error {
		switch {
		case len(args) == 0:
			return usage(fmt.Errorf("`%s` needs %s; see `%[1]s --help`", c.CommandPath(), what))
		case most > 0 && len(args) > most:
			return usage(fmt.Errorf("`%s` takes only %s, but also got %q; see `%[1]s --help`",
				c.CommandPath(), what, args[most]))
		}
		return nil
	}
}

// given is the value of a flag, nil when it was not given.
func given[T any](c *cobra.Command, flag string, value *T) *T {
	if !c.Flags().Changed(flag) {
		return nil
	}
	return value
}

// parseAge reads a duration that may be in days.
func parseAge(flag, s string) (time.Duration, error) {
	d, err := config.Duration(s)
	if err != nil || d < 0 {
		return 0, usage(fmt.Errorf("%s is %q; write a number with d or h, such as 90d or 36h; at most 65535d", flag, s))
	}
	return d, nil
}

// parseSince reads since when: a duration before now, or a day, which begins at midnight in the
// zone of now. It is more than 0.
func parseSince(s string, now time.Time) (time.Duration, error) {
	d, err := config.Duration(s)
	if day, notADay := time.Parse(time.DateOnly, s); notADay == nil {
		d, err = now.Sub(text.Midnight(day, now.Location())), nil
	}
	if err != nil || d <= 0 {
		return 0, usage(fmt.Errorf("--since is %q; write a number with d or h, such as 90d or 36h (at most 65535d), "+
			"or a day that has begun, YYYY-MM-DD", s))
	}
	return d, nil
}

// with runs f with the configuration read and the database open.
func (a *app) with(ctx context.Context, f func(*services) error) error {
	return a.withBy(ctx, db.Open, f)
}

func (a *app) withBy(ctx context.Context, open opener, f func(*services) error) error {
	s, err := a.openBy(ctx, open)
	if err != nil {
		return err
	}
	defer s.close()
	return f(s)
}

// withNew is like with, but creates an SQLite file that is missing: for commands that may be the
// first.
func (a *app) withNew(ctx context.Context, f func(*services) error) error {
	return a.withBy(ctx, openNew, f)
}

func openNew(ctx context.Context, where db.Config, opts ...db.Option) (*db.DB, error) {
	where.Existing = false
	return db.Open(ctx, where, opts...)
}

// withEmpty is like withNew, but the new SQLite file is a temporary one.
func (a *app) withEmpty(ctx context.Context, f func(*services) error) error {
	dir := ""
	defer func() { _ = os.RemoveAll(dir) }()
	return a.withBy(ctx, func(ctx context.Context, where db.Config, opts ...db.Option) (*db.DB, error) {
		d, err := db.Open(ctx, where, opts...)
		if gone, ok := errors.AsType[*db.MissingError](err); !ok || gone.Link { // a disk is not mounted
			return d, err
		}
		if dir, err = os.MkdirTemp("", "postrider-"); err != nil {
			return nil, err
		}
		where.Path = filepath.Join(dir, "empty.db")
		return openNew(ctx, where, opts...)
	}, f)
}

// outcome is the exit code of a command that failed for some of all.
func outcome(failed, all int) error {
	switch failed {
	case 0:
		return nil
	case all:
		return &exitError{code: exitFailed}
	}
	return errRetry
}

// who is the operator at this command, for the audit trail. Behind sudo that is root, and the user
// that sudo names.
func (a *app) who(host string) string {
	name := fmt.Sprintf("uid %d", os.Getuid()) // of a directory service that a static binary cannot ask
	if u, err := user.Current(); err == nil {
		name = u.Username
	}
	if by, ok := a.env("SUDO_USER"); ok && by != "" && by != name {
		return fmt.Sprintf("%s@%s (%s by sudo)", name, host, by)
	}
	return name + "@" + host
}
