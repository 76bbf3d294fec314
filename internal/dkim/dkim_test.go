package dkim

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"testing/iotest"
)

func write(t *testing.T, kind string, der []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "key.pem")
	if err := os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func pkcs8(t *testing.T, key any) []byte {
	t.Helper()
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return der
}

func TestLoad(t *testing.T) {
	good, err := rsa.GenerateKey(rand.Reader, 1024)
	if err != nil {
		t.Fatal(err)
	}
	curve, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		name, path, says string
	}{
		{"RSA, PKCS #8", write(t, "PRIVATE KEY", pkcs8(t, good)), ""},
		{"RSA, PKCS #1", write(t, "RSA PRIVATE KEY", x509.MarshalPKCS1PrivateKey(good)), ""},
		{"another kind", write(t, "PRIVATE KEY", pkcs8(t, curve)), "use RSA or Ed25519"},
		{"encrypted", write(t, "ENCRYPTED PRIVATE KEY", nil), "is encrypted"},
		{"a certificate", write(t, "CERTIFICATE", nil), "no private key in PEM"},
		{"damaged", write(t, "PRIVATE KEY", []byte("x")), "openssl genpkey"},
		{"not there", filepath.Join(t.TempDir(), "none"), "there is no file"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			key, err := Load("firm.example", "s1", tt.path)
			if tt.says == "" {
				if err != nil {
					t.Fatalf("Load = %v, want a key", err)
				}
				if name, record := key.Record(); name != "s1._domainkey.firm.example" || !strings.HasPrefix(record, "v=DKIM1; k=rsa; p=MI") {
					t.Errorf("Record = %s %s, want the name and the key", name, record)
				}
				return
			}
			if err == nil || !strings.Contains(err.Error(), tt.says) {
				t.Errorf("Load = %v, want an error with %q", err, tt.says)
			}
		})
	}
}

func TestKeyThatOthersCanRead(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("no such modes")
	}
	path := write(t, "PRIVATE KEY", nil)
	if err := os.Chmod(path, 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := Load("firm.example", "s1", path); err == nil || !strings.Contains(err.Error(), "chmod 600") {
		t.Errorf("Load = %v, want the command that mends it", err)
	}
}

// TestSignFails: a message that cannot be read is not signed, and nothing is left behind.
func TestSignFails(t *testing.T) {
	key, err := rsa.GenerateKey(rand.Reader, 1024)
	if err != nil {
		t.Fatal(err)
	}
	k, err := Load("firm.example", "s1", write(t, "PRIVATE KEY", pkcs8(t, key)))
	if err != nil {
		t.Fatal(err)
	}
	broken := errors.New("the disk is gone")
	if _, err := k.Sign(io.MultiReader(strings.NewReader("From: a\r\n\r\nx"), iotest.ErrReader(broken))); !errors.Is(err, broken) {
		t.Errorf("Sign = %v, want the reader's error", err)
	}
}
