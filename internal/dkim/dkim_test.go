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
	"math/big"
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

// weak is a key of 512 bits, which the standard library does not make any more.
func weak(t *testing.T) *rsa.PrivateKey {
	t.Helper()
	e, one := big.NewInt(65537), big.NewInt(1)
	for {
		p, err := rand.Prime(rand.Reader, 256)
		if err != nil {
			t.Fatal(err)
		}
		q, err := rand.Prime(rand.Reader, 256)
		if err != nil {
			t.Fatal(err)
		}
		phi := new(big.Int).Mul(new(big.Int).Sub(p, one), new(big.Int).Sub(q, one))
		d := new(big.Int).ModInverse(e, phi)
		n := new(big.Int).Mul(p, q)
		if d != nil && n.BitLen() == 512 && p.Cmp(q) != 0 {
			return &rsa.PrivateKey{PublicKey: rsa.PublicKey{N: n, E: 65537}, D: d, Primes: []*big.Int{p, q}}
		}
	}
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
		{
			"RSA that verifiers do not take",
			write(t, "RSA PRIVATE KEY", x509.MarshalPKCS1PrivateKey(weak(t))), "512 bits",
		},
		{"another kind", write(t, "PRIVATE KEY", pkcs8(t, curve)), "use RSA or Ed25519"},
		{"encrypted", write(t, "ENCRYPTED PRIVATE KEY", nil), "is encrypted"},
		{"a certificate", write(t, "CERTIFICATE", nil), "not a private key in PEM"},
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
				name, record := key.Record()
				if name != "s1._domainkey.firm.example" || !strings.HasPrefix(record, "v=DKIM1; k=rsa; p=MI") {
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
		t.Errorf("Load = %v, want the command that fixes it", err)
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
	message := io.MultiReader(strings.NewReader("From: a\r\n\r\nx"), iotest.ErrReader(broken))
	if _, err := k.Sign(message); !errors.Is(err, broken) {
		t.Errorf("Sign = %v, want the reader's error", err)
	}
}
