package bounce

import (
	"cmp"
	"regexp"
	"strings"

	"postrider/internal/text"
)

// Limits. What exceeds them is left out.
const (
	maxFates     = 1000
	maxAddresses = 100
	maxFields    = 100     // of one group
	maxValue     = 4 << 10 // octets of one field
	maxReply     = 500     // characters of Fate.Reply, and of a Message-ID
	maxAddress   = 320     // octets of an address, and of a host's name
)

// field is one field, unfolded. Its name is in lower case.
type field struct{ name, value string }

// group is a run of fields, as a delivery status has one for each recipient (RFC 3464 2.1).
type group []field

// groups returns the groups of a text, with empty lines between them. Lines that are no fields are
// left out.
func groups(s string) (out []group) {
	var g group
	for line := range strings.Lines(s) {
		line = strings.TrimRight(line, "\r\n")
		folded := strings.HasPrefix(line, " ") || strings.HasPrefix(line, "\t")
		name, value, ok := strings.Cut(line, ":")
		switch last := len(g) - 1; {
		case strings.TrimSpace(line) == "":
			if len(g) > 0 {
				out, g = append(out, g), nil
			}
		case folded && last >= 0 && len(g[last].value)+len(line) < maxValue:
			g[last].value += " " + strings.TrimSpace(line)
		case !folded && ok && len(g) < maxFields:
			g = append(g, field{
				strings.ToLower(strings.TrimSpace(name)),
				strings.TrimSpace(value[:min(len(value), maxValue)]),
			})
		}
		if len(out) > maxFates {
			return out
		}
	}
	if len(g) > 0 {
		out = append(out, g)
	}
	return out
}

// get returns the first field with a value of the first name that has one.
func (g group) get(names ...string) string {
	for _, name := range names {
		for _, f := range g {
			if f.name == name && f.value != "" {
				return f.value
			}
		}
	}
	return ""
}

// typed cuts a value into its type, in lower case, and the rest (`dns; mx.example`).
func typed(v string) (kind, rest string) {
	kind, rest, ok := strings.Cut(v, ";")
	if !ok {
		return "", strings.TrimSpace(v)
	}
	return strings.ToLower(strings.TrimSpace(kind)), strings.TrimSpace(rest)
}

var firstWord = regexp.MustCompile(`^(?:<\s+|"(?:\\.|[^"\\])*"|[^\s(;])+`)

// word returns what a value begins with: a comment may follow (RFC 3464 2.1.1).
func word(v string) string { return cmp.Or(firstWord.FindString(v), v) }

// host returns the name in a value, without the comments that servers add:
// `dns; mx.example. (192.0.2.1, the server for the domain)`.
func host(v string) string {
	_, name := typed(v)
	name = strings.Trim(word(name), "[].")
	if len(name) > maxAddress {
		return ""
	}
	return text.Line(name)
}

// mailbox returns the address in a value as one line, without its angle brackets.
func mailbox(v string) string {
	v = text.Line(v)
	if inner, ok := strings.CutPrefix(v, "<"); ok {
		v, _, _ = strings.Cut(inner, ">")
	}
	if len(v) > maxAddress {
		return ""
	}
	return strings.TrimSpace(v)
}

// short makes one line of a text, of at most 500 characters.
func short(s string) string { return text.Cut(text.Line(s), maxReply) }
