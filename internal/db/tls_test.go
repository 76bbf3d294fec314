package db

import (
	"context"
	"crypto/x509"
	"errors"
	"net"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"postrider/internal/testserver"
)

// TestTLS opens a real MariaDB, with and without TLS, by a name of this host that is loopback and
// by one that only leads there: the address 0.0.0.0 is not in the certificate.
func TestTLS(t *testing.T) {
	plain := testserver.MariaDB(t).NewDatabase(t)
	server, certFile := testserver.SecureMariaDB(t)
	secure := server.NewDatabase(t)
	pem, err := os.ReadFile(certFile)
	if err != nil {
		t.Fatal(err)
	}
	its := x509.NewCertPool()
	its.AppendCertsFromPEM(pem)
	_, others, err := testserver.Certificate()
	if err != nil {
		t.Fatal(err)
	}
	const (
		noTLS         = "the server offers no TLS"
		anotherName   = "use a host name from the server's certificate in database.dsn"
		anotherIssuer = "set database.tls to a file with the issuer's certificate"
	)
	tests := []struct {
		name, dsn string
		remote    bool
		tls       string
		roots     *x509.CertPool
		encrypted bool
		want      string // in the error; empty: it opens
	}{
		{"loopback, nothing said", secure, false, "", nil, false, ""},
		{"loopback, verify", secure, false, TLSVerify, its, true, ""},
		{"loopback, require", secure, false, TLSRequire, nil, true, ""},
		{"loopback, require, without TLS", plain, false, TLSRequire, nil, false, noTLS},
		{"elsewhere, nothing said", secure, true, "", its, false, anotherName},
		{"elsewhere, nothing said, without TLS", plain, true, "", nil, false, "database.tls: none"},
		{"elsewhere, none, without TLS", plain, true, TLSNone, nil, false, ""},
		{"elsewhere, none", secure, true, TLSNone, nil, false, ""},
		{"elsewhere, require", secure, true, TLSRequire, nil, true, ""},
		{"elsewhere, require, without TLS", plain, true, TLSRequire, nil, false, noTLS},
		{"fallback in the DSN", plain + "?allowFallbackToPlaintext=true", true, TLSRequire, nil, false, noTLS},
		{"another issuer", secure, false, TLSVerify, others, false, anotherIssuer},
		{"the system's issuers", secure, false, TLSVerify, nil, false, anotherIssuer},
		{"another name", secure, true, TLSVerify, its, false, anotherName},
		{"in the DSN", plain + "?tls=false", true, "", nil, false, "database.tls"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			cfg := Config{Driver: MySQL, DSN: tt.dsn, TLS: tt.tls, RootCAs: tt.roots}
			if tt.remote {
				cfg.DSN = strings.Replace(tt.dsn, "127.0.0.1", "0.0.0.0", 1)
			}
			db, err := OpenAnySchema(testContext(t), cfg)
			if tt.want != "" {
				wantText(t, err, tt.want)
				if Transient(err) {
					t.Errorf("%v: counts as transient, want it not tried again", err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = db.Close() }()
			var name, cipher string
			row := db.pool.QueryRowContext(t.Context(), "SHOW STATUS LIKE 'Ssl_cipher'")
			if err := row.Scan(&name, &cipher); err != nil {
				t.Fatal(err)
			}
			if (cipher != "") != tt.encrypted {
				t.Errorf("the connection has cipher %q, want it encrypted: %v", cipher, tt.encrypted)
			}
		})
	}
}

// TestTLSIsTheDefault checks which servers count as elsewhere.
func TestTLSIsTheDefault(t *testing.T) {
	for dsn, encrypted := range map[string]bool{
		"u:p@tcp(db.firm.example:3306)/mail": true,
		"u:p@tcp(192.0.2.1)/mail":            true,
		"u:p@tcp([2001:db8::1]:3306)/mail":   true,
		"u:p@tcp6([2001:db8::1]:3306)/mail":  true,
		"u:p@tcp(localhost:3306)/mail":       false,
		"u:p@tcp(127.0.0.2:3306)/mail":       false,
		"u:p@tcp([::1]:3306)/mail":           false,
		"u:p@tcp(:3306)/mail":                false,
		"u:p@/mail":                          false,
		"u:p@unix(/run/mysqld.sock)/mail":    false,
	} {
		cfg, err := parseDSN(Config{DSN: dsn})
		if err != nil {
			t.Fatal(err)
		}
		if got := cfg.TLS != nil && !cfg.TLS.InsecureSkipVerify; got != encrypted || cfg.AllowFallbackToPlaintext {
			t.Errorf("%s: verified TLS %v, want %v, and no fallback", dsn, got, encrypted)
		}
	}
	cfg, err := parseDSN(Config{DSN: "u:p@unix(/run/mysqld.sock)/mail", TLS: TLSVerify})
	if err != nil || cfg.TLS != nil {
		t.Errorf("a socket with tls verify: TLS %v, %v; want none, because it has no name to verify", cfg.TLS, err)
	}
	for _, mode := range []string{TLSNone, TLSRequire} { // a server in between can ask for the password
		cfg, err := parseDSN(Config{DSN: "u:p@tcp(192.0.2.1)/mail?allowCleartextPasswords=true", TLS: mode})
		if err != nil || cfg.AllowCleartextPasswords {
			t.Errorf("tls %s: the password may be sent as it is (%v), want that only to a server that is verified",
				mode, err)
		}
	}
}

// TestSilentHandshake checks that a server that says nothing in the TLS handshake is given up.
func TestSilentHandshake(t *testing.T) {
	greeting := "\x0a" + "8.0.36\x00" + "\x01\x00\x00\x00" + "12345678\x00" +
		"\xff\xff" + "\x2d" + "\x02\x00" + "\xff\xdf" +
		"\x15" + strings.Repeat("\x00", 10) + "123456789012\x00" + "caching_sha2_password\x00"
	port := testserver.Listen(t, func(conn net.Conn) {
		_, _ = conn.Write([]byte(string([]byte{byte(len(greeting)), 0, 0, 0}) + greeting))
		for {
			if _, err := conn.Read(make([]byte, 1024)); err != nil {
				return
			}
		}
	})
	cfg, err := parseDSN(Config{DSN: "u:p@tcp(127.0.0.1)/mail", TLS: TLSRequire})
	if err != nil {
		t.Fatal(err)
	}
	cfg.Addr = net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
	c, err := newConnector(cfg)
	if err != nil {
		t.Fatal(err)
	}
	c.patience = 50 * time.Millisecond
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	_, err = c.Connect(ctx)
	if err == nil || !errors.Is(err, os.ErrDeadlineExceeded) || !Transient(err) || ctx.Err() != nil {
		t.Errorf("Connect = %v, want a timeout that counts as an outage", err)
	}
}
