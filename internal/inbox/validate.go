package inbox

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"postrider/internal/address"
	"postrider/internal/certs"
)

// maxText is the width of the columns for address and username: the longest address (RFC 5321
// 4.5.3.1).
const maxText = 320

// maxPath is the width of the columns for files.
const maxPath = 1024

// normalize sets the defaults, makes texts what an import of them reads, and reports everything
// that is wrong with an inbox, except its address and folders.
func (in *Inbox) normalize() error {
	var errs []error
	in.Username = cmp.Or(strings.TrimSpace(in.Username), strings.TrimSpace(in.Address))
	in.Description = strings.TrimSpace(strings.NewReplacer("\r\n", "\n", "\r", "\n").Replace(in.Description))
	in.Host = strings.TrimSuffix(strings.TrimPrefix(in.Host, "["), "]")
	if host, err := address.ToASCII(in.Host); err == nil {
		in.Host = host
	}
	in.Security = cmp.Or(in.Security, TLS)
	in.Port = cmp.Or(in.Port, in.Security.DefaultPort())
	in.Auth = cmp.Or(in.Auth, "auto")
	in.Start = cmp.Or(in.Start, StartLatest)
	errs = append(errs, in.checkServer(), in.checkCertificates(), in.Start.check(), in.Labels.check())
	if !slices.Contains([]string{"auto", "plain", "login"}, in.Auth) {
		errs = append(errs, fmt.Errorf("auth is %q; use auto, plain or login", in.Auth))
	}
	if len(in.Username) > maxText || strings.ContainsAny(in.Username, "\r\n\x00") {
		errs = append(errs, fmt.Errorf("the username is longer than %d octets or contains a line break", maxText))
	}
	if !utf8.ValidString(in.Username) {
		errs = append(errs, fmt.Errorf("the username %q %w", in.Username, errNotUTF8))
	}
	if !utf8.ValidString(in.Description) {
		errs = append(errs, fmt.Errorf("the description %q %w", in.Description, errNotUTF8))
	}
	return errors.Join(errs...)
}

// ParseAddress checks an address and returns it in lower case, as inboxes are named. Without that,
// an account could be added twice in two spellings, and would forward everything twice.
func ParseAddress(s string) (string, error) {
	typed := strings.TrimSpace(s)
	s = fold(s)
	for _, s := range []string{typed, s} {
		if _, err := address.Parse(s); err != nil {
			return "", &InvalidError{err}
		}
	}
	if len(s) > maxText {
		return "", &InvalidError{fmt.Errorf("the address %s is longer than %d octets", s, maxText)}
	}
	return s, nil
}

func fold(address string) string { return strings.ToLower(strings.TrimSpace(address)) }

// DefaultPort is the port IANA assigned: 993 for IMAP over TLS (RFC 8314), else 143.
func (s Security) DefaultPort() int {
	if s == TLS {
		return 993
	}
	return 143
}

// checkServer checks host, port and security.
func (in *Inbox) checkServer() error {
	var errs []error
	notASCII := func(r rune) bool { return r >= utf8.RuneSelf }
	invalid := in.Host == "" || len(in.Host) > 255 ||
		strings.ContainsAny(in.Host, " \t\r\n/@[]") || strings.ContainsFunc(in.Host, notASCII) ||
		strings.Contains(in.Host, ":") && net.ParseIP(in.Host) == nil
	if invalid {
		errs = append(errs,
			fmt.Errorf("host is %q; give the IMAP server's name or IP address, without a port", in.Host))
	}
	if in.Port < 1 || in.Port > 65535 {
		errs = append(errs, fmt.Errorf("port is %d; use 1 to 65535", in.Port))
	}
	switch in.Security {
	case TLS, STARTTLS:
	case None:
		if !invalid && !in.AllowPlaintext && !address.IsLoopback(in.Host) {
			errs = append(errs, fmt.Errorf("security none would send the password to %s unencrypted; "+
				"use tls or starttls, or allow that (--allow-plaintext, in a CSV file the column allow_plaintext)",
				in.Host))
		}
	default:
		errs = append(errs, fmt.Errorf("security is %q; use tls, starttls or none", in.Security))
	}
	return errors.Join(errs...)
}

// checkCertificates checks what is set for TLS. It does not read the files.
func (in *Inbox) checkCertificates() error {
	var errs []error
	fingerprint, err := certs.ParseFingerprint(in.TLSFingerprint)
	if err != nil {
		errs = append(errs, fmt.Errorf("the TLS fingerprint %w", err))
	} else {
		in.TLSFingerprint = string(fingerprint)
	}
	for _, path := range []string{in.CAFile, in.ClientCert} {
		if len(path) > maxPath || path != "" && !filepath.IsAbs(path) {
			errs = append(errs, fmt.Errorf("the file %q has no absolute path of at most %d octets", path, maxPath))
		}
	}
	if in.Security == None && in.CAFile+in.TLSFingerprint+in.ClientCert != "" {
		errs = append(errs, errors.New("security none has no certificates; use tls or starttls, "+
			`or remove what is set for them: --ca-file "" --tls-fingerprint "" --client-cert ""`))
	}
	return errors.Join(errs...)
}

// Since returns the date of since:YYYY-MM-DD, and false for any other start.
func (s Start) Since() (time.Time, bool) {
	day, ok := strings.CutPrefix(string(s), "since:")
	if !ok {
		return time.Time{}, false
	}
	t, err := time.Parse(time.DateOnly, day)
	return t, err == nil
}

func (s Start) check() error {
	if _, ok := s.Since(); ok || s == StartLatest || s == StartNow || s == StartAll {
		return nil
	}
	return fmt.Errorf("start is %q; use latest, now, all or since:YYYY-MM-DD", string(s))
}

var errNotUTF8 = errors.New("is not UTF-8; use a terminal or a script that writes UTF-8")

// folderNames checks names and removes repetitions. It returns INBOX when there are none. Only the
// name INBOX is case-insensitive (RFC 9051 5.1).
func folderNames(names []string) ([]string, error) {
	var out []string
	for _, name := range names {
		if strings.EqualFold(name, "INBOX") {
			name = "INBOX"
		}
		if name == "" || len(name) > 512 || strings.ContainsAny(name, "\r\n\x00") {
			return nil, fmt.Errorf("folder name %q is empty, longer than 512 octets or contains a line break", name)
		}
		if !utf8.ValidString(name) {
			return nil, fmt.Errorf("folder name %q %w", name, errNotUTF8)
		}
		if !slices.Contains(out, name) {
			out = append(out, name)
		}
	}
	if len(out) == 0 {
		out = []string{"INBOX"}
	}
	return out, nil
}
