package imapsrc

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/emersion/go-imap/v2"

	"postrider/internal/bearer"
)

// Token returns an OAuth2 access token for the account. refused is the token that the server
// refused just now, and empty at first; when there is no other token, it is returned again.
// An error with a method NeedsLogin says that a person has to log in.
type Token func(ctx context.Context, refused string) (string, error)

type needsLogin interface {
	error
	NeedsLogin()
}

// newToken asks for an access token. refused is the last one, which the server refused, and by its
// answer; at first they are empty.
func (c *Conn) newToken(ctx context.Context, refused string, by error) error {
	if c.cfg.Token == nil {
		return nil
	}
	token, err := c.cfg.Token(ctx, refused)
	kind := KindToken
	if errors.As(err, new(needsLogin)) {
		kind = KindLogin
	}
	switch {
	case err != nil && ctx.Err() != nil:
		return c.failure(ctx, opToken, ctx.Err())
	case err != nil && by != nil:
		said, _ := errors.AsType[answer](by)
		err = fmt.Errorf("the server refused the access token (%w), and there is no new one: %w", said, err)
		fallthrough
	case err != nil:
		return c.failure(ctx, opToken, &Error{Kind: kind, Err: err})
	}
	c.token = token
	return nil
}

// bearerLogin tries a token, and once more with a new one when the server refuses it: it may have
// been revoked, or the clocks may differ.
func (c *Conn) bearerLogin(ctx context.Context) error {
	err := c.tryToken(ctx)
	if KindOf(err) != KindAuth || !c.presented {
		return err
	}
	refused := c.token
	if failed := c.newToken(ctx, refused, err); failed != nil {
		return failed
	}
	if c.token == refused {
		return err
	}
	return c.tryToken(ctx)
}

func (c *Conn) tryToken(ctx context.Context) error {
	login := c.bearer()
	return c.tryLogin(ctx, func(caps imap.CapSet) error {
		var offered []string
		for _, m := range caps.AuthMechanisms() {
			offered = append(offered, strings.ToUpper(m))
		}
		login.Mechanism = bearer.Choose(offered)
		if login.Mechanism == "" {
			return &Error{Kind: KindAuth, Err: fmt.Errorf("the server takes no access tokens "+
				"(it offers %s, and neither XOAUTH2 nor OAUTHBEARER); this account needs a password",
				clean(strings.Join(authMechanisms(caps), " ")))}
		}
		c.presented = true
		return c.client.Authenticate(saslLogin{login})
	}, func(no *imap.Error) error { return c.tokenRefused(no, login) })
}

func (c *Conn) bearer() *bearer.Login {
	return &bearer.Login{Username: c.cfg.Username, Host: c.cfg.Host, Port: c.cfg.Port, Token: c.token}
}

// tokenRefused says why the server refused the token. Some servers answer BAD after their error
// challenge.
func (c *Conn) tokenRefused(no *imap.Error, login *bearer.Login) error {
	said := c.answer(no)
	kind := kindOf(no, KindAuth)
	if login.Refusal() != "" {
		kind, said = KindAuth, fmt.Errorf("%w; %s", said, c.redact(login.Refusal()))
	}
	if kind != KindAuth {
		return &Error{Kind: kind, Err: said, BackOff: backOff(no.Text)}
	}
	return &Error{Kind: KindAuth, Err: fmt.Errorf("the server refused the access token (%w); "+
		"check that the account may use IMAP, that %s is its name there, "+
		"and that the application has the permission for IMAP", said, c.cfg.Username)}
}

// saslLogin is a SASL login in the form that the library needs.
type saslLogin struct{ *bearer.Login }

func (l saslLogin) Start() (mechanism string, initial []byte, _ error) {
	return l.Mechanism, l.Initial(), nil
}

func (l saslLogin) Next(challenge []byte) ([]byte, error) { return l.Answer(challenge), nil }
