package cmd

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"slices"
	"strings"

	"postrider/internal/address"
	"postrider/internal/arc"
	"postrider/internal/config"
	"postrider/internal/dmarc"
	"postrider/internal/forward"
	"postrider/internal/message"
	"postrider/internal/metrics"
)

// checkSending checks the relay. The tokens for OAuth2 are in the database.
func (a *app) checkSending(ctx context.Context, s *services) ([]finding, error) {
	if s.cfg.SMTP.Auth == "oauth" {
		if opened, err := a.open(ctx); err == nil {
			defer opened.close()
			s = opened
			s.patience = operatorPatience
		}
	}
	found, err := checkRelay(ctx, s)
	for _, f := range found {
		a.report(f)
	}
	return found, err
}

// checkOptional checks what not every configuration has.
func (a *app) checkOptional(ctx context.Context, cfg *config.Config) (found []finding) {
	add := func(f finding) {
		a.report(f)
		found = append(found, f)
	}
	if len(cfg.Hook) > 0 {
		add(checkHook(cfg.Hook))
	}
	if file := cfg.Metrics.TextFile; file != "" {
		add(finding{what: "metrics.textfile", text: file, err: metrics.CheckFile(file)})
	}
	if cfg.Web.Set() {
		add(checkPage(cfg))
	}
	if cfg.Auto() {
		add(checkDNS(ctx, cfg))
	}
	return found
}

// checkTemporary writes a temporary file, as a large message does. Success is not a finding: the
// exit code is 1 if everything that the configuration names fails.
func (a *app) checkTemporary() []finding {
	f := finding{what: "temporary files", text: os.TempDir(), err: (&message.Spooler{}).Check()}
	a.report(f)
	if f.err == nil {
		return nil
	}
	return []finding{f}
}

// checkDKIM shows the record that the DNS needs, and does not look it up. A key of another domain
// is not an error: the relay may ask for it.
func (a *app) checkDKIM(cfg *config.Config) {
	if cfg.Key == nil {
		return
	}
	name, record := cfg.Key.Record()
	says := fmt.Sprintf("signs by the TXT record %s (not looked up), which has to be: %s", name, record)
	a.report(finding{what: "dkim", text: says})
	_, from, err := address.ParseNamed(cfg.Forward.From)
	if err != nil || dmarc.Aligned(from.Domain(), cfg.DKIM.Domain) {
		return // without forward.from nothing is composed
	}
	a.notes("dkim", fmt.Sprintf("for DMARC a signature of %s does not count, because mail is from %s (forward.from): "+
		"set dkim.domain to %s", cfg.DKIM.Domain, from.Text, from.Domain()))
}

// checkARC asks the DNS for the key of arc: without it each seal is invalid.
func (a *app) checkARC(ctx context.Context, cfg *config.Config) []finding {
	if cfg.Sealer == nil {
		return nil
	}
	key := cfg.Sealer.Key
	ctx, cancel := context.WithTimeout(ctx, dmarc.Patience)
	defer cancel()
	name, record := key.Record()
	f := finding{what: "arc", text: fmt.Sprintf("seals by the TXT record %s, which is in the DNS: %s", name, record)}
	f.err = arc.Published(ctx, resolver(cfg), key)
	a.report(f)
	if !cfg.Redirects() {
		a.notes("arc", "seals nothing: only redirected messages are sealed, and no route redirects (forward.mode)")
	}
	return []finding{f}
}

// checkDNS asks what mode auto would ask about our own mail.
func checkDNS(ctx context.Context, cfg *config.Config) finding {
	_, own, err := address.ParseNamed(cfg.Forward.From)
	if err != nil {
		return finding{what: "dns", err: err}
	}
	says, err := dmarc.NewJudge(resolver(cfg)).Policy(ctx, own.Domain())
	if err != nil {
		err = fmt.Errorf("%w; without an answer, mode auto redirects only messages with a valid DKIM signature "+
			"of exactly the domain in From; let this host query the DNS, or set dns.server", err)
	}
	return finding{what: "dns", text: "answers: " + says, err: err}
}

// checkRelay does all of a transaction but its content.
func checkRelay(ctx context.Context, s *services) ([]finding, error) {
	f := finding{what: "relay"}
	relay, err := s.relay()
	if err != nil {
		return nil, err
	}
	defer func() { _ = relay.Close() }()
	to := s.cfg.Table.Recipients()
	for _, operator := range s.cfg.Notify.To {
		if !slices.Contains(to, operator) {
			to = append(to, operator)
		}
	}
	info, err := relay.Info(ctx, to)
	if err != nil {
		f.err = err
		return []finding{f}, nil
	}
	f.text = info.String()
	if o := info.NotNow; o != nil {
		f = refusal(f, *o, "ask its operator")
	}
	found := slices.Concat([]finding{f}, noNull(s.cfg, info), noDSN(s.cfg, info))
	for _, o := range info.Refused {
		found = append(found, recipientFinding(o))
	}
	if s.cfg.Forward.EnvelopeFrom == forward.Keep {
		found = append(found, finding{
			what: "relay", note: true,
			text: "envelope_from is keep: it may refuse the senders of other messages, which were not tried",
		})
	}
	return found, nil
}

// recipientFinding is a recipient that the relay did not accept.
func recipientFinding(o forward.Outcome) finding {
	f := finding{what: "recipient " + o.Recipient, text: o.Reply}
	if o.Code != 0 {
		f.text = "the relay answers " + o.Said()
	}
	return refusal(f, o, "correct the address in routes or notify, or ask the relay's operator")
}

// refusal makes a finding a note if the reply in its text is temporary, because relays with
// greylisting defer each new sender. Otherwise it is a failure.
func refusal(f finding, o forward.Outcome, fix string) finding {
	if o.Code/100 == 4 {
		f.note = true
		f.text = strings.TrimSuffix(f.text+"; a run tries again until it is accepted; "+o.Fix, "; ")
		return f
	}
	f.err = fmt.Errorf("%s; %s", f.text, cmp.Or(o.Fix, fix))
	return f
}

// noNull is a finding if the relay refuses the null reverse-path: a failure if notices are sent,
// because they have no other, else a note.
func noNull(cfg *config.Config, info forward.Info) []finding {
	if info.NoNull == nil {
		return nil
	}
	f := finding{what: "relay", text: "it refuses MAIL FROM:<> (" + info.NoNull.Said() + ")"}
	if len(cfg.Notify.To) > 0 {
		f.err = fmt.Errorf("%s: notices to notify.to are not sent; ask its operator to accept the null reverse-path "+
			"(RFC 5321 4.5.5), or set hook to be notified without mail", f.text)
	} else {
		f.note, f.text = true, f.text+": bounces and other automatic answers go out with the configured sender; "+
			"ask its operator to accept the null reverse-path (RFC 5321 4.5.5)"
	}
	return []finding{f}
}
