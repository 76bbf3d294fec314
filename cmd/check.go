package cmd

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"postrider/internal/address"
	"postrider/internal/config"
	"postrider/internal/dmarc"
	"postrider/internal/inbox"
	"postrider/internal/route"
)

func (a *app) checkCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "check",
		Short: "Check the configuration, the database, each inbox's login, the relay and, for mode auto, the DNS",
		Long: `check tries all that a run depends on and prints one line each, with the fix where something
fails. It proves that the database's user may write, and changes nothing. It forwards nothing: the
relay is asked for the sender (forward.envelope_from), and for no recipient. What it has against a
sender but says only then, as many do, the first run tells.
The exit code is 75 when something fails, and 1 when everything does.
` + exitHelp,
		Args: takesNone,
		RunE: func(c *cobra.Command, _ []string) error { return a.check(c.Context()) },
	}
}

// finding is one line of the check.
type finding struct {
	what string // "inbox desk@firm.example"
	text string // what was found
	note bool   // nothing is wrong, but worth a look
	err  error
}

func (a *app) check(ctx context.Context) error {
	path, err := config.Find(a.config, a.env)
	if err != nil {
		return usage(err)
	}
	cfg, err := a.loadConfig()
	if err != nil {
		return err
	}
	log, err := a.logger()
	if err != nil {
		return err
	}
	if err := cmp.Or(a.report(finding{what: "configuration", text: path}), a.reportUnreached(cfg)); err != nil {
		return err
	}
	found, err := a.checkStored(ctx, cfg)
	if err != nil {
		return err
	}
	relay, err := checkRelay(ctx, &services{cfg: cfg, log: log, patience: 30 * time.Second}) // somebody is waiting
	if err != nil {
		return err
	}
	if err := a.report(relay); err != nil {
		return err
	}
	if err := a.checkDKIM(cfg); err != nil {
		return err
	}
	found = append(found, relay)
	if len(cfg.Hook) > 0 {
		hook := checkHook(cfg.Hook)
		if err := a.report(hook); err != nil {
			return err
		}
		found = append(found, hook)
	}
	if cfg.Auto() {
		dns := checkDNS(ctx, cfg)
		if err := a.report(dns); err != nil {
			return err
		}
		found = append(found, dns)
	}
	failed := 0
	for _, f := range found {
		if f.err != nil {
			failed++
		}
	}
	return outcome(failed, len(found))
}

func (a *app) report(f finding) error {
	state, text := "ok", f.text
	switch {
	case f.err != nil:
		state, text = "FAILED", oneLine(f.err)
	case f.note:
		state = "note"
	}
	_, err := fmt.Fprintf(a.out, "%-6s  %s: %s\n", state, f.what, printable(text))
	return err
}

// reportUnreached tells of routes behind one that takes every message. Somebody may want to keep them for later.
func (a *app) reportUnreached(cfg *config.Config) error {
	table, err := route.Compile(cfg.Routes)
	if err != nil {
		return usage(err)
	}
	names, taker := table.Unreached()
	if len(names) == 0 {
		return nil
	}
	return a.report(finding{what: "routes", note: true, text: fmt.Sprintf("no message comes to %s: %s before takes every message; move it to the end, "+
		"or let it say continue: true", strings.Join(names, ", "), taker)})
}

// checkStored checks the database and the inboxes in it.
func (a *app) checkStored(ctx context.Context, cfg *config.Config) ([]finding, error) {
	where := cfg.Database.Driver
	if cfg.Database.Path != "" && where == "sqlite" {
		where += " " + cfg.Database.Path
	}
	db := finding{what: "database", text: where}
	var boxes []inbox.Inbox
	s, err := a.open(ctx)
	if err == nil {
		defer s.close()
		if err = s.db.Writable(ctx); err == nil {
			boxes, err = s.inboxes.List(ctx, true)
		}
	}
	if exitCode(err) == exitUsage {
		return nil, err
	}
	db.err = err
	if err := a.report(db); err != nil || db.err != nil {
		return []finding{db}, err
	}
	if len(boxes) == 0 {
		none := finding{what: "inboxes", text: "none is active; add one with `postrider inbox add ADDR --host HOST`"}
		return []finding{db}, a.report(none)
	}
	found, err := s.checkInboxes(ctx, boxes)
	if err != nil {
		return nil, err
	}
	table, err := route.Compile(cfg.Routes)
	if err != nil {
		return nil, usage(err)
	}
	for i, in := range boxes {
		if err := cmp.Or(a.report(found[i]), a.reportReturns(in, table)); err != nil {
			return nil, err
		}
	}
	return append(found, db), nil
}

// reportReturns tells of routes that lead back to where a message came from. That is no fault: other routes may have recipients, and
// the relay may know another mailbox by that address, as while a server is moved.
func (a *app) reportReturns(in inbox.Inbox, table *route.Table) error {
	forwards, nobody := table.Returns(in.Address)
	var texts []string
	if len(forwards) > 0 {
		texts = append(texts, fmt.Sprintf("route %s forwards to this very address (own_address: forward): if that leads back here, each message comes twice, "+
			"and is then skipped (loop); say own_address: skip to leave it out", strings.Join(forwards, ", ")))
	}
	if len(nobody) > 0 {
		texts = append(texts, fmt.Sprintf("route %s leads to nobody but this very address, which has the message already, so that by it alone it is skipped (loop): "+
			"add a recipient, say `match: {not: {inbox: %s}}`, or own_address: forward if the relay knows another mailbox by that address", strings.Join(nobody, ", "), in.Address))
	}
	for _, text := range texts {
		if err := a.report(finding{what: "inbox " + in.Address, note: true, text: text}); err != nil {
			return err
		}
	}
	return nil
}

// checkInboxes logs in to several at once, but not to more than one server bears.
func (s *services) checkInboxes(ctx context.Context, boxes []inbox.Inbox) ([]finding, error) {
	d, err := s.dialer()
	if err != nil {
		return nil, err
	}
	found := make([]finding, len(boxes))
	var group errgroup.Group
	group.SetLimit(min(s.cfg.Concurrency.Inboxes, s.cfg.Concurrency.PerHost))
	for i, in := range boxes {
		group.Go(func() error {
			f := finding{what: "inbox " + in.Address, text: "logged in to " + server(in)}
			conn, err := d.dial(ctx, in)
			if f.err = err; err == nil {
				_ = conn.Close()
			}
			found[i] = f
			return nil
		})
	}
	return found, group.Wait()
}

// checkDKIM says what has to stand in the DNS. Nothing is looked up there. A key of another domain is no fault: it may be what the
// relay asks for.
func (a *app) checkDKIM(cfg *config.Config) error {
	key, err := dkimKey(cfg)
	if key == nil || err != nil {
		return err
	}
	name, text := key.Record()
	if err := a.report(finding{what: "dkim", text: fmt.Sprintf("signs by the TXT record %s, which has to be: %s", name, text)}); err != nil {
		return err
	}
	_, from, err := address.ParseNamed(cfg.Forward.From)
	if err != nil || dmarc.Aligned(domainOf(from), cfg.DKIM.Domain) {
		return nil // without forward.from nothing is composed
	}
	return a.report(finding{what: "dkim", note: true, text: fmt.Sprintf("for DMARC a signature of %s does not count, since mail is from %s (forward.from): "+
		"set dkim.domain to %s", cfg.DKIM.Domain, from.Text, domainOf(from))})
}

// domainOf is the domain of an address, as it is written in the DNS.
func domainOf(a address.Address) string { return a.Wire[strings.LastIndexByte(a.Wire, '@')+1:] }

// checkDNS asks what mode auto would ask about mail of our own.
func checkDNS(ctx context.Context, cfg *config.Config) finding {
	_, own, err := address.ParseNamed(cfg.Forward.From)
	if err != nil {
		return finding{what: "dns", err: err}
	}
	says, err := dmarc.NewJudge(resolver(cfg)).Policy(ctx, domainOf(own))
	if err != nil {
		err = fmt.Errorf("%w; while nothing is known, mode auto redirects only what passes anyway: let this host ask the DNS, or set dns.server", err)
	}
	return finding{what: "dns", text: "answers: " + says, err: err}
}

func checkRelay(ctx context.Context, s *services) (finding, error) {
	f := finding{what: "relay"}
	relay, err := s.relay()
	if err != nil {
		return f, err
	}
	defer func() { _ = relay.Close() }()
	info, err := relay.Info(ctx)
	if err != nil {
		f.err = err
		return f, nil
	}
	f.text = info.Relay
	if info.TLS != "" {
		f.text += ", " + info.TLS
	}
	if info.Login != "" {
		f.text += ", logged in with " + info.Login
	}
	f.text += ", takes the sender " + info.Sender
	if info.MaxSize > 0 {
		f.text += fmt.Sprintf(", takes messages up to %d octets", info.MaxSize)
	}
	return f, nil
}
