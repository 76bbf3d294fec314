package imapsrc

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"postrider/internal/address"
	"postrider/internal/certs"
	"postrider/internal/message"
)

// How the connection is encrypted: from the first octet (RFC 8314), after STARTTLS (RFC 3501
// 6.2.1), or not at all.
const (
	SecurityTLS      = "tls"
	SecurityStartTLS = "starttls"
	SecurityNone     = "none"
)

// Config says which account to connect to, and how.
type Config struct {
	Host     string
	Port     int
	Security string // SecurityTLS, SecurityStartTLS or SecurityNone
	// AllowPlaintext lets SecurityNone send the password to a host other than loopback.
	AllowPlaintext bool

	Account  string // the inbox's address, for the command in an error; the username when empty
	Username string
	Password string
	Token    Token  // logs in with OAuth2 in place of the password; nil for a password
	Hint     string // what a refused password probably means at this provider; may be empty
	// OnlyOAuth says that the provider takes no password at all.
	OnlyOAuth bool
	Unstored  bool // the inbox is not stored yet, so no command can change its password
	// PasswordFrom is the place where the password has to be changed, such as file:PATH; empty if
	// postrider stores the password.
	PasswordFrom string
	// Auth is "auto" (also when empty), "plain" (SASL PLAIN) or "login" (the LOGIN command).
	Auth string

	// Proxy is a URL (socks5, socks5h, http or https, with user:password) or "direct". When it is
	// empty, the environment variables ALL_PROXY, HTTPS_PROXY and NO_PROXY decide, in upper or
	// lower case.
	Proxy string

	RootCAs     *x509.CertPool    // nil for the system's
	Fingerprint certs.Fingerprint // of the only certificate to accept; empty: by RootCAs
	ClientCert  *tls.Certificate  // shown to a server that asks for one; nil for none
	// Certificate is called at each handshake with the end of the server certificate's validity. It
	// may be nil.
	Certificate func(until time.Time)
	// Sessions keeps TLS sessions for later connections to the same host (RFC 8446 2.2); nil for
	// none. When a session is resumed, certificates are perhaps not verified again, so only
	// configurations with the same RootCAs, Fingerprint and ClientCert may share it.
	Sessions tls.ClientSessionCache

	DialTimeout time.Duration // up to the greeting
	IdleTimeout time.Duration // longest silence of the server, and for one write
	// MaxSize is the size of the largest body that is fetched, in octets, as announced by the
	// server before the body. See TooLargeError.
	MaxSize int64

	ClientName, ClientVersion string // for ID; no ID is sent without a name
	NeedsID                   bool   // ID is sent even when the server does not offer it
	NoIDLE                    bool   // IDLE is not used even when the server offers it

	Spooler *message.Spooler
	Logger  *slog.Logger // each login, and at lower levels more; no credentials, no message data
}

// validate reports why a connection must not be opened with this configuration.
func (cfg Config) validate() error {
	switch cfg.Security {
	case SecurityTLS, SecurityStartTLS:
	case SecurityNone:
		if !cfg.AllowPlaintext && !address.IsLoopback(cfg.Host) {
			return &Error{Kind: KindPlaintext, Err: errors.New("will not send the password unencrypted; " +
				"use security tls or starttls, or allow that (--allow-plaintext)")}
		}
	default:
		return &Error{Kind: KindLocal, Err: fmt.Errorf("unknown security %q; use tls, starttls or none", cfg.Security)}
	}
	switch cfg.Auth {
	case "", "auto", "plain", "login":
		return nil
	}
	return &Error{Kind: KindLocal, Err: fmt.Errorf("unknown auth %q; use auto, plain or login", cfg.Auth)}
}

// tls is the configuration of TLS. asked is called when the server asks for a certificate.
func (cfg Config) tls(asked func()) *tls.Config {
	config := &tls.Config{
		ServerName: cfg.Host, RootCAs: cfg.RootCAs,
		MinVersion: tls.VersionTLS12, ClientSessionCache: cfg.Sessions,
	}
	certs.Pin(config, cfg.Fingerprint)
	certs.Watch(config, cfg.Certificate)
	certs.Present(config, cfg.ClientCert, asked)
	return config
}
