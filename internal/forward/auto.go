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

	"postrider/internal/address"
	"postrider/internal/message"
)

// choose decides for mode Auto: redirect if receivers accept that with the author's From, else
// rewrite. It also returns the reason.
func (c *Composer) choose(
	ctx context.Context, m *message.Message, o Origin, s Style, form shape,
) (Mode, string, error) {
	fields, err := m.Fields()
	if err != nil {
		return "", "", err
	}
	fields, body, odd := split(fields)
	if odd == "" && (costly(fields) || form.empty > maxEmpty) {
		odd = "its signatures would take long to verify"
	}
	domain, unknown := author(m.Header)
	if odd = cmp.Or(odd, untraceable(m), unknown); odd != "" {
		return Rewrite, "auto: " + odd, nil
	}
	redirect := c.traced(m, o, s.Resent)
	verdict, err := c.judge.Redirectable(ctx, domain, redirect.Reader())
	if err != nil {
		return "", "", err
	}
	doubt := ""
	if verdict.Signer != "" {
		doubt, err = c.doubt(ctx, domain, m, redirect, fields, body)
	}
	switch {
	case err != nil:
		return "", "", err
	case doubt != "":
		return Rewrite, fmt.Sprintf("auto: %s, but not at every receiver: %s", verdict.Why, doubt), nil
	case verdict.Redirect:
		return Redirect, "auto: " + verdict.Why, nil
	}
	return Rewrite, "auto: " + verdict.Why, nil
}

// maxEmpty is how many octets of empty lines in a row are passed to a verifier or signer. It holds
// them in memory until it knows whether the message ends there, and its work may grow with their
// square.
const maxEmpty = 64 << 10

// costly reports whether signatures take too long to verify: for each field that a signature names,
// a verifier looks through the whole header, and a stranger chooses both sizes.
func costly(fields []message.Field) bool {
	const enough, perField = 64 << 20, 64
	names, octets := 0, 0
	for _, f := range fields {
		octets += len(f.Raw) + perField
		if f.Name == "dkim-signature" {
			names += bytes.Count(f.Raw, []byte(":"))
		}
	}
	return names*octets > enough
}

// author is the domain that receivers look up. Receivers differ when From does not name exactly one
// author (RFC 7489 6.6.1).
func author(h message.Header) (domain, odd string) {
	from := h.Values("From")
	switch len(from) {
	case 0:
		return "", "it has no From field"
	case 1:
	default:
		return "", fmt.Sprintf("it has %d From fields", len(from))
	}
	// The charset of the name does not matter.
	anyCharset := func(_ string, r io.Reader) (io.Reader, error) { return r, nil }
	parser := mail.AddressParser{WordDecoder: &mime.WordDecoder{CharsetReader: anyCharset}}
	list, err := parser.ParseList(from[0])
	switch {
	case err != nil:
		return "", "its From field cannot be read"
	case len(list) != 1:
		return "", fmt.Sprintf("its From field names %d authors", len(list))
	}
	p, err := address.Parse(address.Quoted(list[0].Address))
	domain = p.Domain()
	if err != nil || strings.HasPrefix(domain, "[") {
		return "", "the address in its From field has no domain that could be looked up"
	}
	return domain, ""
}

// because puts a reason of mode Auto before the remarks of a content and of its fallbacks. It
// leaves out what a remark would repeat.
func (c *Content) because(why string) *Content {
	if why == "" {
		return c
	}
	remark := strings.TrimSuffix(c.Remark, ": "+strings.TrimPrefix(why, "auto: "))
	c.Remark = strings.TrimSuffix(why+"; "+remark, "; ")
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
