package imapsrc_test

import (
	"bufio"
	"crypto/tls"
	"crypto/x509"
	"io"
	"strings"
	"testing"

	"postrider/internal/certs"
	"postrider/internal/imapsrc"
	"postrider/internal/testserver"
	"postrider/internal/testserver/fakeimap"
)

// secured starts a server that speaks TLS with this configuration and lets everybody in. resumed
// gets a value for each handshake that ended well for the server.
func secured(t *testing.T, server *tls.Config) (cfg imapsrc.Config, resumed chan bool) {
	t.Helper()
	resumed = make(chan bool, 10)
	cfg = fakeConfig(t, func(c *fakeimap.Conn) {
		conn := tls.Server(c.Conn, server)
		if conn.Handshake() != nil {
			return
		}
		resumed <- conn.ConnectionState().DidResume
		_, _ = io.WriteString(conn, greeting.Reply)
		for lines := bufio.NewScanner(conn); lines.Scan(); {
			tag, _, _ := strings.Cut(lines.Text(), " ")
			_, _ = io.WriteString(conn, strings.ReplaceAll(loggedIn.Reply, "{tag}", tag))
		}
	})
	cfg.Security, cfg.Account = imapsrc.SecurityTLS, "ann@x.org"
	return cfg, resumed
}

func newCertificate(
	t *testing.T, f func() (tls.Certificate, *x509.CertPool, error),
) (tls.Certificate, *x509.CertPool, certs.Fingerprint) {
	t.Helper()
	cert, pool, err := f()
	if err != nil {
		t.Fatal(err)
	}
	return cert, pool, certs.Of(cert.Leaf)
}

func TestFingerprint(t *testing.T) {
	valid, trusted, print := newCertificate(t, testserver.Certificate)
	expired, trustedToo, expiredPrint := newCertificate(t, testserver.ExpiredCertificate)
	future, trustedFuture, _ := newCertificate(t, testserver.FutureCertificate)
	elsewhere, trustedElsewhere, elsewherePrint := newCertificate(t, func() (tls.Certificate, *x509.CertPool, error) {
		return testserver.CertificateOf("imap.example")
	})
	none := x509.NewCertPool()
	for _, tt := range []struct {
		name   string
		server tls.Certificate
		roots  *x509.CertPool
		pin    certs.Fingerprint
		says   []string // in the error; none: accepted
	}{
		{"trusted", valid, trusted, "", nil},
		{"right, not trusted", valid, none, print, nil},
		{"right, expired", expired, none, expiredPrint, nil},
		{"right, another name", elsewhere, none, elsewherePrint, nil},
		{"wrong, trusted", valid, trusted, expiredPrint, []string{
			"has the fingerprint " + string(print) + ", and not " + string(expiredPrint),
			"postrider inbox set ann@x.org --tls-fingerprint " + string(print) + "`",
		}},
		{"not trusted", valid, none, "", []string{
			"does not trust", "imap.ca_file", "postrider inbox set ann@x.org --ca-file FILE`",
			"--tls-fingerprint " + string(print) + "`",
		}},
		{"future", future, trustedFuture, "", []string{"is valid from", "set this machine's clock"}},
		{"expired", expired, trustedToo, "", []string{"is valid from", "--tls-fingerprint " + string(expiredPrint)}},
		{"another name", elsewhere, trustedElsewhere, "", []string{
			"not for 127.0.0.1", "--tls-fingerprint " + string(elsewherePrint),
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			cfg, _ := secured(t, &tls.Config{Certificates: []tls.Certificate{tt.server}})
			cfg.RootCAs, cfg.Fingerprint = tt.roots, tt.pin
			c, err := imapsrc.Dial(t.Context(), cfg)
			if err == nil {
				_ = c.Close()
			}
			if len(tt.says) == 0 && err != nil {
				t.Fatalf("Dial = %v, want a connection", err)
			}
			if len(tt.says) > 0 {
				wantError(t, err, imapsrc.KindTLS, tt.says...)
			}
			if err != nil && tt.name != "not trusted" && strings.Contains(err.Error(), "--ca-file") {
				t.Errorf("the error is %v, want nothing of the issuer", err)
			}
		})
	}
}

// TestFingerprintOfASession: sessions that were made under other settings do not let a certificate
// pass that the current settings refuse.
func TestFingerprintOfASession(t *testing.T) {
	valid, trusted, print := newCertificate(t, testserver.Certificate)
	_, _, other := newCertificate(t, testserver.Certificate)
	none := x509.NewCertPool()
	cfg, resumed := secured(t, &tls.Config{Certificates: []tls.Certificate{valid}})
	for _, tt := range []struct {
		name          string
		roots, roots2 *x509.CertPool
		pin, pin2     certs.Fingerprint
		refused       bool
	}{
		{"trusted, then another fingerprint", trusted, trusted, "", other, true},
		{"by fingerprint, then another one", none, none, print, other, true},
		{"by fingerprint, then by issuer", none, none, print, "", true},
		{"trusted, then not", trusted, none, "", "", true},
		{"the same fingerprint", none, none, print, print, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			cfg := cfg
			cfg.Sessions = tls.NewLRUClientSessionCache(0)
			cfg.RootCAs, cfg.Fingerprint = tt.roots, tt.pin
			_ = dial(t, cfg).Close()
			if <-resumed {
				t.Fatal("the first connection resumes a session")
			}
			cfg.RootCAs, cfg.Fingerprint = tt.roots2, tt.pin2
			if tt.refused {
				_, err := imapsrc.Dial(t.Context(), cfg)
				wantError(t, err, imapsrc.KindTLS, "fingerprint")
				return
			}
			_ = dial(t, cfg).Close()
			if !<-resumed {
				t.Error("the second connection does not resume the session, want it resumed")
			}
		})
		for len(resumed) > 0 {
			<-resumed
		}
	}
}

func TestClientCertificate(t *testing.T) {
	valid, trusted, _ := newCertificate(t, testserver.Certificate)
	client, clients, _ := newCertificate(t, testserver.Certificate)
	stranger, _, _ := newCertificate(t, testserver.Certificate)
	for _, version := range []uint16{tls.VersionTLS12, tls.VersionTLS13} {
		for _, tt := range []struct {
			name     string
			cert     *tls.Certificate
			unstored bool
			says     string // in the error; empty: accepted
		}{
			{"known", &client, false, ""},
			{"none", nil, false, "the server wants a certificate of the client: " +
				"`postrider inbox set ann@x.org --client-cert FILE`"},
			{"none yet", nil, true, "the server wants a certificate of the client: " +
				"add it with `--client-cert FILE` (in a CSV file: the column client_cert)"},
			{"unknown", &stranger, false, "the server does not accept the certificate of --client-cert"},
		} {
			t.Run(tls.VersionName(version)+" "+tt.name, func(t *testing.T) {
				cfg, _ := secured(t, &tls.Config{
					Certificates: []tls.Certificate{valid}, MaxVersion: version,
					ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: clients,
				})
				cfg.RootCAs, cfg.ClientCert, cfg.Unstored = trusted, tt.cert, tt.unstored
				c, err := imapsrc.Dial(t.Context(), cfg)
				if tt.says != "" {
					wantError(t, err, imapsrc.KindTLS, tt.says)
					return
				}
				if err != nil {
					t.Fatalf("Dial = %v, want a connection", err)
				}
				_ = c.Close()
			})
		}
	}
}
