package imapsrc

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"strings"
)

// usualPorts helps when port and security do not match.
const usualPorts = "usually 993 for tls, 143 for starttls"

// tlsFailure says why TLS failed, and how to fix it.
func tlsFailure(err error, host string) error {
	var record tls.RecordHeaderError
	var verification *tls.CertificateVerificationError
	switch {
	case errors.As(err, &record):
		err = fmt.Errorf("no TLS on this port: port and security do not match (%s) (%w)", usualPorts, err)
	case errors.As(err, &verification) && len(verification.UnverifiedCertificates) > 0:
		err = fmt.Errorf("%s (%w)", certificateProblem(err, verification.UnverifiedCertificates[0], host), err)
	case strings.Contains(err.Error(), "tls: "):
		err = fmt.Errorf("start TLS 1.2 or later: %w", err)
	default:
		return fmt.Errorf("start TLS: %w", err)
	}
	return &Error{Kind: KindTLS, Err: err}
}

func certificateProblem(err error, cert *x509.Certificate, host string) string {
	var name x509.HostnameError
	var invalid x509.CertificateInvalidError
	switch {
	case errors.As(err, &name):
		return fmt.Sprintf("the certificate is for %s, not for %s; set the host to a name in the certificate",
			clean(certNames(cert)), host)
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired:
		return fmt.Sprintf("the certificate is valid from %s to %s only; "+
			"the server needs a new one, or this machine's clock is wrong",
			cert.NotBefore.Format("2006-01-02"), cert.NotAfter.Format("2006-01-02"))
	}
	return fmt.Sprintf("the certificate of %s was issued by %q, which this machine does not trust; "+
		"set imap.ca_file to a file with that issuer's certificate", host, clean(cert.Issuer.String()))
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
