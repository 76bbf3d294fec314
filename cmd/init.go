package cmd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"postrider/internal/config"
	"postrider/internal/secret"
	"postrider/internal/text"
)

// initOptions are the flags of init. What they leave open is asked.
type initOptions struct {
	output        string
	first         config.First
	passwordStdin bool
	passwordFrom  string
	noCheck, yes  bool
}

func (a *app) initCommand() *cobra.Command {
	var opts initOptions
	c := &cobra.Command{
		Use:   "init [--output FILE]",
		Short: "Write a first configuration, and test the relay",
		Long: `init writes a first postrider.yaml, with comments and mode 0600. On a terminal
it asks what the flags leave open: the sender, the relay, its username and
password, and who gets the mail. It shows the file and tests the relay
(connection, TLS, login, sender, recipient; nothing is sent) before it writes.
It never replaces a file. A password that is typed, or read with
--smtp-password-stdin, goes to the file ` + relayPasswordFile + ` (mode 0600) beside the
configuration.

Without a terminal it needs --smtp-host, --from and --to, and for a relay that
wants a login --smtp-username with a password. If the relay fails the test,
nothing is written and the exit code is 1.
` + exitHelp,
		Args: takesNone,
		RunE: func(c *cobra.Command, _ []string) error { return a.initialize(c.Context(), opts) },
	}
	flags := c.Flags()
	flags.StringVar(&opts.output, "output", "",
		"write this `FILE` (default that of -c, else $POSTRIDER_CONFIG, ./postrider.yaml)")
	flags.StringVar(&opts.first.Host, "smtp-host", "",
		"the `NAME` or NAME:PORT of the relay, which forwarded mail is handed to")
	flags.IntVar(&opts.first.Port, "smtp-port", 0,
		"the port `N` of the relay (default 587 with starttls, 465 with tls, 25 with none)")
	flags.StringVar(&opts.first.Security, "smtp-security", "",
		"how to encrypt the connection: `tls|starttls|none` (default tls on port 465, else starttls)")
	values(c, "smtp-security", "tls", "starttls", "none")
	flags.StringVar(&opts.first.Username, "smtp-username", "",
		"the `NAME` to log in with; none for a relay without a login")
	flags.BoolVar(&opts.passwordStdin, "smtp-password-stdin", false,
		"read the password from standard input, without echo on a terminal")
	flags.StringVar(&opts.passwordFrom, "smtp-password-from", "",
		"write only the place of the password: `env:NAME`, file:PATH, or \"command:PROGRAM ARGUMENT...\"")
	flags.StringVar(&opts.first.From, "from", "",
		"the sender `ADDR` of forwarded mail, or \"Name <ADDR>\"; bounces go there")
	flags.StringVar(&opts.first.To, "to", "", "the `ADDR` that gets all mail, until there are other routes")
	flags.BoolVar(&opts.noCheck, "no-check", false, "do not test the relay")
	flags.BoolVar(&opts.yes, "yes", false, "do not ask before the file is written")
	return c
}

// relayPasswordFile lies beside the configuration.
const relayPasswordFile = "smtp-password"

// draft is a configuration that is being made.
type draft struct {
	*app
	path     string
	first    config.First
	password string // for the file beside the configuration; empty for a reference, or without a login
	stored   bool   // that file has it already
}

func (a *app) initialize(ctx context.Context, opts initOptions) error {
	fromEnv, _ := a.env("POSTRIDER_CONFIG")
	s := &draft{app: a, path: cmp.Or(opts.output, a.config, fromEnv, "postrider.yaml"), first: opts.first}
	if err := vacant(s.path); err != nil {
		return err
	}
	if err := s.settle(ctx, opts); err != nil {
		return err
	}
	s.first = portOf(s.first)
	if err := s.faults(ctx, s.first); err != nil {
		return err
	}
	if err := s.show(); err != nil {
		return err
	}
	tested := error(nil)
	if !opts.noCheck {
		tested = s.tryRelay(ctx)
	}
	if err := s.agree(opts.yes, tested); err != nil {
		return err
	}
	return s.write()
}

// vacant returns an error if a file cannot be made at path.
func vacant(path string) error {
	dir := filepath.Dir(path)
	if info, err := os.Stat(dir); err != nil || !info.IsDir() {
		return usage(fmt.Errorf("there is no directory %s for %s; create it, or name another file with --output",
			dir, filepath.Base(path)))
	}
	_, err := os.Lstat(path)
	switch {
	case err == nil:
		return usage(existing(path))
	case errors.Is(err, fs.ErrNotExist):
		return nil
	}
	return err
}

func existing(path string) error {
	return fmt.Errorf("%s exists already, and init never replaces a file; edit it, or name another with --output", path)
}

// passwordFile is where a password is written that is no reference.
func (s *draft) passwordFile() string { return filepath.Join(filepath.Dir(s.path), relayPasswordFile) }

// resolve is the secret that a reference names, also of the file that is not written yet.
func (s *draft) resolve(ctx context.Context) config.Resolve {
	return func(ref string) (string, error) {
		if s.password != "" && ref == "file:"+s.passwordFile() {
			return s.password, nil
		}
		return s.secrets.Resolve(ctx, ref)
	}
}

// show prints the file on a terminal. Of a command that gets the password it shows the program.
func (s *draft) show() error {
	shown := s.first
	shown.Password = secret.Shown(shown.Password)
	file, err := shown.Text()
	if err != nil {
		return err
	}
	s.tell("\n%s will be:\n\n    %s\n", s.path, strings.ReplaceAll(strings.TrimSpace(string(file)), "\n", "\n    "))
	return nil
}

// tryRelay tests the relay with the configuration as commands will read it, and prints the result
// on a terminal. Its error says what failed.
func (s *draft) tryRelay(ctx context.Context) error {
	cfg, err := s.first.Load(s.resolve(ctx), s.path, s.env)
	if err != nil {
		return err
	}
	found, err := checkRelay(ctx, s.unopened(cfg))
	if err != nil {
		return err
	}
	var failed []string
	for _, f := range found {
		if f.err != nil {
			failed = append(failed, f.what+": "+text.Error(f.err))
		}
		if s.terminal() != nil {
			s.report(f)
		}
	}
	if len(failed) > 0 {
		return errors.New(strings.Join(failed, "; "))
	}
	return nil
}

// agree asks on a terminal whether to write. Elsewhere a relay that failed its test is an error.
func (s *draft) agree(yes bool, tested error) error {
	switch {
	case tested != nil && s.terminal() == nil:
		return fmt.Errorf("%s was not written, because the relay failed its test: %w; "+
			"correct the flags, or add --no-check", s.path, tested)
	case tested != nil:
		return s.confirm(false, "The relay failed its test. Write "+s.path+" all the same?")
	case s.terminal() == nil:
		return nil // a new file destroys nothing
	}
	return s.confirm(yes, "Write "+s.path+"?")
}

func (s *draft) write() error {
	file, err := s.first.Text()
	if err != nil {
		return err
	}
	creates := s.password != "" && !s.stored
	if creates {
		if err := config.Create(s.passwordFile(), []byte(s.password+"\n")); err != nil {
			return s.notCreated(err)
		}
	}
	if err := config.Create(s.path, file); err != nil {
		if creates {
			_ = os.Remove(s.passwordFile()) // which this command has just made
		}
		return s.notCreated(err)
	}
	with := ""
	if found, err := config.Find("", s.env); err != nil || found != s.path {
		with = "-c " + text.Arg(s.path) + " "
	}
	s.tell("Wrote %s. To add an inbox:\npostrider %sinbox add ADDR\n", s.path, with)
	return nil
}

func (s *draft) notCreated(err error) error {
	if errors.Is(err, fs.ErrExist) {
		err = usage(fmt.Errorf("%w; it was made meanwhile, and init never replaces a file", err))
	}
	return err
}
