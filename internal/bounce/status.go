package bounce

import (
	"cmp"
	"encoding/hex"
	"regexp"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"postrider/internal/message"
	"postrider/internal/text"
)

// readStatus reads a delivery status: fields of the message, and a group of fields for each
// recipient (RFC 3464 2.1, RFC 6533 3). Some servers leave out the line between the two.
func (r *reader) readStatus(s string) {
	reporting := ""
	for _, g := range groups(s) {
		if id := g.get("original-envelope-id"); r.EnvelopeID == "" {
			r.EnvelopeID = short(unxtext(id))
		}
		if id := g.get("original-message-id"); r.MessageID == "" {
			r.MessageID = short(id)
		}
		if mta := host(g.get("reporting-mta")); reporting == "" {
			reporting = mta
		}
		if f, ok := fateOf(g); ok {
			if of := r.members[f.Recipient]; len(of) > 0 {
				r.members[f.Recipient] = of[1:]
				f.about(of[0])
			}
			if f.Remote == "" {
				f.Remote = reporting // it decided by itself
			}
			r.add(Delivery, f)
		}
	}
}

// fateOf reads the fields of one recipient (RFC 3464 2.3).
func fateOf(g group) (Fate, bool) {
	f := Fate{
		Recipient: recipient(g.get("final-recipient")), Original: recipient(g.get("original-recipient")),
		Remote: host(g.get("remote-mta")), At: message.ParseDate(g.get("last-attempt-date")),
	}
	if f.Recipient == "" {
		f.Recipient = f.Original
	}
	if actual := recipient(g.get("x-actual-recipient")); strings.Contains(actual, "@") { // sendmail
		f.about(actual)
	}
	if m := status.FindStringSubmatch(g.get("status")); m != nil {
		f.Status = m[1]
	}
	f.Action = actionOf(g.get("action"), f.Status)
	_, words := typed(g.get("diagnostic-code"))
	var specific string
	f.Code, specific, f.Reply = said(words)
	f.refine(specific)
	return f, f.Recipient != "" && f.Action != 0
}

// about makes it the fate of a member, if its recipient is an alias.
func (f *Fate) about(member string) {
	if spelled(member) != spelled(f.Recipient) {
		f.Original, f.Recipient = cmp.Or(f.Original, f.Recipient), member
	}
}

// refine takes a status from a reply, where the report has none, or none that says why (RFC 3463
// 3.1).
func (f *Fate) refine(specific string) {
	if specific != "" && (f.Status == "" || strings.HasSuffix(f.Status, ".0.0")) {
		f.Status = specific
	}
}

// actionOf reads the field Action, which a few servers leave out: then the class of the status says
// it (RFC 3463 2).
func actionOf(v, status string) Action {
	v = word(v)
	for a := Failed; a <= Expanded; a++ {
		if strings.EqualFold(v, a.String()) {
			return a
		}
	}
	switch {
	case v != "" || status == "":
		return 0
	case status[0] == '5':
		return Failed
	case status[0] == '4':
		return Delayed
	}
	return Delivered
}

// recipient reads `rfc822; ann@x.example` and `utf-8; jörg@x.example`, be it in one of their
// encodings.
func recipient(v string) string {
	kind, a := typed(v)
	a = word(a)
	if kind == "utf-8" {
		a = ununitext(a)
	}
	return mailbox(unxtext(a))
}

// hexPair is a character that xtext has to encode, except for blanks and control characters: it
// does not encode a digit, as in archive+2026@x.example.
var hexPair = regexp.MustCompile(`\+(?:2B|3D|[89A-F][0-9A-F])`)

// unxtext decodes xtext (RFC 3461 4), which some servers copy into their report as it stood in
// ORCPT, and some decode. What is not encoded, or is something else when it is decoded, stays.
func unxtext(s string) string {
	if strings.Count(s, "+") != len(hexPair.FindAllString(s, -1)) {
		return s
	}
	decoded := hexPair.ReplaceAllStringFunc(s, func(pair string) string {
		b, _ := hex.DecodeString(pair[1:])
		return string(b)
	})
	if !utf8.ValidString(decoded) || text.Line(decoded) != strings.TrimSpace(decoded) {
		return s
	}
	return decoded
}

var embedded = regexp.MustCompile(`\\x\{([0-9A-Fa-f]{1,6})\}`)

// ununitext decodes the characters in utf-8-addr-xtext and utf-8-addr-unitext (RFC 6533 3).
func ununitext(s string) string {
	return embedded.ReplaceAllStringFunc(s, func(one string) string {
		n, err := strconv.ParseUint(one[len(`\x{`):len(one)-1], 16, 32)
		if err != nil || !unicode.IsPrint(rune(n)) {
			return one
		}
		return string(rune(n))
	})
}

var (
	// status is an enhanced status code (RFC 3463) that is not a part of something else, such as
	// of an IP address.
	status = regexp.MustCompile(`(?:^|[\s(#<:;])#?([245]\.\d{1,3}\.\d{1,3})(?:[\s()>:;,#]|$)`)
	// replied is the beginning of an SMTP reply in words around it.
	replied = regexp.MustCompile(`(?:^|[:;'"#>]\s*)([245]\d\d)([- ]|$)(?:#?([245]\.\d{1,3}\.\d{1,3})(?:[\s:]+|$))?`)
	// again is how a further line of a reply begins.
	again = regexp.MustCompile(`\s[245]\d\d[- ](?:[245]\.\d{1,3}\.\d{1,3}\s)?`)
)

// said takes an SMTP reply out of the words around it. Without one, rest is all of s.
func said(s string) (code int, enhanced, rest string) {
	s = text.Line(s)
	m := replied.FindStringSubmatchIndex(s)
	if m == nil {
		if m := status.FindStringSubmatch(s); m != nil {
			enhanced = m[1]
		}
		return 0, enhanced, s
	}
	digits, several := s[m[2]:m[3]], s[m[4]:m[5]] == "-"
	code, _ = strconv.Atoi(digits)
	if m[6] >= 0 {
		enhanced = s[m[6]:m[7]]
	}
	rest = s[m[1]:]
	if several {
		rest = again.ReplaceAllStringFunc(" "+rest, func(begin string) string {
			if begin[1:4] != digits {
				return begin
			}
			return " "
		})
	}
	return code, enhanced, strings.TrimSpace(rest)
}
