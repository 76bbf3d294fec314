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
			_, err := Load(path, variables())
			if tt.want == "" && err != nil || tt.want != "" && (err == nil || !strings.Contains(err.Error(), "imap.ca_file: "+tt.want)) {
				t.Errorf("Load = %v, want an error of imap.ca_file with %q, or none if that is empty", err, tt.want)
			}
		})
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
	if _, err := Load(path, variables()); err == nil || !strings.Contains(err.Error(), "imap.ca_file: is not used, because whoever can write it") ||
		!strings.Contains(err.Error(), "chmod go-w "+file) {
		t.Errorf("Load = %v, want an error of imap.ca_file with the chmod", err)
	}
}

// certificate makes one in PEM format.
func certificate(t *testing.T) []byte {
	t.Helper()
	public, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, public, key)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}
