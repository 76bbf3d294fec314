// Package cmd is postrider's command line: flags, wiring and output, one file per command. It
// decides nothing that the packages below it could decide.
package cmd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"postrider/internal/config"
	"postrider/internal/contacts"
	"postrider/internal/db"
	"postrider/internal/inbox"
	"postrider/internal/secret"
	"postrider/internal/terminal"
)

// The exit codes, also in the help and the README.
const (
	exitOK     = 0
	exitFailed = 1  // failed
	exitUsage  = 2  // bad usage or configuration
	exitRetry  = 75 // done, but something will be retried or needs an operator (EX_TEMPFAIL)
)

const exitHelp = `
Exit codes:
  0   all handled
  1   failed
  2   bad usage or configuration, nothing touched
  75  done, but something of this pass or command will be retried or needs an
      operator, or a threshold of alerts is exceeded`

// app is what all commands share: the world outside, and the flags that every command has.
type app struct {
	in        io.Reader
	out, err  io.Writer
	env       config.Lookup
	envNames  []string // of all variables there are
	secrets   secret.Commands
	config    string
	logFormat string
	color     string // auto, always, never
	verbose   int
	bar       terminal.Bar // of the pass that is going on
	width     int          // of the terminal; 0 for what standard output has
	unprinted error        // the first error of print; run reports it
}

// Main runs the command line of this process and returns its exit code.
func Main() int {
	a := &app{in: os.Stdin, out: os.Stdout, err: os.Stderr, env: os.LookupEnv}
	for _, entry := range os.Environ() {
		name, _, _ := strings.Cut(entry, "=")
		a.envNames = append(a.envNames, name)
	}
	return a.run(context.Background(), os.Args[1:])
}

func (a *app) run(ctx context.Context, args []string) int {
	root := a.tree()
	root.SetArgs(args)
	err := a.orUnprinted(root.ExecuteContext(ctx))
	if text := errorText(err); text != "" {
		_, _ = fmt.Fprintln(a.err, text)
	}
	return exitCode(err)
}

// orUnprinted adds to the error of a command that its output could not be written. That is a
// failure, whatever else the command met: what a script has got is not complete.
func (a *app) orUnprinted(err error) error {
	switch {
	case a.unprinted == nil:
		return err
	case errorText(err) == "":
		return a.unprinted
	}
	return &exitError{exitFailed, errors.Join(a.unprinted, err)}
}

// Commands is the whole command line, for manual pages and completions. It is not for running.
func Commands() *cobra.Command {
	return (&app{env: func(string) (string, bool) { return "", false }}).tree()
}

// tree is the root command with all others.
func (a *app) tree() *cobra.Command {
	root := a.rootCommand()
	root.SetIn(a.in)
	root.SetOut(a.out) // completion keeps what is set when it is made
	root.SetErr(a.err)
	root.InitDefaultHelpCmd()
	root.InitDefaultCompletionCmd()
	for _, c := range root.Commands() {
		switch c.Name() {
		case "help":
			c.Args = func(_ *cobra.Command, path []string) error {
				found, rest, err := root.Find(path)
				if err != nil {
					return err
				}
				return subcommand(found, rest)
			}
		case "completion":
			c.Use = "completion SHELL"
			c.Args, c.RunE = subcommand, func(c *cobra.Command, _ []string) error { return c.Help() }
			for _, shell := range c.Commands() {
				shell.Args = takesNone // with an error of ours: cobra's have no type
			}
		}
	}
	return root
}

func (a *app) rootCommand() *cobra.Command {
	root := &cobra.Command{
		Use:   "postrider COMMAND",
		Short: "Forwards what arrives in IMAP inboxes",
		Long: `postrider watches IMAP inboxes and forwards what arrives over SMTP, as a service
or from cron. None missed, none twice, and every message can be accounted for.

Try it:        postrider demo
Set it up:     postrider init; postrider inbox add desk@firm.example
Test it:       postrider check; postrider run --dry-run
Run it:        postrider watch; or from cron: postrider run
See results:   postrider status; postrider task list; postrider audit
` + exitHelp,
		Version:       about(),
		SilenceErrors: true,
		SilenceUsage:  true,
		Args:          subcommand,
		RunE:          func(c *cobra.Command, _ []string) error { return c.Help() },

		PersistentPreRunE: func(c *cobra.Command, _ []string) error {
			if err := noEmptyFlags(c); err != nil {
				return err
			}
			return a.checkFlags()
		},

		SuggestionsMinimumDistance: 2,
	}
	root.SetVersionTemplate("{{.Version}}\n")
	root.SetUsageTemplate(strings.NewReplacer("Flags.FlagUsages ", "Flags.FlagUsagesWrapped 80 ",
		" for more information about a command.", " for more.",
		"{{if .HasAvailableSubCommands}}\n  {{.CommandPath}} [command]{{end}}", "").Replace(root.UsageTemplate()))
	flags := root.PersistentFlags()
	flags.StringVarP(&a.config, "config", "c", "",
		"configuration `FILE` (default $POSTRIDER_CONFIG, ./postrider.yaml, /etc/postrider/postrider.yaml)")
	flags.StringVar(&a.logFormat, "log-format", "",
		"log to standard error as `text|json` (default text; sentences on a terminal)")
	flags.StringVar(&a.color, "color", colorAuto,
		"colour states: `auto|always|never`; auto does so on a terminal, unless NO_COLOR is set")
	flags.CountVarP(&a.verbose, "verbose", "v",
		"log each login, folder and message; -vv: connections, too; -vvv: IMAP and SMTP, "+
			"without secrets and mail``") // it takes no value
	values(root, "color", colorAuto, colorAlways, colorNever)
	values(root, "log-format", logText, logJSON)
	root.SetFlagErrorFunc(func(c *cobra.Command, err error) error {
		err = plain(err)
		return usage(fmt.Errorf("%w; see `%s --help`", err, c.CommandPath()))
	})
	root.AddCommand(a.commands()...)
	return root
}

// exitError is an error with an exit code of its own. Without an inner error everything is printed
// already.
type exitError struct {
	code int
	err  error
}

func (e *exitError) Error() string {
	if e.err == nil {
		return ""
	}
	return e.err.Error()
}

func (e *exitError) Unwrap() error { return e.err }

func usage(err error) error { return &exitError{exitUsage, err} }

// errRetry says that something will be retried or needs an operator. It is printed already.
var errRetry = &exitError{code: exitRetry}

func exitCode(err error) int {
	var e *exitError
	switch {
	case err == nil:
		return exitOK
	case errors.As(err, &e):
		return e.code
	case errors.As(err, new(*config.Errors)), errors.As(err, new(*db.DSNError)),
		errors.As(err, new(*contacts.InvalidError)), errors.As(err, new(*inbox.InvalidError)),
		errors.As(err, new(*inbox.NotFoundError)), errors.As(err, new(*inbox.ExistsError)):
		return exitUsage
	}
	return exitFailed
}

func errorText(err error) string {
	if err == nil || err.Error() == "" {
		return ""
	}
	if errors.As(err, new(*config.Errors)) {
		return err.Error()
	}
	return "postrider: " + err.Error()
}
