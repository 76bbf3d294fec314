package imapsrc

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/emersion/go-imap/v2"
	"github.com/emersion/go-sasl"

	"postrider/internal/bearer"
)

// login tries once, with one mechanism. A second attempt with the same password could lock the
// account.
func (c *Conn) login(ctx context.Context) error {
	return c.tryLogin(ctx, c.authenticate, c.loginFailure)
}

// tryLogin logs in, unless the server needs no login. refused explains a refusal.
func (c *Conn) tryLogin(
	ctx context.Context, authenticate func(imap.CapSet) error, refused func(*imap.Error) error,
) error {
	return c.do(ctx, "log in as "+c.cfg.Username, loginAnswer, func() error {
		if c.client.State() == imap.ConnStateAuthenticated { // PREAUTH (RFC 3501 7.1.4)
			return nil
		}
		caps := c.client.Caps()
		if caps == nil {
			return errors.New("the server does not list its capabilities")
		}
		err := authenticate(caps)
		c.listed = c.wire.capabilitiesListed()
		var no *imap.Error
		if errors.As(err, &no) {
			return refused(no)
		}
		return err
	})
}

// authenticate prefers AUTHENTICATE PLAIN to LOGIN (RFC 3501 6.2.3), because it allows any octet in
// a password.
func (c *Conn) authenticate(caps imap.CapSet) error {
	plain, login := caps.Has(imap.AuthCap(sasl.Plain)), !caps.Has(imap.CapLoginDisabled)
	offered := authMechanisms(caps)
	if login {
		offered = append(offered, "LOGIN")
	}
	list := clean(strings.Join(offered, " "))
	switch auth := c.cfg.Auth; {
	case !plain && !login && c.cfg.Security == SecurityNone:
		return &Error{Kind: KindPlaintext, Err: errors.New("the server accepts no password on an unencrypted " +
			"connection; use security tls or starttls")}
	case !plain && !login:
		return &Error{Kind: KindAuth, Err: fmt.Errorf("the server accepts no password (it offers %s); %s",
			list, cmp.Or(c.cfg.Hint, c.noPassword(caps)))}
	case auth == "plain" && !plain, auth == "login" && !login:
		return &Error{Kind: KindAuth, Err: fmt.Errorf("the server does not offer %s (it offers %s); "+
			"to use what it offers: %s",
			strings.ToUpper(auth), list, c.set("--auth auto"))}
	case plain && auth != "login":
		return c.client.Authenticate(sasl.NewPlainClient("", c.cfg.Username, c.cfg.Password))
	}
	return c.client.Login(c.cfg.Username, c.cfg.Password).Wait()
}

// noPassword says what to do about an account that accepts no password.
func (c *Conn) noPassword(caps imap.CapSet) string {
	if !caps.Has(imap.AuthCap(bearer.XOAuth2)) && !caps.Has(imap.AuthCap(bearer.OAuthBearer)) {
		return "this account cannot log in with one"
	}
	return useOAuth
}

const useOAuth = "use OAuth2: set up an application in the configuration, and give --oauth NAME"

func authMechanisms(caps imap.CapSet) []string {
	var list []string
	for _, name := range caps.AuthMechanisms() {
		list = append(list, "AUTH="+name)
	}
	slices.Sort(list)
	return list
}

// loginFailure says why the server refused the login (RFC 5530), and how to fix it.
func (c *Conn) loginFailure(no *imap.Error) error {
	fix := "set it with " + c.set("--password-stdin")
	switch {
	case c.cfg.OnlyOAuth && c.cfg.Unstored:
		fix = useOAuth
	case c.cfg.OnlyOAuth:
		fix = "set up an application in the configuration, then " + c.set("--oauth NAME")
	case c.cfg.Unstored:
		fix = "try again with the right one; nothing was stored"
	case c.cfg.PasswordFrom != "":
		fix = "change it in " + c.cfg.PasswordFrom
	}
	otherwise := KindAuth
	if no.Code == imap.ResponseCodeServerBug {
		otherwise = KindUnavailable
	}
	kind := kindOf(no, otherwise)
	text := c.answer(no)
	e := &Error{Kind: kind, BackOff: backOff(no.Text)}
	switch kind {
	case KindAuth:
		if c.cfg.Hint != "" {
			fix = c.cfg.Hint + "; " + fix
		}
		e.Err = fmt.Errorf("the server refused the password (%w); %s", text, fix)
	case KindExpired:
		e.Err = fmt.Errorf("the password has expired (%w); change it at the provider, then %s", text, fix)
	case KindPlaintext:
		e.Err = fmt.Errorf("the server accepts no password on an unencrypted connection (%w); "+
			"use security tls or starttls", text)
	default:
		e.Err = text
	}
	return e
}

// capabilities notes what the server can do, and whether it gets ID. The login changes the
// capabilities. Most servers list them in their answer to it (RFC 3501 7.1); the others are asked.
func (c *Conn) capabilities(ctx context.Context) error {
	return c.do(ctx, "ask for the capabilities", loginAnswer, func() error {
		caps, err := c.currentCaps()
		if err != nil {
			return err
		}
		c.caps = maps.Clone(caps)
		c.unidentified = (caps.Has(imap.CapID) || c.cfg.NeedsID) && c.cfg.ClientName != ""
		c.idles = caps.Has(imap.CapIdle) && !c.cfg.NoIDLE
		return nil
	})
}

// currentCaps does not ask if the answer to the login listed the capabilities: the library then has
// these. In any other case it may have older ones.
func (c *Conn) currentCaps() (imap.CapSet, error) {
	if c.listed {
		return c.client.Caps(), nil
	}
	return c.client.Capability().Wait()
}

// identify sends ID (RFC 2971) in one write with the first command after the login: some servers
// require it before the first SELECT, and it costs no round trip. Call answered after that command.
// A refusal does not matter; the error is a lost connection.
func (c *Conn) identify(ctx context.Context) (answered func() error) {
	if !c.unidentified {
		return func() error { return nil }
	}
	c.unidentified = false
	c.wire.hold()
	cmd := c.client.ID(&imap.IDData{Name: c.cfg.ClientName, Version: c.cfg.ClientVersion})
	c.wire.release()
	return func() error {
		id, err := cmd.Wait()
		var no *imap.Error
		if err != nil && !errors.As(err, &no) {
			return err
		}
		if c.server = clean(c.redact(id.Name + " " + id.Version)); c.server != "" {
			c.cfg.Logger.DebugContext(ctx, "the server identified itself", "software", c.server)
		}
		return nil
	}
}
