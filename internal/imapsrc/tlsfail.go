package imapsrc

import (
	"cmp"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"strings"
	"time"

	"postrider/internal/certs"
	"postrider/internal/text"
)

// usualPorts is a hint for when port and security do not match.
const usualPorts = "usually 993 for tls, 143 for starttls"

// serverTLS says why TLS with the server failed, and how to accept its certificate.
func (c *Conn) serverTLS(err error) error {
	if other, ok := errors.AsType[*certs.MismatchError](err); ok {
		return &Error{Kind: KindTLS, Err: fmt.Errorf("%w; "+
			"if the server really has a new certificate with that fingerprint, accept it: %s",
			err, c.set("--tls-fingerprint "+string(other.Got)))}
	}
	if certs.Refused(err) {
		return &Error{Kind: KindTLS, Err: fmt.Errorf("start TLS 1.2 or later: %w", c.refusedUs(err))}
	}
	if _, ok := errors.AsType[tls.RecordHeaderError](err); ok && c.cfg.Security == SecurityStartTLS {
		return &Error{Kind: KindTLS, Err: fmt.Errorf("the server takes STARTTLS, and then sends no TLS (%w); "+
			"ask its administrator, or use security tls, usually on port 993", err)}
	}
	out := tlsFailure(err, c.cfg.Host)
	refused, ok := errors.AsType[*tls.CertificateVerificationError](err)
	if !ok || len(refused.UnverifiedCertificates) == 0 {
		return out
	}
	cert := refused.UnverifiedCertificates[0]
	if time.Now().Before(cert.NotBefore) {
		return out // to accept it is no answer to a clock that is wrong
	}
	ca := ""
	if _, ok := errors.AsType[x509.UnknownAuthorityError](err); ok {
		ca = "for this inbox alone: " + c.set("--ca-file FILE") + "; or, "
	}
	return &Error{Kind: KindTLS, Err: fmt.Errorf("%w; %scompare the fingerprint with the server's own; "+
		"if it is the same, accept only this certificate: %s",
		errors.Unwrap(out), ca, c.set("--tls-fingerprint "+string(certs.Of(cert))))}
}

// set is the command, or the flag or column of the command that runs, that changes a setting of the
// inbox.
func (c *Conn) set(flag string) string {
	if c.cfg.Unstored {
		name, _, _ := strings.Cut(strings.TrimPrefix(flag, "--"), " ")
		return "add it with `" + flag + "` (in a CSV file: the column " + strings.ReplaceAll(name, "-", "_") + ")"
	}
	return "`postrider inbox set " + text.Arg(cmp.Or(c.cfg.Account, c.cfg.Username)) + " " + flag + "`"
}

// refusedUs says why the server may have ended TLS with an alert. In TLS 1.3 the alert about the
// client's certificate comes after the handshake.
func (c *Conn) refusedUs(err error) error {
	switch {
	case !c.asked && certs.NoCipher(err):
		return fmt.Errorf("%w; perhaps the server has no cipher suite in common with postrider; "+
			"it needs one with ECDHE", err)
	case !c.asked:
		return err
	case c.cfg.ClientCert == nil:
		return fmt.Errorf("the server wants a certificate of the client: %s (%w)",
			c.set("--client-cert FILE"), err)
	}
	return fmt.Errorf("the server does not accept the certificate of --client-cert; "+
		"name one that it knows or whose issuer it trusts (%w)", err)
}

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
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired && time.Now().Before(cert.NotBefore):
		return fmt.Sprintf("the certificate is valid from %s UTC; set this machine's clock, "+
			"or have the server's administrator correct the certificate",
			cert.NotBefore.UTC().Format(time.DateTime))
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired:
		return fmt.Sprintf("the certificate is valid from %s to %s only; "+
			"the server needs a new one, or this machine's clock is wrong",
			cert.NotBefore.Format("2006-01-02"), cert.NotAfter.Format("2006-01-02"))
	case errors.As(err, &invalid):
		return "the certificate cannot be used; the server needs another one"
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
