package cmd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"postrider/internal/config"
	"postrider/internal/dmarc"
	"postrider/internal/forward"
	"postrider/internal/pass"
	"postrider/internal/route"
	"postrider/internal/tasks"
)

func (a *app) routeCommand() *cobra.Command {
	return group("route", "Look at the routes of the configuration", a.routeTestCommand(), a.routeReplayCommand())
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
		Use:   "test FILE.eml | - | --task ID [--inbox ADDR] [--folder NAME] [--at TIME] [--no-dns] [--json | --show-message]",
		Short: "Show who would get a message by the routes of today, and why",
		Long: `test tries the routes on one message and shows each in order: which condition held or failed,
and on what text; then what would become of the message: its recipients, priority, uncertain
policy and mode. Nothing is sent, and nothing is changed.

The message is a file, - for standard input, or with --task that of a registered task, which is
fetched from its server. For a file say with --inbox and --folder where it would have arrived:
without them conditions on the inbox are undecided, nobody is left out as the inbox's own
address, and the folder is INBOX. Ages count from now, and for a task from its registration. With
--at they count from that time, and a message without a date of its own arrived then.

Mode auto asks the DNS, for at most five seconds; with --no-dns it decides as it would without
an answer.

--show-message prints the message that would go out (to a relay that takes 8-bit messages),
octet for octet, to standard output, and the rest to standard error. This shows texts of the
message, as no other command does.
` + exitHelp,
		Args: func(c *cobra.Command, args []string) error {
			if c.Flags().Changed("task") {
				return takesNone(c, args)
			}
			return takes(1, 1, "one FILE, - for standard input, or --task ID")(c, args)
		},
		RunE: func(c *cobra.Command, args []string) error {
			if err := opts.check(c); err != nil {
				return err
			}
			return a.routeTest(c.Context(), args, opts)
		},
	}
	c.Flags().StringVar(&opts.inbox, "inbox", "", "as if it had arrived in the inbox `ADDR`")
	c.Flags().StringVar(&opts.folder, "folder", "INBOX", "as if it had arrived in this `NAME`")
	c.Flags().Int64Var(&opts.task, "task", 0, "the message of the task with this `ID`, fetched from its server")
	c.Flags().StringVar(&opts.at, "at", "", "as if it were registered at `TIME`, such as 2026-03-07T11:00:00Z")
	c.Flags().BoolVar(&opts.json, "json", false, "print one JSON object")
	c.Flags().BoolVar(&opts.showMessage, "show-message", false, "print the message that would go out")
	c.Flags().BoolVar(&opts.noDNS, "no-dns", false, "ask nobody: mode auto decides as when the DNS is down")
	complete(c, "inbox", a.addresses)
	return c
}

func (o *routeOptions) check(c *cobra.Command) error {
	changed := c.Flags().Changed
	switch {
	case o.json && o.showMessage:
		return usage(errors.New("--json and --show-message both print to standard output; choose one"))
	case changed("task") && (changed("inbox") || changed("folder")):
		return usage(errors.New("--task knows the inbox and the folder; leave out --inbox and --folder"))
	case changed("task") && o.task < 1:
		return usage(fmt.Errorf("%d is not the ID of a task; `postrider task list` shows them in its first column", o.task))
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
		return at, usage(fmt.Errorf("--at %q is not a time; write it with its time zone, such as 2026-03-07T11:00:00Z or 2026-03-07T12:00:00+01:00", o.at))
	}
	return at, nil
}

// routes opens the database only if one of them asks for the directory.
func (a *app) routes(ctx context.Context, cfg *config.Config) (table *route.Table, err error) {
	table, err = route.Compile(cfg.Routes)
	switch {
	case err != nil:
		return nil, usage(err)
	case !table.UsesContacts():
		return table, nil
	}
	err = a.with(ctx, func(s *services) error {
		table, err = s.routes(ctx)
		return err
	})
	return table, err
}

// resolver is whom mode auto asks.
func (o *routeOptions) resolver(cfg *config.Config) dmarc.Resolver {
	if o.noDNS {
		return noDNS{}
	}
	return resolver(cfg)
}

type noDNS struct{}

func (noDNS) LookupTXT(context.Context, string) ([]string, error) {
	return nil, errors.New("nobody was asked: --no-dns")
}

// specimen is a message to try the routes on.
type specimen struct {
	route.Mail
	task tasks.Task // the zero task for a file
}

func (a *app) routeTest(ctx context.Context, args []string, opts routeOptions) error {
	cfg, err := a.loadConfig()
	if err != nil {
		return err
	}
	table, err := a.routes(ctx, cfg)
	if err != nil {
		return err
	}
	var s specimen
	if opts.task != 0 {
		s, err = a.fromTask(ctx, opts.task)
	} else {
		s, err = a.fromFile(args[0], opts)
	}
	if err != nil {
		return err
	}
	defer func() { _ = s.Message.Close() }()
	if s.At, err = opts.registered(s.At); err != nil {
		return err
	}
	if s.Size > int64(cfg.Forward.MaxSize) && notices(cfg) {
		s.Message.HeaderOnly = true // all that a pass would have of it
	}
	trial, err := a.try(ctx, cfg, table, s, opts)
	switch {
	case err != nil:
		return err
	case opts.json:
		return a.printJSON(trial)
	case opts.showMessage:
		return errors.Join((&app{out: a.err}).showTrial(trial), a.showMessage(trial))
	}
	return a.showTrial(trial)
}

// routeTrial is what came of it, as JSON.
type routeTrial struct {
	Inbox        string          `json:"inbox"`
	Folder       string          `json:"folder"`
	Task         int64           `json:"task,omitempty"`
	Subject      string          `json:"subject"`
	Sender       string          `json:"sender"`
	Size         int64           `json:"size"`
	Status       tasks.Status    `json:"status"`
	Reason       string          `json:"reason"`
	Route        string          `json:"route"`
	Recipients   []string        `json:"recipients"`
	LeftOut      string          `json:"left_out,omitempty"` // the inbox's own address, when nobody gets it for that
	EnvelopeFrom string          `json:"envelope_from"`
	Priority     route.Priority  `json:"priority"`
	Uncertain    route.Uncertain `json:"uncertain"`
	Mode         string          `json:"mode"`
	ModeReason   string          `json:"mode_reason,omitempty"` // why, where that was decided for this message
	Settled      []string        `json:"settled,omitempty"`     // who gets it all the same: recipients that the task has already
	Routes       []route.Step    `json:"routes"`

	content *forward.Content // what would go out; nil when nothing would
}

func (a *app) try(ctx context.Context, cfg *config.Config, table *route.Table, s specimen, opts routeOptions) (routeTrial, error) {
	log, err := a.logger()
	if err != nil {
		return routeTrial{}, err
	}
	relay, err := (&services{cfg: cfg, log: log}).relay() // which does not connect
	if err != nil {
		return routeTrial{}, err
	}
	defer func() { _ = relay.Close() }()
	f := pass.Foresee(table, s.Mail, int64(cfg.Forward.MaxSize), cfg.Forward.MaxReceived)
	d := f.Decision
	t := routeTrial{
		Inbox: s.Inbox, Folder: s.Folder, Task: s.task.ID, Subject: s.Message.Subject(), Sender: s.Message.From(), Size: s.Size,
		Status: f.Status, Reason: f.Reason, Route: d.Route, Recipients: append([]string{}, d.To...), LeftOut: d.LeftOut, Priority: d.Priority,
		Uncertain: route.Retry, Mode: cfg.Forward.Mode, Routes: table.Explain(s.Mail),
		EnvelopeFrom: relay.Envelope(s.Mail.Message, s.Mail.Inbox, d.To).From,
	}
	if table.Holds(d.Route, cfg.Forward.Uncertain == string(route.Hold)) {
		t.Uncertain = route.Hold
	}
	if f.Status == tasks.Forwarded {
		made, err := composer(cfg, opts.resolver(cfg))
		if err != nil {
			return routeTrial{}, err
		}
		if err := t.compose(ctx, cfg, made, table, s); err != nil {
			return routeTrial{}, err
		}
		t.EnvelopeFrom = relay.Sender(t.EnvelopeFrom, t.content.Mode)
	}
	for _, del := range s.task.Deliveries {
		t.Settled = append(t.Settled, del.Recipient)
	}
	return t, nil
}

// compose makes what would go out.
func (t *routeTrial) compose(ctx context.Context, cfg *config.Config, c *forward.Composer, table *route.Table, s specimen) (err error) {
	t.content, err = c.Compose(ctx, s.Message, forward.Origin{
		Trace: forward.Trace{Inbox: s.Inbox, TaskID: s.task.ID}, Folder: s.Folder, UID: s.task.UID,
		Registered: s.At, Size: s.Size, MaxSize: int64(cfg.Forward.MaxSize),
		Captured: sync.OnceValue(func() map[string]string { return table.Captured(t.Route, s.Mail) }),
	}, pass.StyleOf(table.Style(t.Route, s.Mail, style(cfg))))
	if err != nil {
		return err
	}
	t.Mode, t.ModeReason = string(t.content.Mode), t.content.Remark
	return nil
}

// showMessage prints what would go out, and nothing when nothing would.
func (a *app) showMessage(t routeTrial) error {
	if t.content == nil {
		return nil
	}
	_, err := io.Copy(a.out, t.content.Reader())
	return err
}
