// Package certs reads certificates from files, and verifies a server's certificate by its
// fingerprint. The IMAP and the SMTP side, their settings and the command line share it.
package certs

import (
	"cmp"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"os"
	"regexp"
	"strings"
	"time"

	"postrider/internal/secret"
)

// algorithm begins every fingerprint. Others may follow one day.
const algorithm = "sha256:"

// Fingerprint is the SHA-256 of one certificate in DER, as sha256: and 64 lower-case hex digits;
// empty for none.
type Fingerprint string

// Of is the fingerprint of a certificate.
func Of(cert *x509.Certificate) Fingerprint {
	sum := sha256.Sum256(cert.Raw)
	return Fingerprint(algorithm + hex.EncodeToString(sum[:]))
}

// named is what may stand before the digits: ours, and what openssl prints.
var named = regexp.MustCompile(`^(sha256:|sha256 fingerprint=)`)

// ParseFingerprint reads sha256:HEX, sha256 Fingerprint=HEX or HEX, in upper or lower case and with
// or without colons.
func ParseFingerprint(s string) (Fingerprint, error) {
	if s = strings.ToLower(strings.TrimSpace(s)); s == "" {
		return "", nil
	}
	digits := strings.ReplaceAll(named.ReplaceAllString(s, ""), ":", "")
	if sum, err := hex.DecodeString(digits); err != nil || len(sum) != sha256.Size {
		return "", errors.New("is not sha256: and 64 hex digits; " +
			"see it with: openssl x509 -noout -fingerprint -sha256 -in CERTIFICATE")
	}
	return Fingerprint(algorithm + digits), nil
}

// MismatchError says that a server has another certificate than the one with the fingerprint.
type MismatchError struct{ Want, Got Fingerprint }

// Error has both fingerprints, so that they can be compared.
func (e *MismatchError) Error() string {
	return fmt.Sprintf("the server's certificate has the fingerprint %s, and not %s", e.Got, e.Want)
}

// Pin makes config accept the server's certificate if it has the fingerprint, and only then: its
// issuer, name and dates do not matter. It does nothing for an empty one.
func Pin(config *tls.Config, want Fingerprint) {
	if want == "" {
		return
	}
	config.InsecureSkipVerify = true
	// Not VerifyPeerCertificate, which is not called for a resumed session.
	config.VerifyConnection = func(state tls.ConnectionState) error {
		if got := Of(state.PeerCertificates[0]); got != want {
			return &MismatchError{Want: want, Got: got}
		}
		return nil
	}
}

// Watch has seen called with the end of validity of the server's certificate, once it is accepted;
// seen may be nil. Call it after Pin.
func Watch(config *tls.Config, seen func(until time.Time)) {
	if seen == nil {
		return
	}
	verify := config.VerifyConnection
	config.VerifyConnection = func(state tls.ConnectionState) error {
		if verify != nil {
			if err := verify(state); err != nil {
				return err
			}
		}
		seen(state.PeerCertificates[0].NotAfter)
		return nil
	}
}

// Present makes config show the certificate to a server that asks for one, and none if it is nil.
// asked is called then; it may be nil.
func Present(config *tls.Config, cert *tls.Certificate, asked func()) {
	// Whoever issued it: a server that does not accept it says so, while without one it would say
	// that it is missing.
	config.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
		if asked != nil {
			asked()
		}
		return cmp.Or(cert, &tls.Certificate{}), nil
	}
}

// Refused reports whether the other side ended TLS with an alert (RFC 8446 6.2).
func Refused(err error) bool {
	op, ok := errors.AsType[*net.OpError](err)
	return ok && op.Op == "remote error"
}

// TooOld reports whether a server has no version of TLS that Go accepts.
func TooOld(err error) bool {
	return Refused(err) && strings.HasSuffix(err.Error(), "protocol version not supported")
}

// NoCipher reports whether the alert may be that of a server without a cipher suite that Go
// accepts: one that only has the key exchange with RSA. It may also lack a certificate of ours.
func NoCipher(err error) bool {
	return Refused(err) && strings.HasSuffix(err.Error(), "handshake failure")
}

// Client reads a certificate and its key from one file in PEM that only its owner can read. For an
// empty path it is nil.
func Client(path string) (*tls.Certificate, error) {
	if path == "" {
		return nil, nil
	}
	pem, err := secret.ReadPrivateFile(path)
	if err != nil {
		return nil, err
	}
	cert, err := tls.X509KeyPair(pem, pem)
	if err != nil {
		return nil, fmt.Errorf("%s does not hold a certificate and its key: %w; "+
			"write both into it in PEM, without a passphrase: cat cert.pem key.pem > %[1]s", path, err)
	}
	return &cert, nil
}

// Add adds the certificates of a file in PEM to a pool. Nobody but the owner may be able to write
// the file.
func Add(pool *x509.CertPool, path string) error {
	pem, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("cannot be read: %w", err)
	}
	info, err := os.Stat(path)
	if err != nil {
		return fmt.Errorf("cannot be read: %w", err)
	}
	if err := secret.CheckMode(path, info, "decide which servers are trusted"); err != nil {
		return fmt.Errorf("is not used: %w", err)
	}
	if !pool.AppendCertsFromPEM(pem) {
		return fmt.Errorf("there is no certificate in %s; name a file in PEM format, "+
			"in which a certificate begins with -----BEGIN CERTIFICATE-----", path)
	}
	return nil
}

// Roots returns the certificates of base and those of a file; without a file it returns base. A nil
// pool means the system's.
func Roots(base *x509.CertPool, path string) (*x509.CertPool, error) {
	if path == "" {
		return base, nil
	}
	pool, err := x509.SystemCertPool()
	switch {
	case base != nil:
		pool = base.Clone()
	case err != nil:
		pool = x509.NewCertPool()
	}
	if err := Add(pool, path); err != nil {
		return nil, err
	}
	return pool, nil
}
