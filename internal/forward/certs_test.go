package forward

import (
	"crypto/tls"
	"crypto/x509"
	"strings"
	"testing"

	"postrider/internal/certs"
	"postrider/internal/testserver"
	"postrider/internal/testserver/smtpsink"
)

// TestRelayCertificates: by fingerprint only the one certificate is accepted, and the relay gets
// ours if it asks.
func TestRelayCertificates(t *testing.T) {
	newCertificate := func(f func() (tls.Certificate, *x509.CertPool, error)) (tls.Certificate, *x509.CertPool) {
		cert, pool, err := f()
		if err != nil {
			t.Fatal(err)
		}
		return cert, pool
	}
	expired, expiredPool := newCertificate(testserver.ExpiredCertificate)
	elsewhere, elsewherePool := newCertificate(func() (tls.Certificate, *x509.CertPool, error) {
		return testserver.CertificateOf("imap.example")
	})
	valid, pool := newCertificate(testserver.Certificate)
	client, clients := newCertificate(testserver.Certificate)
	print := certs.Of(valid.Leaf)
	plainTLS := &tls.Config{Certificates: []tls.Certificate{valid}}
	old := &tls.Config{
		Certificates: []tls.Certificate{valid},
		CipherSuites: []uint16{tls.TLS_RSA_WITH_AES_128_GCM_SHA256}, MaxVersion: tls.VersionTLS12,
	}
	older := &tls.Config{
		Certificates: []tls.Certificate{valid}, MinVersion: tls.VersionTLS10, MaxVersion: tls.VersionTLS11,
	}
	demanding := &tls.Config{
		Certificates: []tls.Certificate{valid},
		ClientAuth:   tls.RequireAndVerifyClientCert, ClientCAs: clients,
	}
	expiredTLS := &tls.Config{Certificates: []tls.Certificate{expired}}
	expiredPrint := certs.Of(expired.Leaf)
	for _, tt := range []struct {
		name   string
		server *tls.Config
		change func(*Config)
		says   string // in the error; empty: accepted
	}{
		{"right", plainTLS, func(c *Config) { c.Fingerprint = print }, ""},
		{"right, expired", expiredTLS, func(c *Config) { c.Fingerprint = expiredPrint }, ""},
		{
			"wrong, trusted", plainTLS, func(c *Config) { c.RootCAs, c.Fingerprint = pool, expiredPrint },
			"set smtp.tls_fingerprint to " + string(print),
		},
		{
			"not trusted", plainTLS, func(*Config) {},
			"in smtp.ca_file; or, if its certificate has this fingerprint, " +
				"set smtp.tls_fingerprint to " + string(print),
		},
		{
			"expired", expiredTLS, func(c *Config) { c.RootCAs = expiredPool },
			": set this machine's clock if it is wrong, or have its operator renew the certificate; or, if ",
		},
		{
			"another name", &tls.Config{Certificates: []tls.Certificate{elsewhere}},
			func(c *Config) { c.RootCAs = elsewherePool },
			": set smtp.host to a name that its certificate holds; or, if ",
		},
		{"with ours", demanding, func(c *Config) { c.RootCAs, c.ClientCert = pool, &client }, ""},
		{"without ours", demanding, func(c *Config) { c.RootCAs = pool }, "check smtp.client_cert"},
		{
			"no common cipher", old, func(c *Config) { c.RootCAs = pool },
			"no cipher suite in common with postrider: it needs one with ECDHE",
		},
		{
			"TLS 1.1", older, func(c *Config) { c.RootCAs = pool },
			"have its operator enable TLS 1.2 or later",
		},
	} {
		for _, security := range []string{"tls", "starttls"} {
			t.Run(tt.name+", "+security, func(t *testing.T) {
				s := sink(t, smtpsink.Options{TLS: tt.server, ImplicitTLS: security == "tls"})
				r := relayOn(t, s.Port(), tt.change, func(c *Config) { c.Security = security })
				_, err := r.Info(t.Context(), nil)
				if (err == nil) != (tt.says == "") || err != nil && !strings.Contains(err.Error(), tt.says) {
					t.Errorf("Info = %v, want an error with %q, or none if that is empty", err, tt.says)
				}
			})
		}
	}
}
