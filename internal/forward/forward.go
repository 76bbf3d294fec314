// Package forward composes what goes out, and hands it to the relay.
//
// A Composer makes a Content from a message (compose.go). The Content is the same in every attempt
// and is never held in memory. Sending takes two calls: Begin names the sender and the recipients,
// and Send transmits the content. In between, the caller records that the recipients in Accepted
// may get the message. A deferred Reset aborts a transaction that was not sent. Rest returns the
// recipients that need another transaction.
//
// Every failure is attributed to one of these (the table is in classify.go):
//   - a recipient: only this recipient is Refused or Deferred
//   - the message: all its recipients are Refused or Deferred; other messages go on
//   - the relay, an *Error: nothing can be sent until it works, or its configuration is changed
//
// A failure that is not classified is temporary. Accepted means that the relay answered 2yz to the
// final dot, Refused that the reason is permanent, Unknown that the final dot was sent and no reply
// came (RFC 1047). If the connection ends after the first RCPT, the message is Deferred, too, so
// that no message stops all others for ever. Credentials are sent unencrypted only on loopback, or
// with AllowPlaintext. Begin starts again on a new connection if a pooled one turns out to be
// closed, and without PIPELINING if the relay mishandles it. Nothing else is retried here.
package forward

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strconv"
	"time"

	"postrider/internal/address"
	"postrider/internal/bounce"
	"postrider/internal/certs"
	"postrider/internal/srs"
)

// Config is how to reach the relay, and in whose name.
type Config struct {
	Host               string
	Port               int
	Security           string         // tls | starttls | none
	Username, Password string         // no login without a username
	Auth               string         // plain, login: the only way to log in with the password; else the strongest
	Token              Token          // logs in with OAuth2 in place of the password; nil for a password
	AllowPlaintext     bool           // log in without TLS, not only on loopback
	Connections        int            // at most, and at least one
	PerConnection      int            // messages on one connection; 0 is no limit
	NoPipelining       bool           // one command at a time, although the relay offers PIPELINING (RFC 2920)
	Quota              Quota          // of recipients; nil is no limit
	LocalName          string         // for EHLO, a domain or address literal; default: this host's
	EnvelopeFrom       string         // an address, Keep or SRS; empty for the address of From
	SRS                *srs.Rewriter  // needed with EnvelopeFrom SRS
	Signer             *bounce.Signer // makes the reverse-path of each delivery, each in its own transaction; or nil
	Confirm            bool           // ask for delivery notifications where the relay offers DSN (RFC 3461)
	Proxy              string         // a URL, or "direct"; empty for that of the environment
	From               string         // "Name <address>"
	RootCAs            *x509.CertPool
	Fingerprint        certs.Fingerprint     // of the only certificate to accept; empty: by RootCAs
	ClientCert         *tls.Certificate      // shown to a relay that asks for one; nil for none
	Certificate        func(until time.Time) // told at each handshake when the relay's certificate ends; may be nil
	Timeouts           Timeouts
	Logger             *slog.Logger

	sessions tls.ClientSessionCache // of TLS, for the next connection
}

// Quota limits how many recipients are named to the relay, over all processes that use it.
type Quota interface {
	// Reserve grants a transaction with up to n recipients some of them, at least one, or fails.
	// When the transaction is over, done gets the number of recipients that were named to the
	// relay.
	Reserve(ctx context.Context, n int) (granted int, done func(used int), err error)
}

// QuotaError says that the quota granted no recipient, or could not be asked: neither the message
// nor the relay is at fault.
type QuotaError struct{ Err error }

// Error implements error.
func (e *QuotaError) Error() string { return e.Err.Error() }

// Unwrap returns the quota's own error.
func (e *QuotaError) Unwrap() error { return e.Err }

// unlimited is no quota.
type unlimited struct{}

func (unlimited) Reserve(_ context.Context, n int) (int, func(int), error) {
	return n, func(int) {}, nil
}

// Timeouts limit each step. Zero means the default.
type Timeouts struct {
	Dial    time.Duration // 30 s
	Command time.Duration // 5 min: the greeting and each command (RFC 5321 4.5.3.2.1-4)
	Block   time.Duration // 3 min: each block of content (4.5.3.2.5)
	Dot     time.Duration // 10 min: the reply to the final dot (4.5.3.2.6)
	Idle    time.Duration // 30 s: how long an unused connection is kept
}

// NewRelay validates the configuration. It does not connect.
func NewRelay(cfg Config) (*Relay, error) {
	cfg = cfg.withDefaults()
	sender, err := cfg.sender()
	if err != nil {
		return nil, err
	}
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	r := &Relay{
		cfg: cfg, sender: sender, log: cfg.Logger,
		addr:  net.JoinHostPort(cfg.Host, strconv.Itoa(cfg.Port)),
		slots: make(chan struct{}, cfg.Connections),
	}
	r.most.Store(maxRecipients)
	return r, nil
}

func (c Config) withDefaults() Config {
	t := &c.Timeouts
	t.Dial = cmp.Or(t.Dial, 30*time.Second)
	t.Command = cmp.Or(t.Command, 5*time.Minute)
	t.Block = cmp.Or(t.Block, 3*time.Minute)
	t.Dot = cmp.Or(t.Dot, 10*time.Minute)
	t.Idle = cmp.Or(t.Idle, 30*time.Second)
	c.Connections = max(c.Connections, 1)
	c.sessions = tls.NewLRUClientSessionCache(c.Connections)
	if c.Quota == nil {
		c.Quota = unlimited{}
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return c
}

func (c Config) validate() error {
	switch {
	case c.Host == "":
		return errors.New("the relay has no host: set smtp.host")
	case c.Port < 1 || c.Port > 65535:
		return fmt.Errorf("the relay's port %d is not between 1 and 65535: set smtp.port", c.Port)
	case c.Security != "tls" && c.Security != "starttls" && c.Security != "none":
		return fmt.Errorf("the relay's security %q is unknown: set smtp.security to tls, starttls or none", c.Security)
	case c.Username != "" && c.Security == "none" && !c.AllowPlaintext && !address.IsLoopback(c.Host):
		return fmt.Errorf("the password for the relay %s would go over the network in plain text: "+
			"set smtp.security to tls or starttls", c.Host)
	case c.EnvelopeFrom == SRS && c.SRS == nil:
		return errors.New("forward.envelope_from is srs, which needs srs.domain and srs.secret")
	case c.LocalName != "" && !address.IsDomain(c.LocalName):
		return fmt.Errorf("the name for EHLO %q is neither a domain nor an address literal", c.LocalName)
	}
	return nil
}

// What Config.EnvelopeFrom may be besides an address.
const (
	Keep = "keep" // the original's Return-Path
	SRS  = "srs"  // an address of Config.SRS that leads back to it
)

// sender is the configured envelope sender. With Keep and SRS it is for messages whose Return-Path
// cannot be used.
func (c Config) sender() (address.Address, error) {
	key, text := "forward.envelope_from", c.EnvelopeFrom
	if text == "" || text == Keep || text == SRS {
		key, text = "forward.from", c.From
	}
	if text == "" {
		return address.Address{}, errors.New("there is no sender for forwarded mail: set forward.from")
	}
	_, a, err := address.ParseNamed(text)
	if err != nil {
		return address.Address{}, fmt.Errorf("%s: %w", key, err)
	}
	return a, nil
}

// tls has no small records for the first octets of a connection: they would cut a small message
// into several writes.
func (c Config) tls() *tls.Config {
	config := &tls.Config{
		ServerName: c.Host, RootCAs: c.RootCAs, MinVersion: tls.VersionTLS12, ClientSessionCache: c.sessions,
		DynamicRecordSizingDisabled: true,
	}
	certs.Pin(config, c.Fingerprint)
	certs.Watch(config, c.Certificate)
	certs.Present(config, c.ClientCert, nil)
	return config
}
