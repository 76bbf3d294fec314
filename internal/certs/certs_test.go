package certs_test

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"postrider/internal/certs"
	"postrider/internal/testserver"
)

func TestParseFingerprint(t *testing.T) {
	hex := strings.Repeat("0a", 32)
	colons := strings.TrimSuffix(strings.Repeat("0A:", 32), ":")
	for _, tt := range []struct {
		name, text string
		want       certs.Fingerprint
		wrong      bool
	}{
		{"none", "", "", false},
		{"as we print it", "sha256:" + hex, certs.Fingerprint("sha256:" + hex), false},
		{"upper case and colons", " SHA256:" + colons, certs.Fingerprint("sha256:" + hex), false},
		{"as openssl 3 prints it", "sha256 Fingerprint=" + colons + "\n", certs.Fingerprint("sha256:" + hex), false},
		{"as openssl 1 prints it", "SHA256 Fingerprint=" + colons, certs.Fingerprint("sha256:" + hex), false},
		{"without the algorithm", hex, certs.Fingerprint("sha256:" + hex), false},
		{"openssl with another algorithm", "sha1 Fingerprint=" + hex, "", true},
		{"another algorithm", "sha512:" + hex, "", true},
		{"too short", "sha256:" + hex[2:], "", true},
		{"too long", "sha256:" + hex + "0a", "", true},
		{"no hex", "sha256:" + strings.Repeat("xy", 32), "", true},
		{"nothing after the colon", "sha256:", "", true},
	} {
		got, err := certs.ParseFingerprint(tt.text)
		if got != tt.want || (err != nil) != tt.wrong {
			t.Errorf("%s: got %q, %v; want %q, an error: %v", tt.name, got, err, tt.want, tt.wrong)
		}
	}
}

func TestFiles(t *testing.T) {
	pair, _, err := testserver.Certificate()
	if err != nil {
		t.Fatal(err)
	}
	key, err := x509.MarshalPKCS8PrivateKey(pair.PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	certPEM := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: pair.Certificate[0]})
	both := append(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: key}), certPEM...)
	client := func(path string) error {
		cert, err := certs.Client(path)
		if err == nil && certs.Of(cert.Leaf) != certs.Of(pair.Leaf) {
			t.Error("Client returns another certificate than the file has")
		}
		return err
	}
	roots := func(path string) error {
		_, err := certs.Roots(nil, path)
		return err
	}
	for _, tt := range []struct {
		name    string
		read    func(string) error
		content []byte // nil: there is no file
		mode    os.FileMode
		want    string // in the error; empty for none
	}{
		{"client", client, both, 0o600, ""},
		{"client without the key", client, certPEM, 0o600, "does not hold a certificate and its key"},
		{"client, no file", client, nil, 0, "there is no file"},
		{"client, others can read it", client, both, 0o640, "chmod 600"},
		{"CA", roots, certPEM, 0o644, ""},
		{"CA without a certificate", roots, []byte("x"), 0o600, "there is no certificate in"},
		{"CA, no file", roots, nil, 0, "cannot be read"},
		{"CA, others can write it", roots, certPEM, 0o664, "and so could decide which servers are trusted"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if runtime.GOOS == "windows" && strings.Contains(tt.name, "others") {
				t.Skip("Windows has no file modes")
			}
			path := filepath.Join(t.TempDir(), "file.pem")
			if tt.content != nil {
				if err := os.WriteFile(path, tt.content, 0o600); err != nil {
					t.Fatal(err)
				}
				if err := os.Chmod(path, tt.mode); err != nil {
					t.Fatal(err)
				}
			}
			err := tt.read(path)
			if (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want an error with %q, or none if that is empty", err, tt.want)
			}
		})
	}
	if cert, err := certs.Client(""); cert != nil || err != nil {
		t.Errorf("Client without a path = %v, %v; want nothing", cert, err)
	}
	if pool, err := certs.Roots(nil, ""); pool != nil || err != nil {
		t.Errorf("Roots without files = %v, %v; want nil, which means the system's", pool, err)
	}
}

// TestWatch sees until when a certificate is valid once it is accepted, and not a refused one.
func TestWatch(t *testing.T) {
	pair, _, err := testserver.Certificate()
	if err != nil {
		t.Fatal(err)
	}
	state := tls.ConnectionState{PeerCertificates: []*x509.Certificate{pair.Leaf}}
	var seen time.Time
	for _, tt := range []struct {
		name string
		pin  certs.Fingerprint
		want time.Time
	}{
		{"by its issuer", "", pair.Leaf.NotAfter},
		{"by its fingerprint", certs.Of(pair.Leaf), pair.Leaf.NotAfter},
		{"refused", certs.Fingerprint("sha256:" + strings.Repeat("0a", 32)), time.Time{}},
	} {
		seen = time.Time{}
		var config tls.Config
		certs.Pin(&config, tt.pin)
		certs.Watch(&config, func(until time.Time) { seen = until })
		err := config.VerifyConnection(state)
		if !seen.Equal(tt.want) || (err != nil) != tt.want.IsZero() {
			t.Errorf("%s: seen %v, error %v; want %v", tt.name, seen, err, tt.want)
		}
	}
}
