package route

import (
	"strings"

	"postrider/internal/message"
)

// recipientFields say who a message was for: what its author wrote, and what servers noted when they delivered it. A
// blind copy shows only in the latter.
var recipientFields = []string{"To", "Cc", "Delivered-To", "X-Original-To", "Envelope-To"}

// view is one message with what rules have asked of it so far: two hundred rules decode a subject once.
type view struct {
	mail       Mail
	header     message.Header
	texts      map[string][]text
	addresses  map[string][]text
	attachment *bool
}

func newView(m Mail) *view {
	v := &view{mail: m, texts: map[string][]text{}, addresses: map[string][]text{}}
	if m.Message != nil {
		v.header = m.Message.Header
	}
	return v
}

// text is every field of that name, decoded.
func (v *view) text(field string) []text {
	key := strings.ToLower(field)
	out, ok := v.texts[key]
	if !ok {
		for _, s := range v.header.Texts(field) {
			out = append(out, newText(s))
		}
		v.texts[key] = out
	}
	return out
}

// addressesOf is every address in the fields of those names.
func (v *view) addressesOf(fields ...string) []text {
	key := strings.Join(fields, ",")
	out, ok := v.addresses[key]
	if !ok {
		for _, f := range fields {
			for _, a := range v.header.Addresses(f) {
				out = append(out, newAddress(a.Addr))
			}
		}
		v.addresses[key] = out
	}
	return out
}

func (v *view) hasAttachment() bool {
	if v.attachment == nil {
		has := v.mail.Message != nil && v.mail.Message.Content().HasAttachment
		v.attachment = &has
	}
	return *v.attachment
}
