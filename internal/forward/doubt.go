package forward

import (
	"bytes"
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"postrider/internal/message"
)

// doubt is why some receivers do not count a valid signature of a redirect; empty if all do. The
// rules were found by testing rspamd and OpenDKIM (TestReceivers).
func (c *Composer) doubt(
	ctx context.Context, domain string, m *message.Message, redirect *Content, fields []message.Field, body int64,
) (string, error) {
	for _, name := range unique {
		if n := len(m.Header.Values(name)); n > 1 {
			return fmt.Sprintf("it has %d %s fields", n, name), nil
		}
	}
	if !slices.ContainsFunc(m.Header.Values("DKIM-Signature"), illegible) {
		return c.spacing(ctx, domain, m, redirect, fields, body)
	}
	return "one of its signature fields cannot be read", nil
}

// unique are fields that a message may have once (RFC 5322 3.6). When it has a signed one twice,
// rspamd counts the signature as broken: readers may see the one that is not signed.
var unique = []string{
	"From", "To", "Cc", "Subject", "Date", "Message-ID", "Sender", "Reply-To", "In-Reply-To", "References",
}

var (
	// The tags of a signature that are needed (RFC 6376 3.5), and those whose value is a number.
	neededTags  = []string{"v", "a", "b", "bh", "d", "h", "s"}
	numericTags = []string{"t", "x", "l"}

	tagName = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9_-]*$`)
	number  = regexp.MustCompile(`^[0-9]+$`)
)

// illegible reports whether the value of a signature field breaks the grammar (RFC 6376 3.2 and
// 3.5). OpenDKIM then verifies no other signature either.
func illegible(value string) bool {
	has := map[string]bool{}
	for tag := range strings.SplitSeq(strings.TrimSuffix(value, ";"), ";") {
		name, v, ok := strings.Cut(tag, "=")
		name, v = strings.TrimSpace(name), strings.TrimSpace(v)
		if !ok || !tagName.MatchString(name) || name == "v" && v != "1" ||
			slices.Contains(numericTags, name) && !number.MatchString(v) {
			return true
		}
		has[name] = v != ""
	}
	return nonASCII([]byte(value)) || slices.ContainsFunc(neededTags, func(name string) bool { return !has[name] })
}

// spacing verifies the redirect in the forms that mail servers and filters may give it: without
// white space before the colon of a field (Postfix), and with a space after it (the milter protocol
// does not hand that over). A signature with simple canonicalization covers both.
func (c *Composer) spacing(
	ctx context.Context, domain string, m *message.Message, redirect *Content, fields []message.Field, body int64,
) (string, error) {
	var b bytes.Buffer
	changed := false
	for _, f := range fields {
		name, value, _ := bytes.Cut(f.Raw, []byte(":"))
		usual := slices.Concat(name[:len(f.Name)], []byte(": "), bytes.TrimPrefix(value, []byte(" ")))
		changed = changed || !bytes.Equal(usual, f.Raw)
		b.Write(usual)
	}
	if !changed {
		return "", nil
	}
	b.Write(crlf)
	handled := &Content{parts: []piece{redirect.parts[0], textPiece(b.String()), storedPiece(m.Body, body)}}
	verdict, err := c.judge.Redirectable(ctx, domain, handled.Reader())
	if err != nil || verdict.Redirect {
		return "", err
	}
	return "its signature covers white space beside a colon, which filters change", nil
}
