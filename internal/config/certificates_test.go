package config

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"math/big"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

// TestCertificates: a file of certificates is read with the configuration, so that a wrong one
// stops every command.
func TestCertificates(t *testing.T) {
	for _, tt := range []struct {
		name string
		file []byte // nil: there is none
		want string // in the error; empty: valid
	}{
		{"a certificate", certificate(t), ""},
		{"no certificate", []byte("a key\n"), "there is no certificate in "},
		{"no file", nil, "cannot be read: "},
	} {
		t.Run(tt.name, func(t *testing.T) {
			path := write(t, minimal+"imap: {ca_file: ca.pem}\n")
			if tt.file != nil {
				if err := os.WriteFile(filepath.Join(filepath.Dir(path), "ca.pem"), tt.file, 0o600); err != nil {
					t.Fatal(err)
				}
			}
			_, err := loadFile(path, variables())
			if tt.want == "" && err != nil ||
				tt.want != "" && (err == nil || !strings.Contains(err.Error(), "imap.ca_file: "+tt.want)) {
				t.Errorf("Load = %v, want an error of imap.ca_file with %q, or none if that is empty", err, tt.want)
			}
		})
	}
}

// TestCertificatesKept: each user of certificates gets those that were read with the configuration.
func TestCertificatesKept(t *testing.T) {
	path := write(t, `
smtp: {host: relay.example, ca_file: ca.pem, client_cert: ca.pem}
imap: {ca_file: ca.pem}
forward: {from: f@x.org}
events: {crm: {url: "nats://a.example/mail", on: [dead], ca_file: ca.pem}}
routes: [{name: a, match: {}, to: [b@x.org]}]
`)
	if err := os.WriteFile(filepath.Join(filepath.Dir(path), "ca.pem"), clientCertificate(t), 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := loadFile(path, variables())
	if err != nil {
		t.Fatal(err)
	}
	for of, kept := range map[string]bool{
		"smtp.ca_file": c.SMTP.Roots != nil, "smtp.client_cert": c.SMTP.Identity != nil,
		"imap.ca_file": c.IMAP.Roots != nil, "events.crm.ca_file": c.Events["crm"].Settings("").RootCAs != nil,
	} {
		if !kept {
			t.Errorf("what %s holds is not kept", of)
		}
	}
}

// TestCertificatesOfOthers: whoever can write the file decides which servers are trusted.
func TestCertificatesOfOthers(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("Windows has no file modes")
	}
	path := write(t, minimal+"imap: {ca_file: ca.pem}\n")
	file := filepath.Join(filepath.Dir(path), "ca.pem")
	if err := errors.Join(os.WriteFile(file, certificate(t), 0o600), os.Chmod(file, 0o664)); err != nil {
		t.Fatal(err)
	}
	_, err := loadFile(path, variables())
	if err == nil || !strings.Contains(err.Error(), "imap.ca_file: is not used: other users can write it") ||
		!strings.Contains(err.Error(), "chmod go-w "+file) {
		t.Errorf("Load = %v, want an error of imap.ca_file with the chmod", err)
	}
}

// TestRelayIdentity: the fingerprint and the client certificate are checked with the configuration.
func TestRelayIdentity(t *testing.T) {
	hex := strings.Repeat("0AF1", 16)
	for _, tt := range []struct {
		name, yaml string
		file       []byte // client.pem; nil: there is none
		want       string // in the error; empty: valid
	}{
		{"a fingerprint", "tls_fingerprint: sha256:" + hex, nil, ""},
		{
			"another algorithm", "tls_fingerprint: sha1:" + hex, nil,
			"smtp.tls_fingerprint: is not sha256: and 64 hex digits",
		},
		{"a client certificate", "client_cert: client.pem", clientCertificate(t), ""},
		{"without its key", "client_cert: client.pem", certificate(t), "smtp.client_cert: cannot be used: "},
		{"no file", "client_cert: client.pem", nil, "client.pem; create it"},
		{
			"without TLS", "security: none, tls_fingerprint: sha256:" + hex, nil,
			"smtp.security: none has no certificates",
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			path := write(t, "smtp: {host: relay.example, "+tt.yaml+"}\n"+
				"forward: {from: f@x.org}\nroutes: [{name: a, match: {}, to: [b@x.org]}]\n")
			if tt.file != nil {
				if err := os.WriteFile(filepath.Join(filepath.Dir(path), "client.pem"), tt.file, 0o600); err != nil {
					t.Fatal(err)
				}
			}
			c, err := loadFile(path, variables())
			if tt.want == "" && err != nil || tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)) {
				t.Fatalf("Load = %v, want an error with %q, or none if that is empty", err, tt.want)
			}
			want := "sha256:" + strings.ToLower(hex)
			if err == nil && c.SMTP.TLSFingerprint != "" && c.SMTP.TLSFingerprint != want {
				t.Errorf("the fingerprint is %s, want %s", c.SMTP.TLSFingerprint, want)
			}
		})
	}
}

// certificate makes one in PEM format.
func certificate(t *testing.T) []byte {
	t.Helper()
	cert, _ := certificateAndKey(t)
	return cert
}

// clientCertificate is one with its key.
func clientCertificate(t *testing.T) []byte {
	t.Helper()
	cert, key := certificateAndKey(t)
	return append(cert, key...)
}

func certificateAndKey(t *testing.T) (cert, key []byte) {
	t.Helper()
	public, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, public, private)
	if err != nil {
		t.Fatal(err)
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	cert = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	return cert, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: keyDER})
}
