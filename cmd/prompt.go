package cmd

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"postrider/internal/secret"
	"postrider/internal/terminal"
)

// passwordFlags say where the password of an inbox comes from. None takes the password itself:
// other users see the arguments of a command.
type passwordFlags struct {
	stdin bool
	file  string
	from  string
	oauth string
}

const passwordWays = "--password-stdin, --password-file FILE, " +
	"--password-from env:NAME, file:PATH or command:PROGRAM, or --oauth NAME"

func (f *passwordFlags) register(c *cobra.Command) {
	flags := c.Flags()
	flags.BoolVar(&f.stdin, "password-stdin", false,
		"read the password from standard input, without echo on a terminal; it is stored encrypted")
	flags.StringVar(&f.file, "password-file", "", "read the password from this `FILE` now; it is stored encrypted")
	flags.StringVar(&f.oauth, "oauth", "",
		"log in with OAuth2 in place of a password, with the application `NAME` of the configuration")
	flags.StringVar(&f.from, "password-from", "",
		"store only the place of the password, and ask there at every login: "+
			"`env:NAME`, file:PATH, or \"command:PROGRAM ARGUMENT...\"")
}

// get is the password to store, or its place; empty without any of the flags.
func (f *passwordFlags) get(a *app, address string) (string, error) {
	var password string
	var err error
	switch {
	case f.oauth != "" && (f.stdin || f.file != "" || f.from != ""):
		return "", usage(errors.New("with --oauth there is no password; leave the other flag out"))
	case f.oauth != "":
		return secret.OAuth + f.oauth, nil
	case f.stdin && f.file != "" || f.stdin && f.from != "" || f.file != "" && f.from != "":
		return "", usage(errors.New("the password can come from one place only; use one of " + passwordWays))
	case f.from != "":
		return reference("--password-from", f.from)
	case f.file != "":
		if password, err = secret.FromPath(f.file); err != nil {
			return "", usage(fmt.Errorf("--password-file: %w", err))
		}
	case f.stdin:
		password, err = a.readPassword(address)
	default:
		return "", nil
	}
	if err == nil && password == "" {
		err = usage(errors.New("the password is empty; nothing was changed"))
	}
	if err == nil && secret.IsRef(password) {
		err = usage(errors.New("the password begins with env:, file:, command: or oauth:, " +
			"which is the place of a password; use --password-from or --oauth for that"))
	}
	return password, err
}

// reference checks what --password-from, or another flag, says. What it says may be the password
// itself, so no error shows it.
func reference(flag, from string) (string, error) {
	from = strings.TrimSpace(from)
	if path, ok := strings.CutPrefix(from, "file:"); ok && path != "" {
		abs, err := filepath.Abs(path) // cron runs in another directory
		return "file:" + abs, err
	}
	if name, ok := strings.CutPrefix(from, "env:"); ok && name != "" {
		return from, nil
	}
	if secret.IsCommand(from) {
		if err := secret.CheckCommand(from); err != nil {
			return "", usage(fmt.Errorf("%s: %w", flag, err))
		}
		return from, nil
	}
	return "", usage(fmt.Errorf("%s takes env:NAME, file:PATH or command:PROGRAM; "+
		"a password itself goes through %s-stdin",
		flag, strings.TrimSuffix(flag, "-from")))
}

// newPassword is the password of an inbox that has none yet.
func (a *app) newPassword(f *passwordFlags, address string) (string, error) {
	password, err := f.get(a, address)
	if err != nil || password != "" {
		return password, err
	}
	if a.terminal() == nil {
		return "", usage(fmt.Errorf("there is no password for inbox %s, and no terminal to ask on; give it with %s",
			address, passwordWays))
	}
	return (&passwordFlags{stdin: true}).get(a, address)
}

// terminal is standard input when that is a terminal, else nil.
func (a *app) terminal() *os.File {
	if terminal.Is(a.in) {
		return a.in.(*os.File)
	}
	return nil
}

// readPassword reads all of standard input but for the line end, or asks on a terminal.
func (a *app) readPassword(address string) (string, error) {
	if tty := a.terminal(); tty != nil {
		return a.askPassword(tty, address)
	}
	const limit = 64 << 10 // far above any password
	all, err := io.ReadAll(io.LimitReader(a.in, limit+1))
	if err != nil {
		return "", fmt.Errorf("read the password from standard input: %w", err)
	}
	if len(all) > limit {
		return "", usage(fmt.Errorf("standard input is longer than %d KiB, which no password is", limit>>10))
	}
	password, err := secret.FromText(string(all))
	if err == nil {
		err = secret.OneLine(password)
	}
	if err != nil {
		return "", usage(fmt.Errorf("the password on standard input %w", err))
	}
	return password, nil
}

func (a *app) askPassword(tty *os.File, address string) (string, error) {
	password, err := terminal.Password(tty, a.err, fmt.Sprintf("Password of %s: ", address))
	if errors.Is(err, terminal.ErrNoAnswer) {
		return "", usage(errors.New("no password was given; nothing was changed"))
	}
	return password, err
}

// confirm asks on a terminal; elsewhere only --yes agrees. It does not ask about what could not be
// printed before.
func (a *app) confirm(yes bool, question string) error {
	switch {
	case yes:
		return nil
	case a.unprinted != nil:
		return errors.New("nothing was changed, because the changes could not be printed")
	case a.terminal() == nil:
		return usage(fmt.Errorf("cannot ask %q without a terminal; add --yes", question))
	}
	agreed, err := terminal.Confirm(a.in, a.err, question, false)
	if err == nil && !agreed {
		err = errors.New("not confirmed; nothing was changed")
	}
	return err
}
