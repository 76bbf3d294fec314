package otherrc

import (
	"cmp"
	"encoding/base64"
	"regexp"
	"slices"
	"strings"

	"golang.org/x/text/encoding/unicode"
)

// take reads an option that is understood, and reports whether it is one.
func (r *rc) take(key string) bool {
	o := &r.current
	switch key {
	case "via":
		o.via = r.argument().text
	case "protocol":
		o.protocol = r.argument().text
	case "port":
		o.setPort(r.argument())
	case "pass":
		o.pass = r.argument().text
	case "auth":
		r.auth()
	case "folder":
		for _, sent := range r.list() {
			o.folders = append(o.folders, folderName(sent))
		}
	case "ssl":
		o.ssl = r.tokens[r.at-1].text == "ssl" && !r.negated() // not nossl
	case "sslproto":
		o.sslproto = new(r.argument().text)
	case "sslmode":
		o.sslmode = new(r.argument().text)
	default:
		return false
	}
	return true
}

var (
	shifted  = regexp.MustCompile(`&[A-Za-z0-9+,]*-`)
	base64Of = base64.NewEncoding("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+,").
			WithPadding(base64.NoPadding)
)

// folderName is the name of a folder that the file has as fetchmail sends it: in modified UTF-7
// (RFC 3501 5.1.3).
func folderName(sent string) string {
	return shifted.ReplaceAllStringFunc(sent, func(s string) string {
		octets, err := base64Of.DecodeString(s[1 : len(s)-1])
		if err != nil {
			return s
		}
		name, _ := unicode.UTF16(unicode.BigEndian, unicode.IgnoreBOM).NewDecoder().Bytes(octets)
		return cmp.Or(string(name), "&")
	})
}

// auth reads how to log in.
func (r *rc) auth() {
	how := r.argument()
	if slices.Contains([]string{"oauthbearer", "xoauth2", "oauth2"}, strings.ToLower(how.text)) {
		r.current.oauth = how.line
		return
	}
	r.current.oauth = 0
	r.notes.add(how.line, "auth is ignored: postrider chooses how to log in; `inbox set --auth` changes that")
}

// negated reports whether the word before the last one is no.
func (r *rc) negated() bool {
	return r.at > 1 && !r.tokens[r.at-2].quoted && r.tokens[r.at-2].text == "no"
}

// difference is an option that postrider does not take.
type difference struct {
	values int    // how many follow it; -1 for all up to the next keyword
	note   string // empty where nothing is lost
}

const (
	byRoutes  = "postrider forwards by the routes of its configuration"
	unchanged = "postrider forwards mail as it came, see forward.mode"
	noHooks   = "postrider runs no command around a connection"
	ownTLS    = "postrider always checks certificates; " +
		"for your own certificate use `inbox set --ca-file` or `--tls-fingerprint`"
	ownClient = "for a client certificate: `inbox set --client-cert`"
	multidrop = "routes can match any header field"
)

var differences = map[string]difference{
	"keep":     {0, ""}, // but see no keep
	"flush":    {0, "postrider deletes nothing on the server"},
	"fetchall": {0, "postrider forwards what arrives from now on; --start all forwards everything"},
	"idle":     {0, "`postrider watch` uses it wherever the server offers it"},

	"limitflush": {0, "postrider deletes nothing on the server"},
	"limit":      {1, "postrider has forward.max_size, for all inboxes"},
	"interval":   {1, "postrider looks at all inboxes in each run"},
	"principal":  {1, "postrider has no Kerberos"},

	"smtphost": {-1, byRoutes}, "fetchdomains": {-1, byRoutes}, "smtpaddress": {1, byRoutes}, "smtpname": {1, byRoutes},
	"mda": {1, byRoutes}, "bsmtp": {1, byRoutes}, "lmtp": {0, byRoutes}, "antispam": {-1, byRoutes},
	"esmtpname": {1, byRoutes}, "esmtppassword": {1, byRoutes}, "properties": {1, ""},
	"rewrite": {0, unchanged}, "mimedecode": {0, unchanged},
	"dropstatus": {0, unchanged}, "dropdelivered": {0, unchanged},
	"preconnect": {1, noHooks}, "postconnect": {1, noHooks}, "plugin": {1, noHooks}, "plugout": {1, noHooks},
	"interface": {1, "postrider uses any network interface"}, "monitor": {1, "postrider uses any network interface"},
	"sslcertck": {0, ""}, "sslcertpath": {1, ownTLS}, "sslcertfile": {1, ownTLS},
	"sslfingerprint": {1, ownTLS}, "sslcommonname": {1, ownTLS},
	"sslkey": {1, ownClient}, "sslcert": {1, ownClient},
	"envelope": {-1, multidrop}, "qvirtual": {1, multidrop}, "localdomains": {-1, multidrop}, "aka": {-1, multidrop},

	// Nothing is lost: details of a protocol, or of what fetchmail prints.
	"bad-header": {1, ""}, "uidl": {0, ""}, "dns": {0, ""}, "checkalias": {0, ""}, "tracepolls": {0, ""},
	"timeout": {1, ""}, "batchlimit": {1, ""},
	"fetchlimit": {1, ""}, "fetchsizelimit": {1, ""}, "fastuidl": {1, ""}, "expunge": {1, ""}, "warnings": {1, ""},
	"forcecr": {0, ""}, "stripcr": {0, ""}, "pass8bits": {0, ""}, "bouncemail": {0, ""}, "spambounce": {0, ""},
	"here": {0, ""}, "there": {0, ""}, "no": {0, ""}, "and": {0, ""}, "with": {0, ""},
	"has": {0, ""}, "wants": {0, ""}, "options": {0, ""},
}

// others are the keywords that statement and take read.
var others = []string{
	"poll", "skip", "defaults", "set", "user", "is", "to",
	"via", "protocol", "port", "pass", "auth", "folder", "ssl", "sslproto", "sslmode",
}

var synonyms = map[string]string{
	"server": "poll", "proto": "protocol", "username": "user", "password": "pass",
	"folders": "folder", "service": "port",
	"smtp": "smtphost", "pre": "preconnect", "post": "postconnect", "authenticate": "auth", "preauth": "auth",
	"preauthenticate": "auth", "local": "localdomains", "pass8": "pass8bits", "mimedec": "mimedecode",
}

// canonical is a keyword in its one form, and with "no " before it where it says no.
func canonical(word string) string {
	if s, ok := synonyms[word]; ok {
		return s
	}
	rest, negative := strings.CutPrefix(word, "no")
	if s, ok := synonyms[rest]; ok && negative {
		rest = s
	}
	if d, ok := differences[rest]; negative && rest != "" && (ok && d.values <= 0 || rest == "ssl") {
		return "no " + rest
	}
	return word
}

func known(word string) bool {
	word = strings.TrimPrefix(word, "no ")
	_, ok := differences[word]
	return ok || slices.Contains(others, word)
}

// differs reads an option that postrider does not take, and notes what is different.
func (r *rc) differs(word, key string, line int) {
	d := differences[key]
	no := word != key || r.negated()
	switch {
	case no && key == "keep":
		r.notes.add(line, "nokeep: fetchmail deletes mail on the server; postrider leaves it there")
	case no && key == "sslcertck":
		r.notes.add(line, "nosslcertck: %s", ownTLS)
	case no:
		return // it is postrider's way
	case d.note != "":
		r.notes.add(line, "%s is ignored: %s", key, d.note)
	}
	switch d.values {
	case 1:
		_ = r.argument() // may be secret
	case -1:
		_ = r.list()
	}
}
