package imapsrc

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"strings"
)

// tlsFailure says what is wrong with the server's certificate, and the mend.
func tlsFailure(err error, host string) error {
	var record tls.RecordHeaderError
	var verification *tls.CertificateVerificationError
	switch {
	case errors.As(err, &record):
		err = fmt.Errorf("no TLS here: port and security do not match (993 mostly takes tls, 143 starttls) (%w)", err)
	case errors.As(err, &verification) && len(verification.UnverifiedCertificates) > 0:
		err = fmt.Errorf("%s (%w)", mistrust(err, verification.UnverifiedCertificates[0], host), err)
	case strings.Contains(err.Error(), "tls: "):
		err = fmt.Errorf("start TLS 1.2 or later: %w", err)
	default:
		return fmt.Errorf("start TLS: %w", err)
	}
	return &Error{Kind: KindTLS, Err: err}
}

func mistrust(err error, cert *x509.Certificate, host string) string {
	var name x509.HostnameError
	var invalid x509.CertificateInvalidError
	switch {
	case errors.As(err, &name):
		return fmt.Sprintf("the certificate is for %s, not for %s; use a name that it holds as the host", clean(certNames(cert)), host)
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired:
		return fmt.Sprintf("the certificate is good from %s to %s only; the server needs a new one, or this machine's clock is wrong",
			cert.NotBefore.Format("2006-01-02"), cert.NotAfter.Format("2006-01-02"))
	}
	return fmt.Sprintf("the certificate of %s was issued by %q, which this machine does not trust; name a file with that issuer's "+
		"certificate in imap.ca_file", host, clean(cert.Issuer.String()))
}

func certNames(cert *x509.Certificate) string {
	names := cert.DNSNames
	for _, ip := range cert.IPAddresses {
		names = append(names, ip.String())
	}
	if len(names) == 0 {
		return "no name"
	}
	return strings.Join(names, ", ")
}
