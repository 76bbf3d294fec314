package forward

import (
	"crypto/tls"
	"errors"
	"net/textproto"
	"slices"
	"strings"

	"github.com/wneessen/go-mail/smtp"

	"postrider/internal/transcript"
)

var errNotOffered = errors.New("the relay does not offer it")

// mechanism is one way to log in. Config.validate decides where a password may go unencrypted.
type mechanism struct {
	name string
	auth func(*Config, *tls.ConnectionState) smtp.Auth
}

// mechanisms, strongest first. Those with channel binding (-PLUS) need TLS.
var mechanisms = []mechanism{
	{"SCRAM-SHA-256-PLUS", func(c *Config, s *tls.ConnectionState) smtp.Auth {
		return scram{smtp.ScramSHA256PlusAuth(c.Username, c.Password, s)}
	}},
	{"SCRAM-SHA-256", func(c *Config, _ *tls.ConnectionState) smtp.Auth {
		return scram{smtp.ScramSHA256Auth(c.Username, c.Password)}
	}},
	{"SCRAM-SHA-1-PLUS", func(c *Config, s *tls.ConnectionState) smtp.Auth {
		return scram{smtp.ScramSHA1PlusAuth(c.Username, c.Password, s)}
	}},
	{"SCRAM-SHA-1", func(c *Config, _ *tls.ConnectionState) smtp.Auth {
		return scram{smtp.ScramSHA1Auth(c.Username, c.Password)}
	}},
	{"CRAM-MD5", func(c *Config, _ *tls.ConnectionState) smtp.Auth {
		return smtp.CRAMMD5Auth(c.Username, c.Password)
	}},
	{"PLAIN", func(c *Config, _ *tls.ConnectionState) smtp.Auth {
		return smtp.PlainAuth("", c.Username, c.Password, c.Host, true)
	}},
	{"LOGIN", func(c *Config, _ *tls.ConnectionState) smtp.Auth {
		return smtp.LoginAuth(c.Username, c.Password, c.Host, true)
	}},
}

// auth logs in with the strongest mechanism that the relay offers (RFC 4954), or with the only one
// of the configuration.
func (c *conn) auth() *Error {
	if c.cfg.Username == "" {
		return nil
	}
	_, list := c.smtp.Extension("AUTH")
	offered := strings.Fields(strings.ToUpper(list))
	if c.cfg.Token != nil {
		return c.bearerAuth(offered, list)
	}
	encrypted := c.tls != nil
	var state tls.ConnectionState
	if encrypted {
		state = c.tls.ConnectionState()
	}
	only := strings.ToUpper(c.cfg.Auth)
	i := slices.IndexFunc(mechanisms, func(m mechanism) bool {
		return slices.Contains(offered, m.name) && (encrypted || !strings.HasSuffix(m.name, "-PLUS")) &&
			(only == m.name || only != "PLAIN" && only != "LOGIN")
	})
	if i < 0 {
		return c.noMechanism(list)
	}
	c.deadline(c.cfg.Timeouts.Command)
	name := mechanisms[i].name
	if err := c.smtp.Auth(mechanisms[i].auth(c.cfg, &state)); err != nil {
		e := openError(StageAUTH, redact(err, c.hide()))
		if weaker := plainOf(offered); e.Fix == fixLogin && name != "PLAIN" && name != "LOGIN" && weaker != "" {
			e.Fix += "; if they are right, the relay may be unable to check " + name + ": set smtp.auth to " + weaker
		}
		return e
	}
	c.login = name
	return nil
}

// plainOf is the value of smtp.auth that sends the relay the password itself; empty if the relay
// offers no such mechanism.
func plainOf(offered []string) string {
	for _, name := range []string{"PLAIN", "LOGIN"} {
		if slices.Contains(offered, name) {
			return strings.ToLower(name)
		}
	}
	return ""
}

func (c *conn) noMechanism(offered string) *Error {
	e := &Error{Stage: StageAUTH, Permanent: true, Err: errNotOffered}
	switch {
	case offered != "" && (c.cfg.Auth == "plain" || c.cfg.Auth == "login"):
		e.Err = errors.New("the relay offers only " + short(offered))
		e.Fix = "remove smtp.auth: " + c.cfg.Auth
	case offered != "":
		e.Err = errors.New("the relay offers only " + short(offered))
		e.Fix = "allow a login with a password there"
	case c.tls == nil:
		e.Fix = "many relays offer it only on an encrypted connection: " + fixTLS + "; or remove smtp.username"
	default:
		e.Fix = "set smtp.port to its submission port (465 or 587), or remove smtp.username"
	}
	return e
}

// hide removes what was sent to log in from a text.
func (c *conn) hide() func(string) string {
	if c.cfg.Token != nil {
		return func(s string) string { return transcript.HideTexts(c.bearer().Secrets()...)(s) }
	}
	return transcript.Hide(c.cfg.Username, c.cfg.Password)
}

// redact removes secrets from a reply: some relays repeat the command that they refuse.
func redact(err error, hide func(string) string) error {
	if e, ok := errors.AsType[*textproto.Error](err); ok {
		return &textproto.Error{Code: e.Code, Msg: hide(e.Msg)}
	}
	if text := hide(err.Error()); text != err.Error() {
		return errors.New(text)
	}
	return err
}
