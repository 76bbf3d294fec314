package route

import (
	"cmp"
	"context"
	"strings"
	"time"

	"postrider/internal/message"
)

// recipientFields say who a message is for: what its author wrote, and what servers added on
// delivery. A blind copy shows only in the latter.
var recipientFields = []string{"To", "Cc", "Delivered-To", "X-Original-To", "Envelope-To"}

// view is one message with everything that rules have decoded of it so far, so that many rules
// decode it once.
type view struct {
	ctx       context.Context // ends when the message has taken too much time
	whole     bool            // for Explain: also what no longer changes the outcome
	mail      Mail
	header    message.Header
	texts     map[string][]text
	addresses map[string][]text
	parts     *message.Content
	bodyText  []text
	names     []text
	directory *Directory
	mentions  map[string]located // by place
}

func newView(ctx context.Context, m Mail) *view {
	v := &view{
		ctx: ctx, mail: m, texts: map[string][]text{}, addresses: map[string][]text{}, mentions: map[string]located{},
	}
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

// content may be called only if there is a message.
func (v *view) content() *message.Content {
	if v.parts == nil {
		c := v.mail.Message.Content(v.ctx)
		v.parts = &c
	}
	return v.parts
}

// missing is why the message may have more parts; empty if it has no more.
func (v *view) missing() string { return v.content().Incomplete }

// unread is why the message may have other text; empty if all was read.
func (v *view) unread() string { return cmp.Or(v.missing(), v.content().Unread) }

// body is the decoded text. It is nil if the message has none.
func (v *view) body() []text {
	if v.bodyText == nil && v.content().Text != "" {
		v.bodyText = []text{newText(v.content().Text)}
	}
	return v.bodyText
}

// attachments are the file names.
func (v *view) attachments() []text {
	if v.names == nil {
		for _, name := range v.content().Attachments {
			v.names = append(v.names, newText(name))
		}
	}
	return v.names
}

// arrived is when the last server received the message, else its Date, else when it was registered;
// never later than that. It is the same for every decision about the message.
func (v *view) arrived() time.Time {
	for _, t := range []time.Time{v.header.Received(), v.header.Date()} {
		switch {
		case t.IsZero():
		case !v.mail.At.IsZero() && t.After(v.mail.At):
			return v.mail.At
		default:
			return t
		}
	}
	return v.mail.At
}

// age is how old the message was when it was registered.
func (v *view) age() time.Duration { return max(v.mail.At.Sub(v.arrived()), 0) }
