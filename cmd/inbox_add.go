package cmd

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"postrider/internal/inbox"
)

func (a *app) inboxAddCommand() *cobra.Command {
	var f inboxFlags
	c := &cobra.Command{
		Use:   "add ADDR --host HOST",
		Short: "Begin to monitor an inbox",
		Long: `add begins to monitor an inbox. It does not connect; ` + "`postrider inbox check ADDR`" + ` does.

Without a password flag the password is asked for on a terminal. It is stored encrypted with the
key in secrets.key_file, which is made on first use; with --password-from only the place is
stored.
` + exitHelp,
		Example: `  postrider inbox add desk@firm.example --host imap.firm.example
  postrider inbox add desk@firm.example --host imap.firm.example --folder INBOX --folder Junk --start since:2026-01-31
  pass show desk | postrider inbox add desk@firm.example --host imap.firm.example --password-stdin`,
		Args: takes(1, 1, "the ADDR of the inbox"),
		RunE: func(c *cobra.Command, args []string) error {
			if err := f.check(c); err != nil {
				return err
			}
			return a.inboxAdd(c.Context(), args[0], f)
		},
	}
	f.register(c)
	return c
}

func (a *app) inboxAdd(ctx context.Context, address string, f inboxFlags) error {
	if _, err := inbox.ParseAddress(address); err != nil {
		return usage(err)
	}
	if f.host == "" {
		return usage(fmt.Errorf("inbox %s needs its IMAP server: --host HOST", address))
	}
	return a.with(ctx, func(s *services) error {
		var unknown *inbox.NotFoundError
		switch _, err := s.inboxes.Get(ctx, address); {
		case err == nil:
			return usage(&inbox.ExistsError{Address: address}) // before anybody is asked for a password
		case !errors.As(err, &unknown):
			return err
		}
		password, err := a.newPassword(&f.password, address)
		if err != nil {
			return err
		}
		in, err := s.inboxes.Add(ctx, f.inbox(address), password)
		if err != nil {
			return err
		}
		return a.tell("Added %s. See whether it works: postrider inbox check %s\n", in.Address, in.Address)
	})
}

// newPassword is the password of an inbox that has none yet.
func (a *app) newPassword(f *passwordFlags, address string) (string, error) {
	password, err := f.get(a, address)
	if err != nil || password != "" {
		return password, err
	}
	if a.terminal() == nil {
		return "", usage(fmt.Errorf("there is no password for inbox %s, and nobody to ask; give it with %s", address, passwordWays))
	}
	return (&passwordFlags{stdin: true}).get(a, address)
}

// tell prints what was done, on a terminal only.
func (a *app) tell(format string, args ...any) error {
	if !isTerminal(a.out) {
		return nil
	}
	_, err := fmt.Fprintf(a.out, format, args...)
	return err
}
