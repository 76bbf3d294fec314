package forward

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"io"
	"mime"
	"net/mail"
	"strings"

	"postrider/internal/message"
)

// choose is Auto: a redirect where receivers will take one with the author's From, and else what is in the forwarder's
// name. It says why.
func (c *Composer) choose(ctx context.Context, m *message.Message, o Origin, s Style, form shape) (Mode, string, error) {
	fields, err := m.Fields()
	if err != nil {
		return "", "", err
	}
	fields, _, odd := split(fields)
	if odd == "" && (costly(fields) || form.empty > maxEmpty) {
		odd = "its signatures would take long to verify"
	}
	domain, unknown := author(m.Header)
	if odd = cmp.Or(odd, unknown); odd != "" {
		return Rewrite, "auto: " + odd, nil
	}
	verdict, err := c.judge.Redirectable(ctx, domain, c.redirect(m, o, s.Resent).Reader())
	if err != nil {
		return "", "", err
	}
	if verdict.Redirect {
		return Redirect, "auto: " + verdict.Why, nil
	}
	return Rewrite, "auto: " + verdict.Why, nil
}

// maxEmpty is how many octets of empty lines in a row a verifier or signer gets. It holds them back until it knows whether they
// are the end of the message, and its work may grow with their square.
const maxEmpty = 64 << 10

// costly: a verifier looks through all fields for each that a signature names, and a stranger writes both.
func costly(fields []message.Field) bool {
	const enough = 1_000_000
	names := 0
	for _, f := range fields {
		if f.Name == "dkim-signature" {
			names += bytes.Count(f.Raw, []byte(":"))
		}
	}
	return names*len(fields) > enough
}

// author is the domain that receivers look up. They refuse, or look up as they please, where From does not name one author
// (RFC 7489 6.6.1).
func author(h message.Header) (domain, odd string) {
	from := h.Values("From")
	if len(from) != 1 {
		return "", fmt.Sprintf("it has %d From fields", len(from))
	}
	anyCharset := func(_ string, r io.Reader) (io.Reader, error) { return r, nil } // of the name, which does not matter
	parser := mail.AddressParser{WordDecoder: &mime.WordDecoder{CharsetReader: anyCharset}}
	list, err := parser.ParseList(from[0])
	switch {
	case err != nil:
		return "", "its From field cannot be read"
	case len(list) != 1:
		return "", fmt.Sprintf("its From field names %d authors", len(list))
	}
	p, err := parsePath(list[0].Address)
	domain = p.wire[strings.LastIndexByte(p.wire, '@')+1:]
	if err != nil || strings.HasPrefix(domain, "[") {
		return "", "the address in its From field has no domain that could be looked up"
	}
	return domain, ""
}

// because puts a reason in front of a content's remark, and of those of what may go instead of it.
func (c *Content) because(why string) *Content {
	if why == "" {
		return c
	}
	c.Remark = strings.TrimSuffix(why+"; "+c.Remark, "; ")
	if instead := c.instead; instead != nil {
		c.instead = func() (*Content, error) {
			other, err := instead()
			if err != nil {
				return nil, err
			}
			return other.because(why), nil
		}
	}
	return c
}
