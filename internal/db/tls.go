package db

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"database/sql/driver"
	"errors"
	"fmt"
	"net"
	"os"
	"time"

	mysqldriver "github.com/go-sql-driver/mysql"

	"postrider/internal/address"
)

// What Config.TLS may be. Empty is TLSNone for this host, and TLSVerify for others. A Unix socket
// never has TLS.
const (
	TLSNone    = "none"
	TLSRequire = "require" // encrypted, and the certificate is not verified
	TLSVerify  = "verify"  // the certificate is verified, with the server's name
)

// secureTransport sets how the connection is encrypted, whatever the DSN says.
func secureTransport(cfg *mysqldriver.Config, mode string, roots *x509.CertPool) error {
	if cfg.TLSConfig != "" {
		return &DSNError{"has the parameter tls, which is not allowed here; " +
			"set database.tls to none, require, verify or a file"}
	}
	near := cfg.Net == "unix"
	if host, _, err := net.SplitHostPort(cfg.Addr); err == nil && cfg.Net == "tcp" {
		near = host == "" || address.IsLoopback(host)
	}
	switch {
	case cfg.Net == "unix", mode == TLSNone, mode == "" && near:
	case mode == TLSVerify, mode == "":
		cfg.TLS = &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12} // the driver adds the name
	case mode == TLSRequire:
		cfg.TLS = &tls.Config{InsecureSkipVerify: true, MinVersion: tls.VersionTLS12}
	default:
		return fmt.Errorf("database.tls is %q; use none, require, verify or a file", mode)
	}
	cfg.AllowFallbackToPlaintext = false
	// A server may ask for the password in cleartext: allow that only locally, or to a verified
	// server.
	verified := cfg.TLS != nil && !cfg.TLS.InsecureSkipVerify
	cfg.AllowCleartextPasswords = cfg.AllowCleartextPasswords && (near || verified)
	return nil
}

// handshakePatience is how long opening a connection may take. The driver limits each of its reads,
// but not the TLS handshake.
const handshakePatience = time.Minute

// open opens a connection within c.patience.
func (c *connector) open(ctx context.Context) (conn driver.Conn, err error) {
	limited, cancel := context.WithTimeout(ctx, c.patience)
	defer cancel()
	conn, err = c.Connector.Connect(limited)
	if err != nil && limited.Err() != nil && ctx.Err() == nil {
		err = fmt.Errorf("the server did not answer within %s: %w", c.patience, os.ErrDeadlineExceeded)
	}
	return conn, err
}

// fixTLS is what to do about a connection that could not be encrypted; empty for other errors.
func fixTLS(err error) string {
	var verification *tls.CertificateVerificationError
	switch {
	case errors.Is(err, mysqldriver.ErrNoTLS):
		return "the server offers no TLS: give it a certificate (ssl_cert, ssl_key), " +
			"or accept an unencrypted connection with database.tls: none"
	case errors.As(err, new(x509.HostnameError)):
		return "use a host name from the server's certificate in database.dsn, " +
			"or give the server a certificate for the name used there"
	case errors.As(err, new(x509.UnknownAuthorityError)):
		return "set database.tls to a file with the issuer's certificate (ca.pem, if the server generated its own), " +
			"or to require, which encrypts but does not verify the server"
	case errors.As(err, &verification):
		return "give the server a valid certificate, or check this host's clock"
	}
	return ""
}
