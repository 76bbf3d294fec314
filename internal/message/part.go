package message

import (
	"cmp"
	"mime"
	"net/url"
	"regexp"
	"slices"
	"strings"
)

// Limits of one structured field. What exceeds them is not taken apart.
const (
	maxMediaType  = 16 << 10 // octets
	maxParameters = 100
)

// part describes a MIME part by its header.
type part struct {
	mediaType string // lower case
	params    map[string]string
	attached  bool
	shown     bool     // also if it is an attachment, mail programs show it as text
	names     []string // of the file; the one in its disposition first
	unclear   bool     // a field exceeds the limits: the type is known, the parameters are not
}

// packed are types that hold other parts in a form that is not read: encrypted (RFC 1847 2.2), of
// S/MIME (RFC 8551 3.2), and of Outlook.
var packed = map[string]bool{
	"multipart/encrypted": true, "application/pkcs7-mime": true, "application/x-pkcs7-mime": true,
	"application/ms-tnef": true, "application/vnd.ms-tnef": true,
}

// packedName finds a part of such a type that the sender's program calls application/octet-stream
// (RFC 8551 3.2.1).
var packedName = regexp.MustCompile(`(?i)^(?:winmail\.dat|.+\.p7m)$`)

func (p part) packed() bool {
	return packed[p.mediaType] ||
		p.mediaType == "application/octet-stream" && slices.ContainsFunc(p.names, packedName.MatchString)
}

// textPlain is the type of a part that names none, or one that is invalid (RFC 2045 5.2).
const textPlain = "text/plain"

// describe reads a part's header. implied is its type if it names none. A part is an attachment
// when its disposition says so (RFC 2183), when it has a file name and is not inline text, or when
// it is a whole message.
func describe(h Header, implied string) part {
	contentType, disposition := h.Get("Content-Type"), h.Get("Content-Disposition")
	p := part{unclear: tooComplex(contentType) || tooComplex(disposition)}
	p.mediaType, p.params = mediaType(contentType)
	p.shown = disposition == "" && (p.mediaType == textPlain || p.mediaType == "text/html")
	kind, sub, _ := strings.Cut(p.mediaType, "/")
	switch {
	case contentType == "":
		p.mediaType = implied
	case kind == "" || sub == "" || strings.Contains(p.mediaType, `"`):
		p.mediaType = textPlain
	}
	how, params := mediaType(disposition)
	for _, name := range []string{
		cmp.Or(params["filename"], looseName(disposition)), cmp.Or(p.params["name"], looseName(contentType)),
	} {
		if name = strings.TrimSpace(Visible(Header{}.decode(name))); name != "" && !slices.Contains(p.names, name) {
			p.names = append(p.names, name)
		}
	}
	inlineText := how == "inline" && strings.HasPrefix(p.mediaType, "text/")
	whole := p.mediaType == "message/rfc822" || p.mediaType == "message/global"
	p.attached = how == "attachment" || whole || len(p.names) > 0 && !inlineText
	return p
}

func tooComplex(v string) bool {
	return len(v) > maxMediaType || strings.Count(v, ";") > maxParameters
}

// mediaType is mime.ParseMediaType that also accepts comments (RFC 2045 5.1). When a parameter
// breaks the grammar, only that one is missing. When the field exceeds the limits, all are.
func mediaType(v string) (string, map[string]string) {
	if tooComplex(v) {
		v, _, _ = strings.Cut(v[:min(len(v), maxMediaType)], ";")
	}
	if t, params, err := mime.ParseMediaType(v); v == "" || err == nil && !inForeignPieces(v) {
		return t, params
	}
	v = withoutComments(v)
	t, params, err := mime.ParseMediaType(v)
	if err != nil {
		t, params = v, map[string]string{}
		if end := strings.IndexAny(v, ";, \t"); end >= 0 {
			t = v[:end]
		}
		t = strings.ToLower(t)
		for _, m := range parameter.FindAllStringSubmatch(v, -1) {
			name, value := strings.ToLower(m[1]), unquoted(m[4])
			if words := strings.Fields(value); name == "charset" && len(words) > 0 {
				value = words[0]
			}
			if params[name] == "" && m[2]+m[3] == "" {
				params[name] = value
			}
		}
	}
	// An unquoted contract(1).pdf holds no comment. looseName reads such a name, and one in pieces.
	delete(params, "name")
	delete(params, "filename")
	return t, params
}

// firstPiece finds the charset in the first piece of a file name (RFC 2231 4.1).
var firstPiece = regexp.MustCompile(`(?i)name\*0\*\s*=\s*"?([^';]*)'`)

// inForeignPieces reports whether a field has a file name in pieces, in a charset that package mime
// does not know: it loses the first piece.
func inForeignPieces(v string) bool {
	m := firstPiece.FindStringSubmatch(v)
	return m != nil && !slices.Contains([]string{"utf-8", "us-ascii"}, strings.ToLower(m[1]))
}

// parameter finds a parameter that package mime rejects, such as one without the quotes that it
// needs.
var parameter = regexp.MustCompile(`[;\s]([^\s;="*]+)(\*\d+)?(\*?)\s*=\s*("(?:[^"\\]|\\.)*"|[^;]*)`)

// unquoted is the value of a parameter. A quote without an end is ignored.
func unquoted(s string) string {
	s = strings.TrimSpace(s)
	if len(s) > 1 && s[0] == '"' && s[len(s)-1] == '"' {
		return strings.ReplaceAll(s[1:len(s)-1], `\`, "")
	}
	return strings.Trim(s, `"`)
}

// fileName finds a file name, also behind a parameter without the semicolon that ends it.
var fileName = regexp.MustCompile(`(?i)[;\s](?:file)?name(?:\*\d+)?(\*?)\s*=\s*("(?:[^"\\]|\\.)*"|[^;]*)`)

func looseName(v string) string {
	if tooComplex(v) {
		return ""
	}
	var octets strings.Builder
	var label string
	for _, m := range fileName.FindAllStringSubmatch(v, -1) {
		piece := unquoted(m[2])
		if m[1] == "" {
			octets.WriteString(piece)
			continue
		}
		if in := strings.SplitN(piece, "'", 3); octets.Len() == 0 && len(in) == 3 {
			label, piece = in[0], in[2]
		}
		if decoded, err := url.PathUnescape(piece); err == nil {
			piece = decoded
		}
		octets.WriteString(piece)
	}
	if label == "" {
		return octets.String()
	}
	return toUTF8([]byte(octets.String()), label)
}
