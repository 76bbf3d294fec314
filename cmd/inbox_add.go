package cmd

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"postrider/internal/account"
	"postrider/internal/address"
	"postrider/internal/imapsrc"
	"postrider/internal/inbox"
	"postrider/internal/oauth"
	"postrider/internal/pass"
	"postrider/internal/proxy"
	"postrider/internal/secret"
	"postrider/internal/text"
)

// addFlags are how an inbox is added.
type addFlags struct {
	yes, noCheck bool
	login        loginOptions
}

func (f *addFlags) register(c *cobra.Command) {
	c.Flags().BoolVar(&f.yes, "yes", false, "without --host: do not ask whether the server that was found is right")
	c.Flags().BoolVar(&f.noCheck, "no-check", false, "do not log in, for scripts")
	f.login.register(c, sharedMailbox)
}

// needHost refuses settings of a server that is still to be found.
func (f *inboxFlags) needHost() error {
	if f.host == "" && (f.port != 0 || f.security != "" || f.allowPlaintext) {
		return usage(errors.New("--port, --security and --allow-plaintext are for the server of --host; " +
			"give --host, too, or none of them"))
	}
	return nil
}

// finder asks the DNS server of mode auto, and uses the proxy and the certificates of IMAP.
func (s *services) finder() account.Finder {
	dns, roots := resolver(s.cfg), s.cfg.IMAP.Roots
	dialer := proxy.Dialer{Proxy: string(s.cfg.IMAP.Proxy), RootCAs: roots, Resolver: dns.Resolver}
	return account.Finder{DNS: dns, HTTP: &http.Transport{
		DialContext: func(ctx context.Context, _, addr string) (net.Conn, error) {
			return dialer.Dial(ctx, addr)
		},
		TLSClientConfig:   &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12},
		DisableKeepAlives: true, DisableCompression: true, MaxResponseHeaderBytes: 64 << 10,
	}}
}

// withServer is the inbox with its server; one that had to be found has to be confirmed.
func (a *app) withServer(ctx context.Context, s *services, in inbox.Inbox, yes bool) (inbox.Inbox, error) {
	if in.Host != "" {
		return in, nil
	}
	parsed, err := address.Parse(strings.TrimSpace(in.Address))
	if err != nil {
		return in, usage(err)
	}
	found, err := s.finder().Find(ctx, parsed.Domain())
	var nothing *account.NotFoundError
	if errors.As(err, &nothing) {
		return in, usage(fmt.Errorf("%s; give it with --host HOST", text.Error(err)))
	}
	if err != nil {
		return in, err
	}
	s.log.Info("found the IMAP server", "inbox", in.Address, "server", found.IMAP.String(), "source", found.Source)
	if err := a.confirmServer(in.Address, found, yes); err != nil {
		return in, err
	}
	in.Host, in.Port, in.Security = found.IMAP.Host, found.IMAP.Port, inbox.Security(found.IMAP.Security)
	if found.LocalPart && in.Username == "" {
		in.Username = in.Address[:strings.LastIndexByte(in.Address, '@')]
	}
	return in, nil
}

// confirmServer shows the server that was found. What only the DNS says needs an answer, or --host.
func (a *app) confirmServer(address string, found account.Found, yes bool) error {
	what := fmt.Sprintf("the IMAP server of %s seems to be %s (%s)", address, found.IMAP, found.Source)
	if found.Foreign {
		what += ", which is outside of its domain: only the DNS says so, which others may forge"
	}
	if a.terminal() == nil && (!yes || found.Foreign) {
		agree := "add --yes, or "
		if found.Foreign {
			agree = ""
		}
		return usage(fmt.Errorf("%s; there is no terminal to confirm it on: %s--host %s --port %d --security %s",
			what, agree, found.IMAP.Host, found.IMAP.Port, found.IMAP.Security))
	}
	a.tell("%s.\n%s", strings.ToUpper(what[:1])+what[1:], providerFacts(found.Preset))
	return a.confirm(yes && !found.Foreign, "Use this server?")
}

// providerFacts is a line about logins and limits; empty for an unknown provider.
func providerFacts(p *account.Preset) string {
	if p == nil {
		return ""
	}
	line := fmt.Sprintf("Logins at %s: %s.", p.Name, strings.Join(text.Strings(p.Logins), " or "))
	if p.Connections > 0 {
		line += fmt.Sprintf(" At most %d connections for an account.", p.Connections)
	}
	return line + "\n"
}

// tryInbox logs in with what would be stored, and shows what the first run would forward. With
// OAuth2 a person logs in first; then login is what has to be stored with the inbox.
func (a *app) tryInbox(
	ctx context.Context, s *services, in inbox.Inbox, password, app string, how loginOptions,
) (login *oauth.Token, err error) {
	draft, resolved, err := s.inboxes.Draft(ctx, in, password)
	if err != nil && !secret.IsCommand(password) { // a file or a variable
		err = usage(err)
	}
	if err != nil {
		return nil, err
	}
	var token imapsrc.Token
	if app != "" {
		if login, token, err = a.firstLogin(ctx, s, draft, app, how); err != nil {
			return nil, fmt.Errorf("inbox %s was not added: %w", draft.Address, err)
		}
	}
	return login, a.lookInto(ctx, s, draft, resolved, token)
}

func (a *app) lookInto(
	ctx context.Context, s *services, draft inbox.Inbox, password string, token imapsrc.Token,
) error {
	d := s.dialer()
	check := pass.Look(ctx, func(ctx context.Context, in inbox.Inbox) (session, error) {
		return d.login(ctx, in, password, token)
	}, draft)
	if check.Error != "" {
		return fmt.Errorf("inbox %s was not added: %s", draft.Address, check.Error)
	}
	for _, f := range check.Watched {
		if f.Error == "" {
			continue
		}
		err := fmt.Errorf("inbox %s was not added: %s", draft.Address, text.Line(f.Error))
		if f.Missing {
			return usage(err)
		}
		return err
	}
	a.showPlan(draft, check)
	return nil
}

func (a *app) showPlan(in inbox.Inbox, check pass.InboxCheck) {
	now := time.Now()
	when := func(t time.Time) string { return day(t.Local(), now) }
	a.tell("Logged in to %s.\nFolders: %s\n", text.Line(check.Server), folderList(check))
	for _, f := range check.Watched {
		a.tell("%s: %s\n", text.Line(f.Name), text.Line(f.Plan(in.Start, when)))
	}
	if in.Start == inbox.StartLatest || in.Start == inbox.StartNow {
		a.tell("Mail that arrives before the first run counts as old.\n")
	}
}

// folderList is like "INBOX (4), Junk (0), Archive"; folders without a number were not counted.
func folderList(c pass.InboxCheck) string {
	var list []string
	for _, name := range c.Folders {
		if n, ok := c.Counts[name]; ok {
			name += fmt.Sprintf(" (%d)", n)
		}
		list = append(list, name)
	}
	return text.Line(strings.Join(list, ", "))
}

// day is a time for people who want to recognise a message.
func day(t, now time.Time) string {
	if t.Format(time.DateOnly) == now.Format(time.DateOnly) {
		return t.Format("today 15:04")
	}
	return t.Format("2006-01-02 15:04")
}
