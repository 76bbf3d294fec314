package forward

import (
	"fmt"
	"strings"

	"postrider/internal/address"
)

// Delivery status notifications (RFC 3461): a relay that offers DSN passes the request on. The
// server that delivers the message at the end reports that, or why it could not.

// asks reports whether notifications are asked for. They need a reverse-path to be sent to. For
// mail of our own they are not asked for.
func (t *Transaction) asks() bool {
	return t.relay.cfg.Confirm && t.task != 0 && t.from.Wire != "" && t.c.offers("DSN")
}

// ret returns the parameters of MAIL: reports return only the header, and the token of the
// delivery.
func (t *Transaction) ret() string {
	switch {
	case !t.asks():
		return ""
	case !t.signed():
		return " RET=HDRS"
	}
	return " RET=HDRS ENVID=" + t.relay.cfg.Signer.Token(t.task, t.queued, t.to[0].Text)
}

// notify are the parameters of RCPT.
func (t *Transaction) notify(rcpt address.Address) string {
	if !t.asks() {
		return ""
	}
	original := "rfc822;" + xtext(rcpt.Wire)
	if rcpt.UTF8 {
		original = "utf-8;" + escaped(rcpt.Wire)
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
