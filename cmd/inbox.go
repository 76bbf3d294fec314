package cmd

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"time"

	"github.com/spf13/cobra"

	"postrider/internal/account"
	"postrider/internal/inbox"
	"postrider/internal/oauth"
	"postrider/internal/secret"
	"postrider/internal/tasks"
	"postrider/internal/text"
)

func (a *app) inboxCommand() *cobra.Command {
	return group("inbox", "Add, change and check the monitored inboxes",
		a.inboxAddCommand(), a.inboxListCommand(), a.inboxShowCommand(), a.inboxSetCommand(),
		a.inboxLoginCommand(), a.inboxEnableCommand(), a.inboxDisableCommand(), a.inboxRemoveCommand(),
		a.inboxCheckCommand(), a.inboxRewindCommand(),
		a.inboxImportCommand(), a.inboxExportCommand())
}

// inboxFlags are the settings of an inbox, for add and set.
type inboxFlags struct {
	host           string
	port           int
	security       inbox.Security
	allowPlaintext bool
	allowDelete    bool
	username       string
	auth           string
	description    string
	folders        []string
	start          inbox.Start
	labelTexts     []string
	labels         inbox.Labels // set by check
	certs          certFlags
	password       passwordFlags
}

// register adds the flags to add, and to set, where nothing has a default.
func (f *inboxFlags) register(c *cobra.Command) {
	byDefault := func(what string) string {
		if c.Name() == "set" {
			return ""
		}
		return " (default " + what + ")"
	}
	flags := c.Flags()
	flags.StringVar(&f.host, "host", "", "the `HOST` name or address of the IMAP server")
	flags.IntVar(&f.port, "port", 0, "the port `N` of the IMAP server"+byDefault("993 for tls, else 143"))
	flags.StringVar((*string)(&f.security), "security", "",
		"how to encrypt the connection: `tls|starttls|none`"+byDefault("tls"))
	flags.BoolVar(&f.allowPlaintext, "allow-plaintext", false,
		"with --security none: send the password unencrypted to a host other than this one")
	flags.BoolVar(&f.allowDelete, "allow-delete", false,
		"let messages be deleted on the server, where the configuration says so (after); "+
			"--allow-delete=false ends that")
	flags.StringVar(&f.username, "username", "", "`NAME` for the login"+byDefault("ADDR"))
	flags.StringVar(&f.auth, "auth", "", "how to log in: `auto|plain|login`"+byDefault("auto"))
	flags.StringVar(&f.description, "description", "", "a note for people, any `TEXT`")
	flags.StringArrayVar(&f.folders, "folder", nil, "watch the folder `NAME`; may be repeated"+byDefault("INBOX"))
	flags.StringVar((*string)(&f.start), "start", "",
		"`WHERE` the cursor of a folder begins: latest, now, all or since:YYYY-MM-DD"+byDefault("latest"))
	flags.StringArrayVar(&f.labelTexts, "label", nil,
		"a label `NAME=VALUE` to choose inboxes by, such as tenant=acme (set: tenant= removes it); may be repeated")
	f.certs.register(c)
	f.password.register(c)
	mayBeEmpty(c, "description")
	values(c, "security", "tls", "starttls", "none")
	values(c, "auth", "auto", "plain", "login")
	values(c, "start", "latest", "now", "all", "since:")
}

// check refuses what the store would take for a setting that was left out, and reads the labels.
func (f *inboxFlags) check(c *cobra.Command) (err error) {
	if c.Flags().Changed("port") && f.port == 0 {
		return usage(errors.New("--port is 0; use 1 to 65535"))
	}
	if f.password.oauth != "" && (f.auth == "plain" || f.auth == "login") {
		return usage(fmt.Errorf("--auth %s logs in with a password, and --oauth with a token; leave one of them out",
			f.auth))
	}
	if err := f.certs.check(); err != nil {
		return err
	}
	if len(f.labelTexts) > 0 {
		f.labels, err = inbox.ParseLabels(f.labelTexts)
	}
	return err
}

// inbox is the inbox that add makes; the store sets the defaults of what is left out.
func (f *inboxFlags) inbox(address string) inbox.Inbox {
	in := inbox.Inbox{
		Address: address, Description: f.description, Host: f.host, Port: f.port, Security: f.security,
		AllowPlaintext: f.allowPlaintext, AllowDelete: f.allowDelete, Username: f.username, Auth: f.auth,
		Start: f.start, Labels: f.labels,
		CAFile: f.certs.caFile, TLSFingerprint: f.certs.fingerprint, ClientCert: f.certs.clientCert,
	}
	for _, name := range f.folders {
		in.Folders = append(in.Folders, inbox.Folder{Name: name})
	}
	return in
}

// changes are the flags that were given, for set.
func (f *inboxFlags) changes(c *cobra.Command) inbox.Changes {
	return inbox.Changes{
		Description:    given(c, "description", &f.description),
		Host:           given(c, "host", &f.host),
		Port:           given(c, "port", &f.port),
		Security:       given(c, "security", &f.security),
		AllowPlaintext: given(c, "allow-plaintext", &f.allowPlaintext),
		AllowDelete:    given(c, "allow-delete", &f.allowDelete),
		Username:       given(c, "username", &f.username),
		Auth:           given(c, "auth", &f.auth),
		CAFile:         given(c, "ca-file", &f.certs.caFile),
		TLSFingerprint: given(c, "tls-fingerprint", &f.certs.fingerprint),
		ClientCert:     given(c, "client-cert", &f.certs.clientCert),
		Start:          given(c, "start", &f.start),
		Folders:        f.folders,
		Labels:         f.labels,
	}
}

func (a *app) inboxAddCommand() *cobra.Command {
	var f inboxFlags
	var how addFlags
	c := &cobra.Command{
		Use:   "add ADDR [--host HOST]",
		Short: "Begin to monitor an inbox",
		Long: `add begins to monitor an inbox. It logs in first and looks at the folders, and
stores nothing when that fails; on a terminal it shows the folders and what the
first run would forward. With --no-check it does not connect.

Without --host it looks for the IMAP server: large providers are built in, and
others are found by the DNS (MX, SRV) and by what the domain publishes over
HTTPS. It sends the domain and nothing else. It shows what it found and asks;
where there is no terminal, --yes accepts it.

Without a password flag it asks for the password on a terminal. The password is
stored encrypted with the key in secrets.key_file, which is made on first use.
It is encrypted for this host, port, security, username and certificates: if
something other than postrider changes these in the database, the password is
not used. With --password-from only the place where the password is found is
stored. A file has to be in the directory of the configuration, or in one that
secrets.files_in names. A command is run without a shell, once per process.

With --oauth there is no password: you log in first, as with
` + "`postrider inbox login ADDR`" + `. With --no-check the inbox is stored without a
login, and a run says that it needs one.
` + exitHelp,
		Example: `  postrider inbox add desk@firm.example
  postrider inbox add desk@firm.example --host imap.firm.example
  postrider inbox add desk@firm.example --host imap.firm.example \
      --folder INBOX --folder Junk --start since:2026-01-31
  pass show desk | head -n 1 | postrider inbox add desk@firm.example \
      --host imap.firm.example --password-stdin
  postrider inbox add office@firm.example --oauth microsoft`,
		Args: takes(1, "the ADDR of the inbox"),
		RunE: func(c *cobra.Command, args []string) error {
			if err := f.check(c); err != nil {
				return err
			}
			return a.inboxAdd(c.Context(), args[0], f, how)
		},
	}
	f.register(c)
	complete(c, "folder", a.completeFolders)
	complete(c, "label", a.labels)
	how.register(c)
	return c
}

func (a *app) inboxAdd(ctx context.Context, address string, f inboxFlags, how addFlags) error {
	if _, err := inbox.ParseAddress(address); err != nil {
		return usage(err)
	}
	if err := f.needHost(); err != nil {
		return err
	}
	if how.login != (loginOptions{}) && (f.password.oauth == "" || how.noCheck) {
		return usage(errors.New("--no-browser, --account and --timeout are for a login with --oauth NAME, " +
			"and without --no-check"))
	}
	return a.withNew(ctx, func(s *services) error {
		var unknown *inbox.NotFoundError
		switch _, err := s.inboxes.Get(ctx, address); {
		case err == nil:
			return usage(&inbox.ExistsError{Address: address}) // before it asks for a password
		case !errors.As(err, &unknown):
			return err
		}
		if err := s.knowsApp(f.password.oauth); err != nil {
			return err
		}
		in, err := a.withServer(ctx, s, f.inbox(address), how.yes)
		if err != nil {
			return err
		}
		if f.password == (passwordFlags{}) && account.Of(in.Host).OnlyOAuth() { // it would ask for a password
			return usage(fmt.Errorf("%s takes OAuth2 and no password: "+
				"set up an application as docs/providers.md says, and add --oauth NAME", in.Host))
		}
		password, err := a.newPassword(&f.password, address)
		if err != nil {
			return err
		}
		next := "To test it: postrider inbox check " + text.Arg(in.Address)
		var login *oauth.Token
		if !how.noCheck {
			next = "To see who would get what: postrider run --dry-run --inbox " + text.Arg(in.Address)
			if login, err = a.tryInbox(ctx, s, in, password, f.password.oauth, how.login); err != nil {
				return err
			}
		}
		if in, err = s.inboxes.Add(ctx, in, password); err != nil {
			return err
		}
		if login != nil {
			if err := s.storeLogin(ctx, in, *login, how.login.account); err != nil {
				return err
			}
		}
		if f.password.oauth == "" && account.Of(in.Host).OnlyOAuth() {
			_, _ = fmt.Fprintf(a.err, "note: %s takes OAuth2 and no password; with an application, "+
				"as in docs/providers.md: postrider inbox set %s --oauth NAME\n",
				in.Host, text.Arg(in.Address))
		}
		if err := a.noteShared(ctx, s, in); err != nil {
			return err
		}
		if f.password.oauth != "" && how.noCheck {
			return a.tellLogin(s, "Added", in)
		}
		a.tell("Added %s. %s\n", in.Address, next)
		return nil
	})
}

func (a *app) inboxSetCommand() *cobra.Command {
	var f inboxFlags
	c := &cobra.Command{
		Use:   "set ADDR [--host HOST] [--folder NAME]...",
		Short: "Change the settings of an inbox",
		Long: `set changes the settings that are given, and keeps the others. --folder gives
the whole list: other folders are no longer watched, but keep their registry and
cursor. Messages that still wait in them are forwarded; if such a folder was
deleted on the server, its tasks end as skipped (vanished). --start is for
folders that were never scanned. The password is kept when host, port, security
or username changes; give a password flag to change it. With OAuth2 that needs a
new login. --label tenant=acme sets that label and --label tenant= removes it;
other labels stay.

set does not log in: to test the inbox, postrider inbox check ADDR. It prints a
note if the file or variable of --password-from cannot be read now.
` + exitHelp,
		Args:              takes(1, "the ADDR of one inbox"),
		ValidArgsFunction: a.addresses,
		RunE: func(c *cobra.Command, args []string) error {
			if err := f.check(c); err != nil {
				return err
			}
			return a.inboxSet(c.Context(), args[0], f.changes(c), &f.password)
		},
	}
	f.register(c)
	complete(c, "folder", a.completeFolders)
	complete(c, "label", a.labels)
	return c
}

func (a *app) inboxSet(ctx context.Context, address string, changes inbox.Changes, password *passwordFlags) error {
	return a.with(ctx, func(s *services) error {
		in, err := s.inboxes.Get(ctx, address)
		if err != nil {
			return err
		}
		if err := s.knowsApp(password.oauth); err != nil {
			return err
		}
		p, err := password.get(a, in.Address)
		if err != nil {
			return err
		}
		if p != "" {
			changes.Password = &p
		}
		if reflect.ValueOf(changes).IsZero() {
			return usage(fmt.Errorf("there is nothing to change in inbox %s; see `postrider inbox set --help`",
				in.Address))
		}
		if in, err = s.inboxes.Set(ctx, in.Address, changes); err != nil {
			return err
		}
		for _, f := range in.Folders {
			if changes.Start != nil && f.Active && f.InitializedAt != nil {
				_, _ = fmt.Fprintf(a.err, "note: folder %q has a cursor already, and --start does not move it; "+
					"to move it back, see `postrider inbox rewind --help`\n", f.Name)
			}
		}
		if in.Active && (changes.Folders != nil || changes.Host != nil || changes.Username != nil) {
			if err := a.noteShared(ctx, s, in); err != nil {
				return err
			}
		}
		needed, err := s.logins(ctx)
		if err != nil {
			return err
		}
		if password.oauth != "" || needed[in.ID] != "" { // a login is for one server and username
			return a.tellLogin(s, "Changed", in)
		}
		if password.from != "" && !secret.IsCommand(p) { // a command is asked at the login only
			if _, err := s.inboxes.Password(ctx, in); err != nil {
				_, _ = fmt.Fprintln(a.err, "note:", text.Error(err))
			}
		}
		a.tell("Changed %s. To test it: postrider inbox check %s\n", in.Address, text.Arg(in.Address))
		return nil
	})
}

func (a *app) inboxEnableCommand() *cobra.Command {
	enable := func(ctx context.Context, s *services, in inbox.Inbox) error {
		by := tasks.By{Who: a.who(s.host())}
		if err := s.inboxes.Enable(ctx, in.Address, by.Who, by.Detail()); err != nil {
			return err
		}
		in.Active = true
		return a.noteShared(ctx, s, in)
	}
	return a.switchCommand("enable", "Process inboxes again",
		"enable makes runs process the inboxes again.", "Enabled", enable)
}

func (a *app) inboxDisableCommand() *cobra.Command {
	disable := func(ctx context.Context, s *services, in inbox.Inbox) error {
		return s.queue.Disable(ctx, tasks.By{Who: a.who(s.host())}, in.ID)
	}
	return a.switchCommand("disable", "Leave inboxes alone; their registry and cursors stay",
		"disable makes runs leave the inboxes alone. Their registry and cursors stay.", "Disabled", disable)
}

func (a *app) switchCommand(
	name, short, long, done string, f func(context.Context, *services, inbox.Inbox) error,
) *cobra.Command {
	return &cobra.Command{
		Use:               name + " ADDR...",
		Short:             short,
		Long:              long + "\n" + exitHelp,
		Args:              takes(0, "the ADDR of an inbox, or several"),
		ValidArgsFunction: a.addresses,
		RunE: func(c *cobra.Command, args []string) error {
			return a.with(c.Context(), func(s *services) error {
				boxes, err := s.inboxes.Named(c.Context(), args)
				if err != nil {
					return err
				}
				for _, in := range boxes {
					if err := f(c.Context(), s, in); err != nil {
						return err
					}
					a.tell("%s %s.\n", done, in.Address)
				}
				return nil
			})
		},
	}
}

// underLease does f while no run processes the inbox.
func (s *services) underLease(ctx context.Context, in inbox.Inbox, f func(by inbox.Scan) error) error {
	busy, err := s.inboxes.UnderScan(ctx, in.ID, s.worker(), f)
	if err == nil && busy != nil {
		return &exitError{exitRetry, fmt.Errorf("inbox %s is being processed by %s (until %s unless renewed); "+
			"nothing was changed, try again after that",
			in.Address, busy.Holder, busy.Until.Format(time.RFC3339))}
	}
	return err
}
