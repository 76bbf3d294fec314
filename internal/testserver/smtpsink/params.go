package smtpsink

import (
	"slices"
	"strconv"
	"strings"
)

// path parses "FROM:<a@example.com> SIZE=1" (RFC 5321 4.1.2): the address and the parameters, as
// they came.
func path(arg, keyword string) (address string, params []string, ok bool) {
	if len(arg) < len(keyword) || !strings.EqualFold(arg[:len(keyword)], keyword) {
		return "", nil, false
	}
	rest, ok := strings.CutPrefix(strings.TrimLeft(arg[len(keyword):], " "), "<")
	if !ok {
		return "", nil, false
	}
	end := strings.LastIndex(rest, ">") // a quoted local part may have one, too
	if end < 0 {
		return "", nil, false
	}
	return rest[:end], strings.Fields(rest[end+1:]), true
}

// extensionOf names the extension that has a parameter of MAIL.
var extensionOf = map[string]string{
	"SIZE": "SIZE", "BODY": "8BITMIME", "SMTPUTF8": "SMTPUTF8", "RET": "DSN", "ENVID": "DSN",
}

// checkParams refuses what was not offered. Its code is 0 when all is well.
func (c *session) checkParams(from string, params []string) reply {
	for _, param := range params {
		name, value, _ := strings.Cut(param, "=")
		name = strings.ToUpper(name)
		extension := extensionOf[name]
		if extension == "" || !c.offers(extension) {
			return reply{code: 555, text: "5.5.4 parameter not offered: " + name}
		}
		if size, err := strconv.ParseInt(value, 10, 64); name == "SIZE" && (err != nil || c.tooLarge(size)) {
			return reply{code: 552, text: "5.3.4 message too large"} // RFC 1870 6.1
		}
	}
	if !ascii(from) && !slices.Contains(params, "SMTPUTF8") {
		return reply{code: 553, text: "5.6.7 the address needs SMTPUTF8"} // RFC 6531 3.5
	}
	return reply{}
}

// notifies reports whether the parameters of RCPT are those of DSN (RFC 3461 4), and offered.
func (c *session) notifies(params []string) bool {
	return !slices.ContainsFunc(params, func(param string) bool {
		name, _, _ := strings.Cut(strings.ToUpper(param), "=")
		return !c.offers("DSN") || name != "NOTIFY" && name != "ORCPT"
	})
}

func (c *session) offers(extension string) bool {
	return slices.ContainsFunc(c.s.opts.Extensions, func(line string) bool {
		name, _, _ := strings.Cut(line, " ")
		return strings.EqualFold(name, extension)
	})
}

func (c *session) tooLarge(size int64) bool {
	return c.s.maxSize > 0 && size > c.s.maxSize
}

func ascii(s string) bool {
	return !strings.ContainsFunc(s, func(r rune) bool { return r > 127 })
}
