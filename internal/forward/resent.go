package forward

import (
	"strings"

	"postrider/internal/message"
)

// resent is the Resent- block (RFC 5322 3.6.6) without the fields that a signature covers: adding
// one would break the signature. The block needs a date and an author; when a signature covers one
// of them, there is no block. The block does not name the recipients: they need not know of each
// other.
func (c *Composer) resent(m *message.Message, o Origin) (block, remark string) {
	fields := []struct {
		name, value string
		needed      bool
	}{
		{"Resent-Date", date(o.Registered), true},
		{"Resent-From", (&c.from).String(), true},
		{"Resent-Message-ID", c.messageID("resent", o.Inbox, m.Fingerprint), false},
	}
	var without []string
	for _, f := range fields {
		switch covered := breaks(m.Header, f.name); {
		case covered && f.needed:
			return "", "no Resent- fields: a signature covers " + f.name
		case covered:
			without = append(without, f.name)
		default:
			block += field(f.name, f.value)
		}
	}
	if len(without) > 0 {
		remark = "without " + strings.Join(without, ", ") + ", which a signature covers"
	}
	return block, remark
}
