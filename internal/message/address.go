package message

import (
	"net/mail"
	"regexp"
	"strconv"
	"strings"
)

// Address is one mailbox of an address field: the decoded display name and the address
// (local@domain), both without control characters.
type Address struct{ Name, Addr string }

// For fields that the parser rejects: what looks like an address, and an address in angle brackets,
// where white space may stand at the @ (RFC 5322 4.4).
const addressPart = `[^\s<>(),;:"\[\]]+`

var (
	looksLikeAddress = regexp.MustCompile(addressPart + "@" + addressPart)
	inAngles         = regexp.MustCompile(`<\s*` + addressPart + `\s*@\s*` + addressPart)
)

// Addresses returns the mailboxes of all fields of that name, with groups flattened. For a field
// that breaks the grammar (RFC 5322 3.4) it returns whatever looks like an address. It never takes
// an address from a display name, because a sender could use that to pose as somebody else.
func (h Header) Addresses(name string) []Address {
	var out []Address
	for _, raw := range h.Values(name) {
		list, _ := h.addresses(raw)
		out = append(out, list...)
	}
	return out
}

func (h Header) addresses(raw string) (out []Address, valid bool) {
	var words encodedWords
	raw = withoutControls(h.plain(words.hide(raw)))
	list, err := mail.ParseAddressList(raw)
	if err != nil {
		for _, a := range guessAddresses(raw) {
			out = append(out, Address{Addr: withoutControls(words.show(a))})
		}
		return out, false
	}
	for _, a := range list {
		out = append(out, Address{Name: h.decode(words.show(a.Name)), Addr: withoutControls(words.show(a.Address))})
	}
	return out, true
}

// encodedWords are those of one address field. They are hidden from the parser, and decoded
// afterwards as in any other field: many are in quotes, or hold octets or commas that the parser
// rejects.
type encodedWords []string

// word is an encoded word that no parser takes for more than one name, or what stands for it.
var word = regexp.MustCompile(`=\?(?:[^?*\s"<>]+(?:\*[^?\s"<>]*)?\?[bBqQ]\?[^?"<>]*|\d+)\?=`)

// hide replaces each encoded word by its number, which is an atom (RFC 5322 3.2.3).
func (w *encodedWords) hide(raw string) string {
	return word.ReplaceAllStringFunc(raw, func(s string) string {
		*w = append(*w, s)
		return "=?" + strconv.Itoa(len(*w)-1) + "?="
	})
}

var wordNumber = regexp.MustCompile(`=\?\d+\?=`)

func (w encodedWords) show(s string) string {
	return wordNumber.ReplaceAllStringFunc(s, func(number string) string {
		i, err := strconv.Atoi(number[len("=?") : len(number)-len("?=")])
		if err != nil || i >= len(w) {
			return number
		}
		return w[i]
	})
}

func guessAddresses(raw string) (out []string) {
	separator := func(r rune) bool { return r == ',' || r == ';' }
	for one := range strings.FieldsFuncSeq(withoutQuotes(raw), separator) {
		found := inAngles.FindAllString(one, -1)
		if len(found) == 0 {
			found = looksLikeAddress.FindAllString(one, -1)
		}
		for _, a := range found {
			out = append(out, strings.Trim(strings.Join(strings.Fields(strings.TrimLeft(a, "<")), ""), ".'"))
		}
	}
	return out
}

// withoutQuotes replaces quoted strings and comments (RFC 5322 3.2.2, 3.2.4) by a space. What has
// no end stays. It reads the text once: a regular expression would search for the end of each quote
// again.
func withoutQuotes(raw string) string {
	var out []byte
	var open []int // where the comments begin in out
	quoted := -1   // where the quoted string begins in out
	for i := 0; i < len(raw); i++ {
		c := raw[i]
		out = append(out, c)
		switch {
		case c == '\\' && i+1 < len(raw): // a quoted pair
			i++
			out = append(out, raw[i])
		case c == '"' && quoted < 0:
			quoted = len(out) - 1
		case c == '"':
			out, quoted = append(out[:quoted], ' '), -1
		case quoted >= 0:
		case c == '(':
			open = append(open, len(out)-1)
		case c == ')' && len(open) > 0:
			out = append(out[:open[len(open)-1]], ' ')
			open = open[:len(open)-1]
		}
	}
	if quoted >= 0 { // it has no end, and so is none
		return string(out[:quoted]) + withoutQuotes(strings.ReplaceAll(string(out[quoted:]), `"`, " "))
	}
	return string(out)
}
