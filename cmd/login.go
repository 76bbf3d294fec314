package cmd

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"runtime"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"postrider/internal/imapsrc"
	"postrider/internal/inbox"
	"postrider/internal/oauth"
	"postrider/internal/terminal"
	"postrider/internal/text"
	"postrider/internal/tokens"
)

type loginOptions struct {
	noBrowser bool
	account   string
	timeout   time.Duration
}

// register adds the flags. may is what the account may do.
func (o *loginOptions) register(c *cobra.Command, may string) {
	c.Flags().BoolVar(&o.noBrowser, "no-browser", false,
		"the browser is on another host: paste the address at which it ends")
	c.Flags().StringVar(&o.account, "account", "",
		"log in with the account `ADDR`, which may "+may+"; later logins expect it, too")
	c.Flags().DurationVar(&o.timeout, "timeout", 0,
		"give up when there was no login within the duration `D`, such as 5m "+
			"(default 10m with a browser, else when the code expires)")
}

const sharedMailbox = "open this mailbox (a shared one)"

const loginHelp = `

The application in the section oauth decides how: with a code that you enter on
any device, or in a browser on this host. If this host has no browser, use
--no-browser: open the page elsewhere, log in, and paste the address that the
browser shows at the end, even if it shows an error. The tokens are stored
encrypted and renewed automatically.
`

func (a *app) inboxLoginCommand() *cobra.Command {
	var opts loginOptions
	c := &cobra.Command{
		Use:   "login ADDR [--no-browser]",
		Short: "Log in to an inbox with OAuth2",
		Long: "login logs in to an inbox that was added with --oauth, for the first time or\nagain." +
			loginHelp + exitHelp,
		Args:              takes(1, "the ADDR of one inbox"),
		ValidArgsFunction: a.addresses,
		RunE: func(c *cobra.Command, args []string) error {
			return a.with(c.Context(), func(s *services) error {
				in, err := s.inboxes.Get(c.Context(), args[0])
				if err != nil {
					return err
				}
				return a.inboxLogin(c.Context(), s, in, opts)
			})
		},
	}
	opts.register(c, sharedMailbox)
	return c
}

func (a *app) inboxLogin(ctx context.Context, s *services, in inbox.Inbox, opts loginOptions) error {
	acct, err := s.account(in)
	if err != nil {
		return err
	}
	if acct == nil {
		return usage(fmt.Errorf("inbox %s logs in with a password; "+
			"to use OAuth2: `postrider inbox set %s --oauth NAME`",
			in.Address, text.Arg(in.Address)))
	}
	if err := a.logIn(ctx, s, *acct, namesOf(in), opts); err != nil {
		return err
	}
	conn, err := s.connect(ctx, in)
	if err != nil {
		return fmt.Errorf("the login is stored, but logging in to the server with it failed: %w", err)
	}
	_ = conn.Close()
	a.tell("Logged in to %s.\n", in.Address)
	return nil
}

func (a *app) smtpCommand() *cobra.Command {
	return group("smtp", "Log in to the relay", a.smtpLoginCommand())
}

func (a *app) smtpLoginCommand() *cobra.Command {
	var opts loginOptions
	c := &cobra.Command{
		Use:   "login [--no-browser]",
		Short: "Log in to the relay with OAuth2",
		Long: "login logs in to the relay with OAuth2, for the first time or again. It needs\n" +
			"smtp.auth: oauth and smtp.oauth." + loginHelp + exitHelp,
		Args: takesNone,
		RunE: func(c *cobra.Command, _ []string) error {
			return a.withNew(c.Context(), func(s *services) error {
				acct, err := s.relayAccount()
				if err != nil {
					return err
				}
				if err := a.logIn(c.Context(), s, acct, []string{acct.Name}, opts); err != nil {
					return err
				}
				a.tell("Logged in to the relay as %s. To test it: postrider check\n", acct.Name)
				return nil
			})
		},
	}
	opts.register(c, "send as the relay's username")
	return c
}

// namesOf are the names that the account of an inbox may have.
func namesOf(in inbox.Inbox) []string { return []string{in.Username, in.Address} }

// firstLogin is the login of an inbox that is not stored yet, and what gives out its token. An
// application that acts for itself has nothing to store with the inbox.
func (a *app) firstLogin(
	ctx context.Context, s *services, draft inbox.Inbox, name string, opts loginOptions,
) (*oauth.Token, imapsrc.Token, error) {
	app, err := s.app(name)
	if err != nil {
		return nil, nil, err
	}
	acct := tokens.ForInbox(draft, app)
	if !app.Personal() {
		access, err := s.tokens.Try(ctx, acct)
		return nil, only(access), err
	}
	got, err := a.askLogin(ctx, acct, namesOf(draft), opts)
	return &got, only(got.Access), err
}

// only gives out one token.
func only(access string) imapsrc.Token {
	return func(context.Context, string) (string, error) { return access, nil }
}

// storeLogin stores the login of an inbox that was added just now.
func (s *services) storeLogin(ctx context.Context, in inbox.Inbox, login oauth.Token, by string) error {
	acct, err := s.account(in)
	if err == nil {
		err = s.tokens.LoggedIn(context.WithoutCancel(ctx), *acct, login, by)
	}
	if err != nil {
		return fmt.Errorf("inbox %s was added, but without its login: %w; log in again with `postrider inbox login %s`",
			in.Address, err, text.Arg(in.Address))
	}
	return nil
}

// logIn asks a person to log in, and stores the token. names are the names that the account may
// have. If another account logged in for it the last time, that account is expected again.
func (a *app) logIn(ctx context.Context, s *services, acct tokens.Account, names []string, opts loginOptions) error {
	opts.account = cmp.Or(opts.account, s.tokens.By(ctx, acct))
	got, err := a.askLogin(ctx, acct, names, opts)
	if err != nil {
		return err
	}
	return s.tokens.LoggedIn(context.WithoutCancel(ctx), acct, got, opts.account)
}

// askLogin has a person log in, and stores nothing.
func (a *app) askLogin(
	ctx context.Context, acct tokens.Account, names []string, opts loginOptions,
) (oauth.Token, error) {
	var none oauth.Token
	if !acct.App.Personal() {
		return none, usage(fmt.Errorf("there is no login: oauth.%s gets its tokens by %s; to test it: postrider check",
			acct.App.Name, acct.App.Way()))
	}
	if opts.account != "" {
		names = []string{opts.account}
	}
	ctx, stop := untilSignal(ctx)
	defer stop()
	waiting, cancel := ctx, func() {}
	if opts.timeout > 0 {
		waiting, cancel = context.WithTimeout(ctx, opts.timeout)
	}
	defer cancel()
	grant, err := acct.App.Login(waiting, acct.Use, names[0], operator{a}, !opts.noBrowser)
	if err != nil && ctx.Err() == nil && waiting.Err() != nil {
		return none, fmt.Errorf("there was no login as %s within %s; nothing was stored; log in again",
			acct.Name, opts.timeout)
	}
	if err != nil && ctx.Err() != nil {
		return none, fmt.Errorf("the login of %s was stopped; nothing was stored", acct.Name)
	}
	if err != nil {
		return none, fmt.Errorf("log in as %s: %w", acct.Name, err)
	}
	if len(grant.Names) == 0 {
		_, _ = fmt.Fprintf(a.err, "The provider does not say who logged in: it has to be %s.\n", names[0])
	}
	var other *oauth.OtherAccountError
	if errors.As(grant.Of(names...), &other) {
		return none, fmt.Errorf("%w: nothing was stored; log in again as %s, best in a private window. "+
			"If %s is to log in for %s from now on, add --account %[3]s", other, other.Meant, other.Who, acct.Name)
	}
	return grant.Token, nil
}

// operator is whoever sits at the terminal.
type operator struct{ *app }

func (p operator) Enter(page, code string, until time.Time) {
	end := ""
	if !until.IsZero() {
		end = fmt.Sprintf(" (it is valid until %s)", until.Local().Format(time.TimeOnly))
	}
	_, _ = fmt.Fprintf(p.err, "Open this page on any device, and enter the code %s there%s:\n\n    %s\n\n"+
		"Waiting for the login...\n", code, end, page)
}

func (p operator) Visit(page string) {
	_, _ = fmt.Fprintf(p.err, "Log in with the browser on this host, at this page. "+
		"(Without one: Ctrl-C, and again with --no-browser.)\n\n    %s\n\nWaiting for the login...\n", page)
	if !terminal.Is(p.err) {
		return
	}
	var open *exec.Cmd
	switch runtime.GOOS {
	case "windows":
		open = exec.Command("rundll32", "url.dll,FileProtocolHandler", page)
	case "darwin":
		open = exec.Command("open", page)
	default:
		open = exec.Command("xdg-open", page)
	}
	if open.Start() == nil { // else the person opens it
		go func() { _ = open.Wait() }()
	}
}

func (p operator) Paste(ctx context.Context, page string) (string, error) {
	_, _ = fmt.Fprintf(p.err, "Open this page in any browser, and log in:\n\n    %s\n\n"+
		"The browser ends at an address that begins with http://localhost or\n"+
		"http://127.0.0.1, and shows an error there. Paste that address here:\n> ", page)
	type line struct {
		text string
		err  error
	}
	got := make(chan line, 1)
	go func() {
		const longest = 16 << 10
		text, err := bufio.NewReader(io.LimitReader(p.in, longest)).ReadString('\n')
		if errors.Is(err, io.EOF) && strings.TrimSpace(text) != "" {
			err = nil
		}
		got <- line{text, err}
	}()
	select {
	case l := <-got:
		if errors.Is(l.err, io.EOF) {
			l.err = errors.New("no address was given")
		}
		return l.text, l.err
	case <-ctx.Done():
		return "", context.Cause(ctx)
	}
}

func (a *app) tellLogin(s *services, done string, in inbox.Inbox) error {
	acct, err := s.account(in)
	if err != nil {
		return err
	}
	next := "To test it: postrider inbox check " + text.Arg(in.Address)
	if acct.App.Personal() {
		next = "To log in: " + acct.Login
	}
	a.tell("%s %s. %s\n", done, in.Address, next)
	return nil
}

// knowsApp fails for the name of an application that the configuration does not have.
func (s *services) knowsApp(name string) error {
	if name == "" {
		return nil
	}
	_, err := s.app(name)
	return err
}
