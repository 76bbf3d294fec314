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

// auth logs in with the strongest mechanism that the relay offers (RFC 4954).
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
	i := slices.IndexFunc(mechanisms, func(m mechanism) bool {
		return slices.Contains(offered, m.name) && (encrypted || !strings.HasSuffix(m.name, "-PLUS"))
	})
	if i < 0 {
		return noMechanism(list, encrypted)
	}
	c.deadline(c.cfg.Timeouts.Command)
	if err := c.smtp.Auth(mechanisms[i].auth(c.cfg, &state)); err != nil {
		return openError(StageAUTH, redact(err, c.hide()))
	}
	c.login = mechanisms[i].name
	return nil
}

func noMechanism(offered string, encrypted bool) *Error {
	e := &Error{Stage: StageAUTH, Permanent: true, Err: errNotOffered}
	switch {
	case offered != "":
		e.Err = errors.New("the relay offers only " + short(offered))
		e.Fix = "allow a login with a password there"
	case !encrypted:
		e.Fix = "many relays offer it only on an encrypted connection: set smtp.security to starttls or tls; or remove smtp.username"
	default:
		e.Fix = "set smtp.port to its submission port (465 or 587), or remove smtp.username"
	}
	return e
}

// hide takes what was sent to log in out of a text.
func (c *conn) hide() func(string) string {
	if c.cfg.Token != nil {
		return func(s string) string { return transcript.HideTexts(c.bearer().Secrets()...)(s) }
	}
	return transcript.Hide(c.cfg.Username, c.cfg.Password)
}

// redact takes secrets out of a reply: some relays repeat the command that they refuse.
func redact(err error, hide func(string) string) error {
	if e, ok := errors.AsType[*textproto.Error](err); ok {
		return &textproto.Error{Code: e.Code, Msg: hide(e.Msg)}
	}
	if text := hide(err.Error()); text != err.Error() {
		return errors.New(text)
	}
	return err
}
