package forward

import (
	"context"
	"errors"
	"fmt"

	"github.com/wneessen/go-mail/smtp"

	"postrider/internal/bearer"
)

// Token returns an OAuth2 access token for the relay. refused is the token that the relay refused
// just now, and empty at first; when there is no other token, it is returned again.
type Token func(ctx context.Context, refused string) (string, error)

// dial opens a connection that is logged in. A relay that refuses a token gets a new one, once: the
// token may have been revoked, or the clocks may differ. Its error is an *Error, or the context's.
func (r *Relay) dial(ctx context.Context) (*conn, error) {
	if r.cfg.Token == nil {
		return r.dialWith(ctx, "")
	}
	token, err := r.newToken(ctx, "", nil)
	if err != nil {
		return nil, err
	}
	c, err := r.dialWith(ctx, token)
	e, ok := errors.AsType[*Error](err)
	if !ok || e.Stage != StageAUTH || e.Code == 0 || !e.Permanent {
		return c, err
	}
	other, failed := r.newToken(ctx, token, e)
	switch {
	case failed != nil:
		return nil, failed
	case other == token:
		return nil, err
	}
	return r.dialWith(ctx, other)
}

// newToken asks for an access token. refused is the last one, which the relay refused, and by its
// reply; at first they are empty.
func (r *Relay) newToken(ctx context.Context, refused string, by *Error) (string, error) {
	token, err := r.cfg.Token(ctx, refused)
	if err != nil && by != nil {
		err = fmt.Errorf("it refused the access token (%d %s), and there is no new one: %w", by.Code, by.Reply, err)
	}
	if err != nil {
		return "", r.openFailed(ctx, &Error{Stage: StageAUTH, Err: err})
	}
	return token, nil
}

// bearerAuth logs in with the access token.
func (c *conn) bearerAuth(offered []string, list string) *Error {
	login := c.bearer()
	login.Mechanism = bearer.Choose(offered)
	if login.Mechanism == "" {
		return &Error{
			Stage: StageAUTH, Permanent: true,
			Err: fmt.Errorf("the relay offers %q, and neither XOAUTH2 nor OAUTHBEARER", short(list)),
			Fix: "set smtp.port to its submission port (465 or 587), or log in with smtp.password",
		}
	}
	c.deadline(c.cfg.Timeouts.Command)
	if err := c.smtp.Auth(smtpLogin{login}); err != nil {
		return tokenRefused(openError(StageAUTH, redact(err, c.hide())), c.hide()(login.Refusal()))
	}
	c.login = login.Mechanism
	return nil
}

func (c *conn) bearer() *bearer.Login {
	return &bearer.Login{Username: c.cfg.Username, Host: c.cfg.Host, Port: c.cfg.Port, Token: c.token}
}

// tokenRefused adds what the relay said in its error challenge.
func tokenRefused(e *Error, challenge string) *Error {
	if !e.Permanent {
		return e
	}
	e.Fix = "check that the account may use SMTP, that smtp.username is its name there, " +
		"and that the application has the permission for SMTP"
	if challenge != "" {
		e.Reply += "; " + challenge
	}
	return e
}

// smtpLogin is a login for the library.
type smtpLogin struct{ *bearer.Login }

func (l smtpLogin) Start(*smtp.ServerInfo) (mechanism string, initial []byte, _ error) {
	return l.Mechanism, l.Initial(), nil
}

func (l smtpLogin) Next(challenge []byte, more bool) ([]byte, error) {
	if !more {
		return nil, nil
	}
	return l.Answer(challenge), nil
}
