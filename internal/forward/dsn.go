package forward

import (
	"fmt"
	"strings"
)

// Delivery status notifications (RFC 3461): a relay that offers DSN passes them on, and whoever
// delivers the message at last says so, or says why not.

// asks reports whether notifications are asked for. There is nowhere to send them to without a
// reverse-path, and they are not asked for in mail of our own.
func (t *Transaction) asks() bool {
	return t.relay.cfg.Confirm && t.task != 0 && t.from.wire != "" && t.c.offers("DSN")
}

// ret are the parameters of MAIL: only the header comes back, with what names the delivery.
func (t *Transaction) ret() string {
	switch {
	case !t.asks():
		return ""
	case !t.signed():
		return " RET=HDRS"
	}
	return " RET=HDRS ENVID=" + t.relay.cfg.Signer.Token(t.task, t.to[0].name)
}

// notify are the parameters of RCPT.
func (t *Transaction) notify(rcpt path) string {
	if !t.asks() {
		return ""
	}
	original := "rfc822;" + xtext(rcpt.wire)
	if rcpt.utf8 {
		original = "utf-8;" + escaped(rcpt.wire)
	}
	return " NOTIFY=SUCCESS,FAILURE,DELAY ORCPT=" + original
}

// xtext is RFC 3461 4: what is not printable ASCII, + and = are written in hex.
func xtext(s string) string {
	var b strings.Builder
	for i := range len(s) {
		if c := s[i]; c > ' ' && c < 0x7f && c != '+' && c != '=' {
			b.WriteByte(c)
		} else {
			fmt.Fprintf(&b, "+%02X", c)
		}
	}
	return b.String()
}

// escaped is an internationalized address that any server can pass on (RFC 6533 3,
// utf-8-addr-xtext).
func escaped(s string) string {
	var b strings.Builder
	for _, c := range s {
		if c > ' ' && c < 0x7f && c != '+' && c != '=' && c != '\\' {
			b.WriteRune(c)
		} else {
			fmt.Fprintf(&b, `\x{%X}`, c)
		}
	}
	return b.String()
}
