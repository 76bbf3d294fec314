package cmd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"postrider/internal/inbox"
	"postrider/internal/otherrc"
	"postrider/internal/secret"
	"postrider/internal/tasks"
	"postrider/internal/text"
)

type inboxImportOptions struct {
	inbox.ImportOptions
	from, oauth        string
	addresses          map[string]string
	check, dryRun, yes bool
}

func (a *app) inboxImportCommand() *cobra.Command {
	var opts inboxImportOptions
	c := &cobra.Command{
		Use:   "import {FILE.csv | - | --from FORMAT FILE...}",
		Short: "Add and change inboxes by a file; shows the changes first",
		Long: `import reads inboxes from a CSV file, or from standard input, shows what it
would add (+) and change (~), and asks. Then it does everything in one
transaction, or nothing. It prints all errors of the file with their lines.

The first line names the columns, in any order: address, host, port, security,
username, password, folders (separated by ;), start, description, active (yes or
no), auth, allow_plaintext, labels (NAME=VALUE, separated by ;), ca_file,
tls_fingerprint, client_cert. Only address is required; a new inbox also needs
host and password. Another empty field means the default for a new inbox, and no
change for an existing one.

The password is env:NAME, file:PATH, command:PROGRAM ARGUMENT..., oauth:NAME, or
the password itself, which is stored encrypted. If the file has a command or a
password, only its owner may be able to read it (mode 0600).

An inbox that exists with the same settings is left alone. With other settings
it is an error without --update. A cursor never changes.

With --from it reads the accounts of fetchmail or getmail, and prints, with its
line, what it ignores and what works differently. The first run sets their
cursors after all existing mail (--start now), which those programs forward: let
them fetch once more after that run before you stop them. Mail stays on the
server. Only the owner of the file may be able to read it.
` + exitHelp,
		Example: `  postrider inbox import inboxes.csv --dry-run
  postrider inbox import inboxes.csv --check --yes
  postrider inbox import --from fetchmailrc ~/.fetchmailrc --dry-run`,
		Args: takes(0, "one FILE.csv, - for standard input, or with --from one FILE or several"),
		RunE: func(c *cobra.Command, args []string) error {
			if opts.from == "" && (len(args) > 1 || len(opts.addresses) > 0 || opts.oauth != "") {
				return usage(errors.New("several files, --address and --oauth are for --from; " +
					"give one CSV file; it has the addresses and oauth:NAME in it"))
			}
			return a.inboxImport(c.Context(), args, opts)
		},
	}
	flags := c.Flags()
	flags.BoolVar(&opts.Update, "update", false, "change inboxes that exist with other settings")
	flags.BoolVar(&opts.check, "check", false,
		"log in to each active inbox that is new or changes, except where OAuth2 needs a person; "+
			"if one fails, store nothing")
	flags.StringVar((*string)(&opts.Start), "start", "",
		"`WHERE` the cursors of new inboxes begin if the file says nothing: latest, now, all or since:YYYY-MM-DD "+
			"(default latest; now with --from)")
	flags.StringVar(&opts.from, "from", "", "the file is of another program: `fetchmailrc|getmailrc`")
	values(c, "from", "fetchmailrc", "getmailrc")
	values(c, "start", "latest", "now", "all", "since:")
	flags.StringToStringVar(&opts.addresses, "address", nil,
		"with --from: `USER=ADDR` names the address of a user; may be repeated; "+
			"USER@HOST=ADDR if several servers have that user")
	flags.Lookup("address").DefValue = ""
	flags.StringVar(&opts.oauth, "oauth", "",
		"with --from: the application `NAME` of the configuration, for accounts that log in with OAuth2")
	flags.BoolVar(&opts.dryRun, "dry-run", false, "only show the changes")
	flags.BoolVar(&opts.yes, "yes", false, "do not ask")
	return c
}

func (a *app) inboxImport(ctx context.Context, names []string, opts inboxImportOptions) error {
	read := func() ([]inbox.Entry, error) { return a.readInboxes(names[0]) }
	if opts.from != "" {
		opts.Start = cmp.Or(opts.Start, inbox.StartNow)
		read = func() ([]inbox.Entry, error) { return a.readOthers(names, opts) }
	}
	entries, err := read()
	if err != nil {
		return usage(noneImported(err))
	}
	with := a.withNew
	if opts.dryRun {
		with = a.withEmpty
	}
	return with(ctx, func(s *services) error {
		opts.KnowsApp = s.knowsApp
		by := tasks.By{Who: a.who(s.host())}
		opts.Who, opts.Detail = by.Who, by.Detail()
		plans, err := s.inboxes.PlanImport(ctx, entries, opts.ImportOptions)
		if err != nil {
			return noneImported(err)
		}
		lines := text.Effects(plans)
		if opts.dryRun || !opts.yes {
			a.print("%s%s", lines, text.EffectCounts(plans))
		}
		if opts.check {
			if err := a.checkPlanned(ctx, s, plans); err != nil {
				return noneImported(err)
			}
		}
		var planned []inbox.Inbox
		for _, p := range plans {
			if p.String() != "" {
				planned = append(planned, p.New)
			}
		}
		if err := a.noteShared(ctx, s, planned...); err != nil {
			return err
		}
		if opts.dryRun || lines == "" {
			return nil
		}
		if err := a.confirm(opts.yes, "Make these changes?"); err != nil {
			return err
		}
		done, err := s.inboxes.Import(ctx, entries, opts.ImportOptions)
		if err != nil {
			return noneImported(err)
		}
		a.tell("Done: %s", text.EffectCounts(done))
		return nil
	})
}

// noneImported is exit code 2 for what is wrong in the file.
func noneImported(err error) error {
	_, invalid := errors.AsType[*inbox.ImportError](err)
	err = fmt.Errorf("import inboxes: nothing was changed:\n%w", err)
	if invalid {
		return usage(err)
	}
	return err
}

// checkPlanned logs in to the active inboxes that an import would add or change. Its error has a
// line for each that fails. It prints which need a person.
func (a *app) checkPlanned(ctx context.Context, s *services, plans []inbox.Planned) error {
	plans, err := s.inboxes.Unstored(ctx, plans)
	if err != nil {
		return err
	}
	var boxes []inbox.Inbox
	plans = slices.DeleteFunc(plans, func(p inbox.Planned) bool {
		if !p.New.Active {
			return true
		}
		acct, err := s.account(p.New)
		if err != nil || acct == nil || !acct.App.Personal() {
			return false
		}
		_, _ = fmt.Fprintf(a.err, "note: %s: inbox %s is not tried, because a person has to log in; "+
			"after the import: %s\n", p.Where, p.New.Address, acct.Login)
		return true
	})
	for _, p := range plans {
		in := p.New
		in.ID = 0 // these settings are not stored
		boxes = append(boxes, in)
	}
	active, err := s.inboxes.Active(ctx)
	if err != nil {
		return err
	}
	var failed []string
	for i, f := range s.checkInboxes(ctx, boxes, active) {
		if f.err != nil {
			failed = append(failed, fmt.Sprintf("%s: %s: %s", plans[i].Where, f.what, text.Brief(f.err)))
		}
	}
	if len(failed) > 0 {
		return errors.New(strings.Join(failed, "\n"))
	}
	return nil
}

// shownFile is the name of a file for errors.
func shownFile(name string) string {
	if name == "-" {
		return "standard input"
	}
	return name
}

// input opens a file, or standard input for -. Call done.
func (a *app) input(name string) (in io.Reader, done func(), err error) {
	if name == "-" {
		return a.in, func() {}, nil
	}
	f, err := os.Open(name)
	if err != nil {
		return nil, nil, err
	}
	return f, func() { _ = f.Close() }, nil
}

func (a *app) readInboxes(name string) ([]inbox.Entry, error) {
	in, done, err := a.input(name)
	if err != nil {
		return nil, err
	}
	defer done()
	return inbox.ReadCSV(shownFile(name), in, exposed(name, in))
}

// readOthers reads the files of other programs, and prints what is ignored.
func (a *app) readOthers(names []string, opts inboxImportOptions) ([]inbox.Entry, error) {
	var all []otherrc.Account
	var notes otherrc.Notes
	for _, name := range names {
		accounts, err := a.readOther(name, opts.from, &notes)
		if err != nil {
			return nil, err
		}
		all = append(all, accounts...)
	}
	for _, note := range notes.All() {
		_, _ = fmt.Fprintln(a.err, "note: "+note)
	}
	return otherrc.Entries(all, opts.addresses, opts.oauth)
}

func (a *app) readOther(name, format string, notes *otherrc.Notes) ([]otherrc.Account, error) {
	in, done, err := a.input(name)
	if err != nil {
		return nil, err
	}
	defer done()
	if err := exposed(name, in); err != nil {
		return nil, fmt.Errorf("the file holds passwords, and %w", err)
	}
	return otherrc.Read(format, shownFile(name), in, notes)
}

// exposed says why other users can read a file that is open; nil when they cannot, or when it is a
// pipe or a terminal.
func exposed(name string, in io.Reader) error {
	f, ok := in.(interface{ Stat() (fs.FileInfo, error) })
	if !ok {
		return nil
	}
	info, err := f.Stat()
	if err != nil || !info.Mode().IsRegular() {
		return err
	}
	err = secret.CheckReaders(name, info)
	if err != nil && name == "-" { // its name is not known
		return errors.New("other users can access it; run: chmod 600 FILE")
	}
	return err
}

func (a *app) inboxExportCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "export",
		Short: "Print all inboxes as a CSV file, without stored passwords",
		Long: `export prints all inboxes as the CSV file that import reads, sorted by address.
The file has env:NAME, file:PATH, oauth:NAME and command:... (with its
arguments, which should hold no secret), but no stored password: before another
database can import such an inbox, fill in its password.
If what is stored for an inbox cannot be read, such as without the key file, the
exit code is 75.
` + exitHelp,
		Example: `  postrider inbox export > inboxes.csv`,
		Args:    takesNone,
		RunE:    func(c *cobra.Command, _ []string) error { return a.inboxExport(c.Context()) },
	}
}

func (a *app) inboxExport(ctx context.Context) error {
	return a.with(ctx, func(s *services) error {
		boxes, err := s.inboxes.List(ctx)
		if err != nil {
			return err
		}
		csv, incomplete := s.inboxes.CSV(boxes)
		a.print("%s", csv)
		if incomplete != nil {
			return &exitError{exitRetry, fmt.Errorf("export inboxes: %w", incomplete)}
		}
		return nil
	})
}
