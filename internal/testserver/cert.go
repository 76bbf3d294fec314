package testserver

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"time"
)

// Certificate makes a self-signed certificate for localhost and 127.0.0.1, for a server or a
// client, and the pool that trusts it, for the other side.
func Certificate() (tls.Certificate, *x509.CertPool, error) {
	return keyPair(certificatePEM())
}

// ExpiredCertificate is like Certificate, and ended a minute ago.
func ExpiredCertificate() (tls.Certificate, *x509.CertPool, error) {
	return keyPair(makePEM("localhost", time.Now().Add(-time.Minute)))
}

// FutureCertificate is like Certificate, and begins in 23 hours.
func FutureCertificate() (tls.Certificate, *x509.CertPool, error) {
	return keyPair(makePEM("localhost", time.Now().Add(2*validFor)))
}

// CertificateOf is like Certificate, for another name.
func CertificateOf(name string) (tls.Certificate, *x509.CertPool, error) {
	return keyPair(makePEM(name, time.Now().Add(validFor)))
}

func keyPair(certPEM, keyPEM []byte, err error) (tls.Certificate, *x509.CertPool, error) {
	if err != nil {
		return tls.Certificate{}, nil, err
	}
	cert, err := tls.X509KeyPair(certPEM, keyPEM)
	if err != nil {
		return tls.Certificate{}, nil, fmt.Errorf("make a test certificate: %w", err)
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(certPEM)
	return cert, pool, nil
}

func certificatePEM() (certPEM, keyPEM []byte, err error) {
	return makePEM("localhost", time.Now().Add(validFor))
}

const validFor = 24 * time.Hour

func makePEM(name string, end time.Time) (certPEM, keyPEM []byte, err error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, fmt.Errorf("make a test certificate: %w", err)
	}
	template := &x509.Certificate{
		SerialNumber:          big.NewInt(time.Now().UnixNano()),
		Subject:               pkix.Name{CommonName: name},
		NotBefore:             end.Add(-validFor - time.Hour),
		NotAfter:              end,
		KeyUsage:              x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
		ExtKeyUsage:           []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
		BasicConstraintsValid: true,
		IsCA:                  true,
		DNSNames:              []string{name},
	}
	if name == "localhost" {
		template.IPAddresses = []net.IP{net.ParseIP(loopback)}
	}
	cert, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		return nil, nil, fmt.Errorf("make a test certificate: %w", err)
	}
	keyBytes, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, nil, fmt.Errorf("make a test certificate: %w", err)
	}
	certPEM = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert})
	keyPEM = pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: keyBytes})
	return certPEM, keyPEM, nil
}
