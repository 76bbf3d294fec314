// Package dkim signs mail with the key of one domain (RFC 6376; RFC 8463 for Ed25519).
//
// Sign reads a message once and keeps nothing of it: memory does not grow with its size. The
// signature is relaxed/relaxed. It covers the fields that readers see and those that say how the
// body is read, and it over-signs them: adding a field of such a name on the way breaks the
// signature.
//
// No error contains anything of the key.
package dkim

import (
	"crypto"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/emersion/go-msgauth/dkim"

	"postrider/internal/secret"
)

// Key signs for a domain.
type Key struct {
	Domain   string
	Selector string // names the key in the DNS
	signer   crypto.Signer
}

// Load reads a private key in PEM: PKCS #8 (RSA or Ed25519), or PKCS #1 (RSA). The file must be
// readable by its owner alone.
func Load(domain, selector, file string) (*Key, error) {
	text, err := secret.ReadPrivateFile(file)
	if err != nil {
		return nil, err
	}
	signer, err := parse(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return &Key{Domain: domain, Selector: selector, signer: signer}, nil
}

const makeOne = "make one with: openssl genpkey -algorithm rsa -pkeyopt rsa_keygen_bits:2048 (or -algorithm ed25519)"

var (
	errNoPEM     = errors.New("is not a private key in PEM, RSA or Ed25519; " + makeOne)
	errKind      = errors.New("is of a key type that DKIM does not have; use RSA or Ed25519: " + makeOne)
	errEncrypted = errors.New("is encrypted, and postrider cannot ask for its password; " +
		"decrypt it with: openssl pkey -in FILE -out FILE2")
)

func parse(text []byte) (crypto.Signer, error) {
	block, _ := pem.Decode(text)
	if block == nil {
		return nil, errNoPEM
	}
	switch block.Type {
	case "ENCRYPTED PRIVATE KEY":
		return nil, errEncrypted
	case "RSA PRIVATE KEY":
		if block.Headers["DEK-Info"] != "" {
			return nil, errEncrypted
		}
		key, err := x509.ParsePKCS1PrivateKey(block.Bytes)
		if err != nil {
			return nil, errNoPEM
		}
		return strong(key)
	case "PRIVATE KEY":
		key, err := x509.ParsePKCS8PrivateKey(block.Bytes)
		if err != nil {
			return nil, errNoPEM
		}
		return strong(key)
	}
	return nil, errNoPEM
}

// strong refuses the keys that verifiers refuse (RFC 8301 3.2: less than 1024 bits).
func strong(key any) (crypto.Signer, error) {
	switch key := key.(type) {
	case ed25519.PrivateKey:
		return key, nil
	case *rsa.PrivateKey:
		if bits := key.N.BitLen(); bits < 1024 {
			return nil, fmt.Errorf("is an RSA key of %d bits, which no verifier accepts; use 2048: %s", bits, makeOne)
		}
		return key, nil
	}
	return nil, errKind
}

// Covered are the fields of RFC 6376 5.4.1 that are about the message itself. Fields of mailing
// lists are not covered: a list that the message passes later adds its own.
var Covered = []string{
	"From", "Sender", "Reply-To", "Subject", "Date", "Message-ID", "To", "Cc", "In-Reply-To", "References",
	"MIME-Version", "Content-Type", "Content-Transfer-Encoding",
}

// Sign reads a message and returns the field to put on top of it, with its line end.
func (k *Key) Sign(message io.Reader) (field string, err error) {
	s, err := dkim.NewSigner(&dkim.SignOptions{
		Domain: k.Domain, Selector: k.Selector, Signer: k.signer, HeaderKeys: slices.Repeat(Covered, 2),
		HeaderCanonicalization: dkim.CanonicalizationRelaxed, BodyCanonicalization: dkim.CanonicalizationRelaxed,
	})
	if err != nil {
		return "", fmt.Errorf("sign for %s: %w", k.Domain, err)
	}
	_, copied := io.Copy(s, message)
	if err := errors.Join(copied, s.Close()); err != nil {
		return "", fmt.Errorf("sign for %s: %w", k.Domain, err)
	}
	return s.Signature(), nil
}

// Record is what has to be in the DNS for the signatures to verify: the name, and the text of its
// TXT record (RFC 6376 3.6.1, RFC 8463 4.2).
func (k *Key) Record() (name, text string) {
	name = k.Selector + "._domainkey." + k.Domain
	if key, ok := k.signer.Public().(ed25519.PublicKey); ok {
		return name, "v=DKIM1; k=ed25519; p=" + base64.StdEncoding.EncodeToString(key)
	}
	der, _ := x509.MarshalPKIXPublicKey(k.signer.Public()) // of an RSA key, which never fails
	return name, "v=DKIM1; k=rsa; p=" + base64.StdEncoding.EncodeToString(der)
}

// IsRSA tells an RSA key from an Ed25519 key.
func (k *Key) IsRSA() bool {
	_, ok := k.signer.Public().(*rsa.PublicKey)
	return ok
}

// SignSHA256 signs a text as rsa-sha256 (RFC 6376 3.3.1), with an RSA key.
func (k *Key) SignSHA256(text []byte) ([]byte, error) {
	sum := sha256.Sum256(text)
	return k.signer.Sign(rand.Reader, sum[:], crypto.SHA256)
}
