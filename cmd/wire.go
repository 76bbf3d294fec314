package cmd

import (
	"context"
	"crypto/rand"
	"fmt"
	"log/slog"
	mathrand "math/rand/v2"
	"os"
	"time"

	"postrider/internal/account"
	"postrider/internal/after"
	"postrider/internal/certs"
	"postrider/internal/config"
	"postrider/internal/contacts"
	"postrider/internal/db"
	"postrider/internal/forward"
	"postrider/internal/imapsrc"
	"postrider/internal/inbox"
	"postrider/internal/limits"
	"postrider/internal/measure"
	"postrider/internal/message"
	"postrider/internal/outbox"
	"postrider/internal/outbox/plan"
	"postrider/internal/pass"
	"postrider/internal/route"
	"postrider/internal/tasks"
	"postrider/internal/tasks/sqlqueue"
	"postrider/internal/text"
	"postrider/internal/tokens"
)

// services is what the configuration leads to.
type services struct {
	cfg     *config.Config
	log     *slog.Logger
	db      *db.DB
	inboxes *inbox.Store
	people  *contacts.Store
	queue   *sqlqueue.Queue
	quota   *limits.Quota
	tokens  *tokens.Store
	outbox  *outbox.Store
	events  chan struct{} // has an element when something is to be published

	measures *measure.Store
	meter    *measure.Meter // of this process

	heard heard

	patience time.Duration // with the relay's greeting and each reply; zero is what RFC 5321 wants of a run
}

func (a *app) loadConfig(ctx context.Context) (*config.Config, error) {
	path, err := config.Find(a.config, a.env)
	if err != nil {
		return nil, usage(err)
	}
	resolve := func(ref string) (string, error) { return a.secrets.Resolve(ctx, ref) }
	cfg, err := config.Load(resolve, path, a.env, a.envNames...)
	if err != nil {
		return nil, usage(err)
	}
	return cfg, nil
}

// open reads the configuration, checks it, and opens the database. Close it.
func (a *app) open(ctx context.Context, checks ...func(*config.Config) error) (*services, error) {
	return a.openBy(ctx, db.Open, checks...)
}

// opener is db.Open, or opens a database in another way.
type opener func(context.Context, db.Config, ...db.Option) (*db.DB, error)

func (a *app) openBy(ctx context.Context, open opener, checks ...func(*config.Config) error) (*services, error) {
	cfg, err := a.loadConfig(ctx)
	if err != nil {
		return nil, err
	}
	for _, check := range checks {
		if err := check(cfg); err != nil {
			return nil, err
		}
	}
	return a.openFor(ctx, cfg, open)
}

// openFor opens the database of a configuration.
func (a *app) openFor(ctx context.Context, cfg *config.Config, open opener) (*services, error) {
	d, err := open(ctx, dbConfig(cfg))
	if err != nil {
		return nil, err
	}
	s := newServices(cfg, a.logger(), d)
	s.inboxes.Commands = &a.secrets // each is asked once, for the configuration and the inboxes
	return s, nil
}

// unopened is what an operator can test without a database. Nothing is recorded.
func (a *app) unopened(cfg *config.Config) *services {
	return &services{
		cfg: cfg, log: a.logger(), quota: limits.New(nil, limits.Config{}), meter: measure.NewMeter(),
		patience: operatorPatience,
	}
}

// operatorPatience is how long somebody who tests the relay waits for its greeting and each reply.
const operatorPatience = 30 * time.Second

func newServices(cfg *config.Config, log *slog.Logger, d *db.DB) *services {
	sealer := inbox.OpenSealer(cfg.Secrets.KeyFile)
	s := &services{
		cfg: cfg, log: log, db: d,
		inboxes: inbox.New(d, sealer, cfg.Secrets.FilesIn...),
		people:  contacts.New(d),
		queue:   sqlqueue.New(d),
		quota:   quota(d, cfg),
		outbox:  outbox.New(d), events: make(chan struct{}, 1),

		measures: measure.New(d), meter: measure.NewMeter(),
		heard: heard{logged: map[string]bool{}},
	}
	s.tokens = &tokens.Store{DB: d, Inboxes: s.inboxes, Worker: s.worker(), Helper: s.inboxes.Commands.Run, Log: log}
	s.follow()
	return s
}

func (s *services) close() { _ = s.db.Close() }

// dbConfig is for commands that need an existing database.
func dbConfig(cfg *config.Config) db.Config {
	d := cfg.Database
	out := db.Config{Driver: d.Driver, Path: d.Path, DSN: string(d.DSN), TLS: d.TLS, Existing: true}
	if d.Roots != nil {
		out.TLS, out.RootCAs = db.TLSVerify, d.Roots
	}
	return out
}

// quota is what is left of smtp.limits.
func quota(d *db.DB, cfg *config.Config) *limits.Quota {
	l := cfg.SMTP.Limits
	return limits.New(d, limits.Config{
		Host: cfg.SMTP.Host, Port: cfg.SMTP.Port, User: cfg.SMTP.Username, Lease: cfg.Concurrency.Lease, Now: time.Now,
		Limits: limits.Limits{PerMinute: orNone(l.PerMinute), PerHour: orNone(l.PerHour), PerDay: orNone(l.PerDay)},
	})
}

// orNone is a limit, 0 when there is none.
func orNone(limit *int) int {
	if limit == nil {
		return 0
	}
	return *limit
}

// dialer logs in to inboxes.
type dialer struct {
	services *services
	peers    *peers
	spooler  *message.Spooler
}

// Memory that spooled messages may take: each, and all together.
const (
	spoolLimit  = 1 << 20
	spoolBudget = 16 << 20
)

func (s *services) dialer() *dialer {
	return &dialer{
		services: s, peers: &peers{roots: s.cfg.IMAP.Roots},
		spooler: &message.Spooler{Limit: spoolLimit, Budget: spoolBudget},
	}
}

// session is a login to an inbox, *imapsrc.Conn.
type session interface {
	pass.Server
	after.Server
}

func (d *dialer) dial(ctx context.Context, in inbox.Inbox) (session, error) {
	password, token, err := d.services.credentials(ctx, in)
	if err != nil {
		return nil, err
	}
	conn, err := d.login(ctx, in, password, token)
	if kind := imapsrc.KindOf(err); kind == imapsrc.KindAuth || kind == imapsrc.KindExpired {
		d.services.inboxes.Refused(in)
	}
	return conn, err
}

// login is dial with a password or tokens; the ID of an inbox that is not stored yet is zero.
func (d *dialer) login(ctx context.Context, in inbox.Inbox, password string, token imapsrc.Token) (session, error) {
	trust, err := d.peers.of(in) // after the password, which is bound to the names of these files
	if err != nil {
		return nil, err
	}
	cfg, known := d.services.cfg, account.Of(in.Host)
	conn, err := imapsrc.Dial(ctx, imapsrc.Config{
		Host: in.Host, Port: in.Port, Security: string(in.Security), AllowPlaintext: in.AllowPlaintext,
		Account: in.Address, Username: in.Username, Password: password, Token: token, Auth: in.Auth,
		Hint: known.Hint, OnlyOAuth: known.OnlyOAuth(), Unstored: in.ID == 0,
		NeedsID: known.NeedsID, NoIDLE: known.NoIDLE,
		PasswordFrom: d.services.inboxes.Reference(in),
		Proxy:        string(cfg.IMAP.Proxy), RootCAs: trust.roots, Sessions: trust.sessions,
		Fingerprint: certs.Fingerprint(in.TLSFingerprint), ClientCert: trust.client,
		Certificate: d.services.certificateOf(in.ID),
		DialTimeout: cfg.IMAP.DialTimeout, IdleTimeout: cfg.IMAP.IdleTimeout,
		MaxSize:    int64(cfg.Forward.MaxSize),
		ClientName: "postrider", ClientVersion: version(),
		Spooler: d.spooler, Logger: d.services.log.With("inbox", in.Address),
	})
	if err != nil {
		return nil, err // and not a nil *imapsrc.Conn
	}
	return conn, nil
}

// connect logs in to one inbox.
func (s *services) connect(ctx context.Context, in inbox.Inbox) (session, error) {
	return s.dialer().dial(ctx, in)
}

// notices reports whether messages that are too large are announced.
func notices(cfg *config.Config) bool { return cfg.Forward.TooLarge == "notice" }

func style(cfg *config.Config) route.Style {
	return route.Style{Mode: cfg.Forward.Mode, Fallback: cfg.Forward.Fallback, Resent: cfg.Forward.Resent}
}

// pass wires one run. The relay is the caller's to close.
func (s *services) pass(
	ctx context.Context, relay *forward.Relay, observer pass.Observer, dryRun bool,
) (*pass.Pass, error) {
	table, err := s.routes(ctx)
	if err != nil {
		return nil, err
	}
	made, err := composer(s.cfg, resolver(s.cfg))
	if err != nil {
		return nil, err
	}
	d, queue := s.dialer(), s.meter.Queue(s.queue)
	return &pass.Pass{
		Config:  s.passConfig(dryRun),
		Inboxes: s.inboxes, Queue: queue, Bounces: s.bounces(queue), Routes: table, Composer: made,
		Relay: pass.SMTP{Relay: relay}, Limits: s.quota,
		Dial: func(ctx context.Context, in inbox.Inbox) (pass.Source, error) { return d.dial(ctx, in) },
		Now:  time.Now, Log: s.log, Observer: observer,
	}, nil
}

func (s *services) passConfig(dryRun bool) pass.Config {
	cfg, rules := s.cfg, s.cfg.EventRules()
	return pass.Config{
		Worker: s.worker(), Lease: cfg.Concurrency.Lease, Page: cfg.Concurrency.Page,
		Turns: s.turns(), Senders: cfg.SMTP.Connections,
		MaxSize: int64(cfg.Forward.MaxSize), Notices: notices(cfg), MaxReceived: cfg.Forward.MaxReceived,
		Dedupe: cfg.Dedupe, Style: style(cfg), Policy: policy(cfg), DryRun: dryRun,
		Retention: pass.Retention{
			Forwarded: time.Duration(cfg.Retention.Forwarded), Events: time.Duration(cfg.Retention.Events),
		},
		Headers: func(in inbox.Inbox) bool { return plan.IncludeHeaders(rules, in) },
	}
}

// turns are how many inboxes are worked on at once.
func (s *services) turns() pass.Turns {
	limit := s.cfg.Concurrency
	perAccount := func(in inbox.Inbox) int { return account.Of(in.Host).Connections } // as the provider allows
	return pass.Turns{Inboxes: limit.Inboxes, PerHost: limit.PerHost, PerAccount: perAccount}
}

// routes are those of the configuration, with the current directory if one of them asks for it.
func (s *services) routes(ctx context.Context) (*route.Table, error) {
	if !s.cfg.Table.UsesContacts() {
		return s.cfg.Table, nil
	}
	all, err := s.people.List(ctx)
	if err != nil {
		return nil, err
	}
	directory, faults := contacts.Directory(all)
	if len(faults) > 0 && !s.news(ctx, "contacts") {
		faults = nil
	}
	for _, f := range faults {
		s.log.Warn("a contact in the database is invalid; its invalid parts are not used", "error", text.Error(f))
	}
	return s.cfg.Table.With(directory), nil
}

func policy(cfg *config.Config) tasks.Policy {
	return tasks.Policy{
		MaxAttempts: cfg.Retry.MaxAttempts, GiveUpAfter: cfg.Retry.GiveUpAfter,
		Base: cfg.Retry.Base, Max: cfg.Retry.Max, MaxLostLeases: cfg.Retry.MaxLostLeases,
		Hold: cfg.Forward.Uncertain == route.Hold, Jitter: mathrand.Float64,
	}
}

// worker is a name to claim and to lock by, another one at each call. Two workers with the same
// name would share leases.
func (s *services) worker() string {
	return fmt.Sprintf("%s:%d:%s", s.host(), os.Getpid(), rand.Text()[:8])
}
