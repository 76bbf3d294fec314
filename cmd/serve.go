package cmd

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"postrider/internal/config"
	"postrider/internal/inbox"
	"postrider/internal/metrics"
	"postrider/internal/pass"
	"postrider/internal/route"
	"postrider/internal/tasks"
	"postrider/internal/text"
	"postrider/internal/web"
)

// pageAddress is where the page is by default.
const pageAddress = "127.0.0.1:8420"

func (a *app) serveCommand() *cobra.Command {
	var listen string
	c := &cobra.Command{
		Use:   "serve [--listen ADDR]",
		Short: "Show the status page, for those who run passes from cron",
		Long: `serve shows the status page until it is stopped: what an operator has to do, who
received a message, each message with its trail, and the inboxes. It fetches and
sends no mail; ` + "`postrider run`" + ` does. The same data is at /api/v1
as JSON (described by /api/v1/openapi.json). /healthz and /readyz are for
monitoring, and need no login.

Only this host can reach the default address, and there is no login. Any other
address needs users and a certificate (web.users, web.tls), or a proxy that
logs users in (web.proxy).

SIGTERM and SIGINT end it, with exit code 0. SIGHUP ends it, too: it reads the
configuration only when it starts. When the SQLite file was replaced or moved,
the next request ends it, with exit code 1.

Examples:
  postrider serve                          # on http://127.0.0.1:8420/
  postrider serve --listen 127.0.0.1:9000  # on another port
  postrider serve --listen :8443           # for other hosts: needs web.users
  ssh -L 8420:127.0.0.1:8420 mailhost      # the page of another host
` + exitHelp,
		Args: takesNone,
		RunE: func(c *cobra.Command, _ []string) error { return a.serve(c.Context(), listen) },
	}
	c.Flags().StringVar(&listen, "listen", pageAddress, "the `ADDR` to listen on, host:port")
	return c
}

func (a *app) serve(ctx context.Context, listen string) error {
	ctx, stop := untilSignal(ctx)
	defer stop()
	cfg, err := a.loadConfig(ctx)
	if err != nil {
		return err
	}
	access, l, err := a.openPage(ctx, cfg, listen)
	if err != nil {
		return err
	}
	defer func() { _ = l.Close() }()
	s, err := a.open(ctx)
	if err != nil {
		return err
	}
	defer s.close()
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	defer context.AfterFunc(ctx, s.db.StopWaiting)()
	page, done, err := s.page(access, nil)
	if err != nil {
		return err
	}
	defer done()
	where := pageURL(access, l)
	s.log.Info("the status page is up", "address", where)
	a.tell("The status page is at %s Ctrl-C ends it.\n", where)
	if err := web.Serve(ctx, l, endsIf(s.db.Replaced, page.Handler(), end), s.log); err != nil {
		return err
	}
	if why := context.Cause(ctx); !errors.Is(why, context.Canceled) { // no signal
		return why
	}
	return nil
}

// endsIf serves h, and calls end with the error of over at a request at which there is one. It
// answers that request, too.
func endsIf(over func() error, h http.Handler, end func(why error)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := over(); err != nil {
			end(err)
		}
		h.ServeHTTP(w, r)
	})
}

// pageURL is where the page is.
func pageURL(access *web.Access, l net.Listener) string {
	if access.TLS() != nil {
		return "https://" + l.Addr().String() + "/"
	}
	return "http://" + l.Addr().String() + "/"
}

// openPage checks who may use the page, and begins to listen. Nothing else has begun by then: its
// errors are about the usage.
func (a *app) openPage(ctx context.Context, cfg *config.Config, listen string) (*web.Access, net.Listener, error) {
	key, err := inbox.OpenSealer(cfg.Secrets.KeyFile).Derive("sessions of the status page")
	if errors.Is(err, inbox.ErrNoKey) { // sessions end with this process
		key, err = inbox.RandomKey()
	}
	if err != nil {
		return nil, nil, usage(err)
	}
	access, err := openAccess(cfg, listen, key, a.logger())
	if err != nil {
		return nil, nil, usage(err)
	}
	l, err := access.Bind(ctx)
	switch {
	case errors.As(err, new(syscall.Errno)): // of this host now, not of the configuration
		return nil, nil, err
	case err != nil:
		return nil, nil, usage(err)
	}
	return access, l, nil
}

// openAccess reads the files of the section web. key signs sessions.
func openAccess(cfg *config.Config, listen string, key []byte, log *slog.Logger) (*web.Access, error) {
	return web.Open(web.Settings{
		Listen: listen, UsersFile: cfg.Web.Users, Operators: cfg.Web.Operators,
		CertFile: cfg.Web.TLS.Cert, KeyFile: cfg.Web.TLS.Key,
		ProxyFrom: cfg.Web.Proxy.Networks(), ProxyHeader: cfg.Web.Proxy.UserHeader, Key: key, Now: time.Now, Log: log,
	})
}

// checkPage tests what serve, and watch with --listen, refuse to start with.
func checkPage(cfg *config.Config) finding {
	access, err := openAccess(cfg, pageAddress, nil, nil)
	if err != nil {
		return finding{what: "status page", err: err}
	}
	if names := access.UnknownOperators(); len(names) > 0 {
		err = fmt.Errorf("web.operators: no such user in %s: %s; "+
			"correct the name, or add the user with `htpasswd -B %s %s`",
			cfg.Web.Users, strings.Join(names, ", "), text.Arg(cfg.Web.Users), text.Arg(names[0]))
	}
	return finding{what: "status page", text: "the section web can be used", err: err}
}

// page wires the status page. Broken is for web.Options. Call done when it is not used any more.
func (s *services) page(access *web.Access, broken func() bool) (page *web.Server, done func(), err error) {
	relay, err := s.relay()
	if err != nil {
		return nil, nil, err
	}
	made := web.New(web.Options{
		Access: access, Queue: s.queue, Inboxes: s.inboxes, Status: s.status().Read, Explain: s.explain, Audit: s.audit,
		Relay: web.Relay{
			Name: net.JoinHostPort(s.cfg.SMTP.Host, strconv.Itoa(s.cfg.SMTP.Port)),
			Probe: func(ctx context.Context) error {
				if _, err := relay.Info(ctx, nil); err != nil {
					return errors.New(text.Brief(err))
				}
				return nil
			},
			Patience: 5 * time.Second,
		},
		Metrics: metrics.Handler(s.status().Read, s.metricsOptions()), Broken: broken,
		PassEvery: s.cfg.Alerts.LateAfter(), Now: time.Now, Zone: time.Local, Log: s.log,
	})
	return made, func() {
		made.Close()
		_ = relay.Close()
	}, nil
}

// audit audits one inbox, as the command does. It needs no routes and no relay, so an error in
// their configuration does not prevent it.
func (s *services) audit(ctx context.Context, in inbox.Inbox, who string) {
	p := &pass.Pass{
		Config: s.passConfig(false), Inboxes: s.inboxes, Queue: s.queue, Now: time.Now, Log: s.log, Observer: silent{},
		Dial: func(ctx context.Context, in inbox.Inbox) (pass.Source, error) { return s.connect(ctx, in) },
	}
	p.Audit(ctx, []inbox.Inbox{in}, pass.AuditOptions{Who: who})
}

// explain tries the current routes on the message of a task.
func (s *services) explain(ctx context.Context, t tasks.Task) ([]route.Step, error) {
	table, err := s.routes(ctx)
	if err != nil {
		return nil, err
	}
	found, err := s.specimen(ctx, t)
	if err != nil {
		return nil, err
	}
	defer func() { _ = found.Message.Close() }()
	return table.Explain(ctx, found.Mail), nil
}
