package arc

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"postrider/internal/message"
)

const resultsName = "authentication-results"

// originators are the first fields that a message had: what stands below one of them was there
// before the inbox's server got the message.
var originators = map[string]bool{
	"from": true, "sender": true, "reply-to": true, "to": true, "cc": true, "bcc": true, "subject": true, "date": true,
	"message-id": true, "in-reply-to": true, "references": true, "mime-version": true, "content-type": true,
	"dkim-signature": true, "resent-from": true, "resent-date": true,
}

// maxResults is how many results of a server are taken.
const maxResults = 30

// trusted are the results that the inbox's own server has put on top. They are believed only if the
// topmost Authentication-Results field is of a server in trust, and only in the trace block on top:
// anybody can write such a field, and only what servers add on the way stands above what was there
// before (RFC 8601 5). The block ends with the first Received below the topmost field, or with a
// field of the author.
//
// Several fields of the block count, because each filter of a server adds its own. A method in a
// higher field is not taken from a lower one. Others says whose results are not believed.
func trusted(fields []message.Field, trust []string) (out []string, others string) {
	taken := map[string]bool{"arc": true} // our own verification counts
	begun := false
	for _, f := range fields {
		switch {
		case originators[f.Name] || begun && f.Name == "received":
			return out, ""
		case f.Name != resultsName:
			continue
		}
		server, results, ok := parseResults(valueOf(f))
		if !ok {
			return out, "; the results of its server are not used, because they cannot be read"
		}
		if !slices.ContainsFunc(trust, func(id string) bool { return strings.EqualFold(id, server) }) {
			if begun {
				return out, ""
			}
			return nil, fmt.Sprintf("; the results of %q are not used, because arc.trust does not name it", cut(server))
		}
		begun = true
		var here []string
		for _, r := range results {
			method, _, _ := strings.Cut(strings.ToLower(r), "=")
			method, _, _ = strings.Cut(method, "/")
			if !taken[method] && len(out) < maxResults {
				out = append(out, r)
				here = append(here, method)
			}
		}
		for _, method := range here {
			taken[method] = true
		}
	}
	return out, ""
}

// cut is a short form of what a stranger may have written.
func cut(server string) string { return server[:min(len(server), 60)] }

// aResult is a result of RFC 8601 2.2 without comments: dkim=pass header.d=client.example.
var aResult = regexp.MustCompile(`(?i)^[a-z][a-z0-9-]*(?:/[0-9]+)?=[a-z]+` +
	`(?: [a-z][a-z0-9.-]*=(?:"[!#-\[\]-~ ]*"|[!#-'*-:<-~]+))*$`)

// maxResult is the longest result that is taken, in octets: it stands on one line.
const maxResult = 900

// parseResults are the authserv-id and the results of an Authentication-Results field. Results that
// cannot be read are left out; ok is false if the field cannot be read.
func parseResults(value string) (server string, results []string, ok bool) {
	parts, ok := uncommented(value)
	server = strings.TrimSuffix(parts[0], " 1") // the only version
	for _, r := range parts[1:] {
		if len(r) <= maxResult && aResult.MatchString(r) {
			results = append(results, r)
		}
	}
	return strings.Trim(server, `"`), results, ok
}

// uncommented splits a value at its semicolons. Comments are left out, and white space is a single
// space, or none beside "=". It fails when a comment or a quoted string does not end.
func uncommented(value string) (parts []string, ok bool) {
	var b strings.Builder
	depth, quoted, space, last := 0, false, false, byte('=')
	for i := 0; i < len(value); i++ {
		c := value[i]
		switch {
		case c == '\\' && (quoted || depth > 0) && i+1 < len(value): // a quoted pair
			if i++; quoted {
				b.WriteString(value[i-1 : i+1])
			}
		case quoted:
			quoted = c != '"'
			b.WriteByte(c)
			last = c
		case c == '(':
			depth++
			space = true
		case depth > 0:
			if c == ')' {
				depth--
			}
		case c == ' ' || c == '\t' || c == '\r' || c == '\n':
			space = true
		case c == ';':
			parts = append(parts, b.String())
			b.Reset()
			space, last = false, '='
		default:
			if space && last != '=' && c != '=' {
				b.WriteByte(' ')
			}
			quoted = c == '"'
			b.WriteByte(c)
			space, last = false, c
		}
	}
	return append(parts, b.String()), depth == 0 && !quoted
}
