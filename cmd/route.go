package cmd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"

	"postrider/internal/address"
	"postrider/internal/config"
	"postrider/internal/db"
	"postrider/internal/dmarc"
	"postrider/internal/forward"
	"postrider/internal/message"
	"postrider/internal/pass"
	"postrider/internal/route"
	"postrider/internal/tasks"
	"postrider/internal/text"
)

func (a *app) routeCommand() *cobra.Command {
	return group("route", "Test the routes of the configuration", a.routeTestCommand(), a.routeReplayCommand())
}

type routeOptions struct {
	inbox, folder     string
	task              int64
	json, showMessage bool
	noDNS             bool
	at                string // when the message is registered; empty for now
}

func (a *app) routeTestCommand() *cobra.Command {
	var opts routeOptions
	c := &cobra.Command{
		Use:   "test FILE.eml | - | --task ID",
		Short: "Show who would get a message by the current routes, and why",
		Long: `test tries the routes on one message and shows each in order: which condition
held or failed, and on what text. Then it shows what would become of the
message: its recipients, priority, uncertain policy and mode. It sends nothing
and changes nothing.

The message is a file, - for standard input, or with --task that of a registered
task, which is fetched from its server (only its header if the message is larger
than forward.max_size). For a file, --inbox and --folder say where it would have
arrived. Without --inbox, conditions on the inbox and its labels are undecided,
and no address is left out as the inbox's own; the default folder is INBOX. Ages
count from now, or for a task from its registration. With --at they count from
that time, and a message without a date of its own arrived then.

Mode auto and arc ask the DNS, for at most five seconds. With --no-dns they act
as if the DNS had not answered.

--show-message prints the message that would go out (to a relay that accepts
8-bit messages), octet for octet, to standard output, and the rest to standard
error. For a file it needs --inbox. On a terminal, a space stands for each
control character. No other command shows texts of a message.
` + exitHelp,
		Args: func(c *cobra.Command, args []string) error {
			switch given := c.Flags().Changed("task"); {
			case given && len(args) > 0:
				return usage(fmt.Errorf("--task takes the place of the file, but there is %q, too; give one of them",
					args[0]))
			case given:
				return nil
			}
			return takes(1, "one FILE, - for standard input, or --task ID")(c, args)
		},
		RunE: func(c *cobra.Command, args []string) error {
			if err := opts.check(c); err != nil {
				return err
			}
			return a.routeTest(c.Context(), args, opts)
		},
	}
	c.Flags().StringVar(&opts.inbox, "inbox", "", "as if it arrived in the inbox `ADDR`")
	c.Flags().StringVar(&opts.folder, "folder", "INBOX", "as if it arrived in the folder `NAME`")
	c.Flags().Int64Var(&opts.task, "task", 0, "the message of the task with this `ID`, fetched from its server")
	c.Flags().StringVar(&opts.at, "at", "", "as if it were registered at `TIME`, such as 2026-03-07T11:00:00Z")
	c.Flags().BoolVar(&opts.json, "json", false, "print one JSON object")
	c.Flags().BoolVar(&opts.showMessage, "show-message", false, "print the message that would go out")
	c.Flags().BoolVar(&opts.noDNS, "no-dns", false,
		"ask no DNS server: mode auto and arc act as if the DNS had not answered")
	complete(c, "inbox", a.addresses)
	complete(c, "folder", a.completeFolders)
	complete(c, "task", a.taskIDs())
	return c
}

func (o *routeOptions) check(c *cobra.Command) error {
	changed := c.Flags().Changed
	switch {
	case o.json && o.showMessage:
		return usage(errors.New("--json and --show-message both print to standard output; choose one"))
	case o.showMessage && o.inbox == "" && !changed("task"):
		return usage(errors.New("--show-message needs --inbox ADDR, because what goes out names the inbox"))
	case changed("task") && (changed("inbox") || changed("folder")):
		return usage(errors.New("--task knows the inbox and the folder; leave out --inbox and --folder"))
	case changed("task") && o.task < 1:
		return usage(fmt.Errorf("%d is not the ID of a task; `postrider task list` shows them in its first column",
			o.task))
	}
	if o.inbox != "" {
		if _, err := address.Parse(o.inbox); err != nil {
			return usage(fmt.Errorf("--inbox: %w", err))
		}
	}
	_, err := o.registered(time.Time{})
	return err
}

// registered is when the message is registered, unless --at says otherwise.
func (o *routeOptions) registered(otherwise time.Time) (time.Time, error) {
	if o.at == "" {
		return otherwise, nil
	}
	at, err := time.Parse(time.RFC3339, o.at)
	if err != nil {
		return at, usage(fmt.Errorf("--at %q is not a time; write it with its time zone, "+
			"such as 2026-03-07T11:00:00Z or 2026-03-07T12:00:00+01:00", o.at))
	}
	return at, nil
}

// resolver is what mode auto asks.
func (o *routeOptions) resolver(cfg *config.Config) dmarc.Resolver {
	if o.noDNS {
		return noDNS{}
	}
	return resolver(cfg)
}

type noDNS struct{}

func (noDNS) LookupTXT(context.Context, string) ([]string, error) {
	return nil, errors.New("no DNS server was asked: --no-dns")
}

// routeTest opens the database only if it needs a task, the directory, or the labels of the inbox.
func (a *app) routeTest(ctx context.Context, args []string, opts routeOptions) error {
	cfg, err := a.loadConfig(ctx)
	if err != nil {
		return err
	}
	s := a.unopened(cfg)
	if opts.task != 0 || cfg.Table.UsesContacts() || opts.inbox != "" && cfg.Table.UsesLabels() {
		if s, err = a.openFor(ctx, cfg, db.Open); err != nil {
			return err
		}
		defer s.close()
	}
	return a.testRoutes(ctx, s, args, opts)
}

func (a *app) testRoutes(ctx context.Context, s *services, args []string, opts routeOptions) error {
	table, err := s.routes(ctx)
	if err != nil {
		return err
	}
	var found pass.Specimen
	if opts.task != 0 {
		found, err = s.fromTask(ctx, opts.task)
	} else {
		found, err = a.fromFile(args[0], opts)
	}
	if err != nil {
		return err
	}
	defer func() { _ = found.Message.Close() }()
	if found.At, err = opts.registered(found.At); err != nil {
		return err
	}
	if opts.inbox != "" && table.UsesLabels() {
		in, err := s.inboxes.Get(ctx, opts.inbox)
		if err != nil {
			return err
		}
		found.Labels = in.Labels.Texts()
	}
	trial, err := s.try(ctx, table, found, opts)
	switch {
	case err != nil:
		return err
	case opts.json:
		a.printJSON(trial)
	case !opts.showMessage:
		a.showTrial(trial)
	default:
		rest := &app{out: a.err}
		rest.showTrial(trial)
		a.printed(rest.unprinted)
		if content := trial.Content(); content != nil {
			return a.showMessage(content)
		}
	}
	return nil
}

// showMessage prints a message octet for octet, with the line end at the end that the relay gets,
// or to a terminal only what cannot change the terminal.
func (a *app) showMessage(content io.Reader) error {
	var last lastOctet
	content = io.TeeReader(content, &last)
	var err error
	if isTerminal(a.out) {
		err = text.Printable(a.out, content)
	} else {
		_, err = io.Copy(a.out, content)
	}
	if err == nil && last != '\n' {
		_, err = io.WriteString(a.out, "\r\n")
	}
	return err
}

// lastOctet is the last octet that was written.
type lastOctet byte

func (l *lastOctet) Write(p []byte) (int, error) {
	if len(p) > 0 {
		*l = lastOctet(p[len(p)-1])
	}
	return len(p), nil
}

func (s *services) try(
	ctx context.Context, table *route.Table, found pass.Specimen, opts routeOptions,
) (pass.Trial, error) {
	cfg := s.cfg
	relay, err := s.relay()
	if err != nil {
		return pass.Trial{}, err
	}
	defer func() { _ = relay.Close() }()
	trial, err := pass.Tester{
		Routes: table, Relay: relay, Style: style(cfg),
		Hold: cfg.Forward.Uncertain == route.Hold, Notices: notices(cfg),
		MaxSize: int64(cfg.Forward.MaxSize), MaxReceived: cfg.Forward.MaxReceived,
		Composer: func() (*forward.Composer, error) { return composer(cfg, opts.resolver(cfg)) },
	}.Try(ctx, found)
	if cfg.Bounces.Address != "" && trial.EnvelopeFrom != "" {
		trial.EnvelopeFrom = cfg.Bounces.Address // each recipient gets its own token
	}
	return trial, err
}

// fromFile reads a message from a file, or from standard input when the name is -.
func (a *app) fromFile(name string, opts routeOptions) (pass.Specimen, error) {
	in := a.in
	if name != "-" {
		f, err := os.Open(name)
		if err != nil {
			return pass.Specimen{}, usage(fmt.Errorf("read a message: %w", err))
		}
		defer func() { _ = f.Close() }()
		in = f
	}
	spool := (&message.Spooler{Limit: spoolLimit, Budget: spoolBudget}).New()
	n, err := io.Copy(spool, in)
	if err == nil && n == 0 {
		err = errors.New("the message is empty")
	}
	if err != nil {
		err = usage(fmt.Errorf("read a message from %s: %w", shownFile(name), err))
		return pass.Specimen{}, errors.Join(err, spool.Close())
	}
	m, err := message.Parse(spool)
	if err != nil {
		return pass.Specimen{}, errors.Join(err, spool.Close())
	}
	return pass.Specimen{Mail: route.Mail{
		Inbox: opts.inbox, Folder: opts.folder, Message: m, Size: m.Body.Size(), At: time.Now(),
	}}, nil
}

// fromTask fetches the message of a task from its server.
func (s *services) fromTask(ctx context.Context, id int64) (pass.Specimen, error) {
	t, err := s.queue.Get(ctx, id)
	if errors.Is(err, tasks.ErrNotFound) {
		err = noTask(id)
	}
	if err != nil {
		return pass.Specimen{}, err
	}
	return s.specimen(ctx, t)
}

// specimen fetches the message of a task from its server. Close it.
func (s *services) specimen(ctx context.Context, t tasks.Task) (pass.Specimen, error) {
	in, err := s.inboxes.Get(ctx, t.Inbox)
	if err != nil {
		return pass.Specimen{}, err
	}
	var m *message.Message
	conn, err := s.connect(ctx, in)
	if err == nil {
		defer func() { _ = conn.Close() }()
		m, err = pass.Fetch(ctx, conn, t, int64(s.cfg.Forward.MaxSize))
	}
	if err != nil {
		return pass.Specimen{}, fmt.Errorf("fetch the message of task %d: %w", t.ID, err)
	}
	return pass.Specimen{Task: t, Mail: pass.MailOf(in, t, m)}, nil
}
