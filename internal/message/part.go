package message

import (
	"mime"
	"net/url"
	"regexp"
	"strings"
)

// Limits of one structured field. What exceeds them is not taken apart.
const (
	maxMediaType  = 16 << 10 // octets
	maxParameters = 100
)

// part describes a MIME part by its header.
type part struct {
	mediaType string // lower case; text/plain when the header names none (RFC 2045 5.2)
	params    map[string]string
	attached  bool
	name      string // of the file
	unclear   bool   // a field exceeds the limits: the type is known, the parameters are not
}

// describe reads a part's header. A part is an attachment when its disposition says so (RFC 2183),
// when it has a file name and is not inline text, or when it is a whole message.
func describe(h Header) part {
	contentType, disposition := h.Get("Content-Type"), h.Get("Content-Disposition")
	p := part{unclear: tooComplex(contentType) || tooComplex(disposition)}
	p.mediaType, p.params = mediaType(contentType)
	if p.mediaType == "" {
		p.mediaType = "text/plain"
	}
	how, params := mediaType(disposition)
	for _, name := range []string{
		params["filename"], looseName(disposition), p.params["name"], looseName(contentType),
	} {
		if p.name == "" {
			p.name = Header{}.decode(name)
		}
	}
	inlineText := how == "inline" && strings.HasPrefix(p.mediaType, "text/")
	whole := p.mediaType == "message/rfc822" || p.mediaType == "message/global"
	p.attached = how == "attachment" || whole || p.name != "" && !inlineText
	return p
}

func tooComplex(v string) bool {
	return len(v) > maxMediaType || strings.Count(v, ";") > maxParameters
}

// mediaType is mime.ParseMediaType that also accepts comments (RFC 2045 5.1). When the parameters
// break the grammar, or the field exceeds the limits, it returns the type only.
func mediaType(v string) (string, map[string]string) {
	if tooComplex(v) {
		v, _, _ = strings.Cut(v[:min(len(v), maxMediaType)], ";")
	}
	t, params, err := mime.ParseMediaType(v)
	if err != nil {
		if t, params, err := mime.ParseMediaType(withoutComments(v)); err == nil {
			// An unquoted contract(1).pdf holds no comment. looseName reads such a name.
			delete(params, "name")
			delete(params, "filename")
			return t, params
		}
	}
	if err != nil && t == "" {
		t, _, _ = strings.Cut(v, ";")
		t = strings.ToLower(strings.TrimSpace(t))
	}
	return t, params
}

// fileName finds a file name that package mime rejects: without the quotes that it needs, or in
// several parameters and in a charset that package mime does not know (RFC 2231 3 and 4).
var fileName = regexp.MustCompile(`(?i)[;\s](?:file)?name(?:\*\d+)?(\*?)\s*=\s*("(?:[^"\\]|\\.)*"|[^;"]*)`)

func looseName(v string) string {
	if tooComplex(v) {
		return ""
	}
	var octets strings.Builder
	var label string
	for i, m := range fileName.FindAllStringSubmatch(v, -1) {
		piece := strings.TrimSpace(m[2])
		if unquoted := strings.Trim(piece, `"`); len(unquoted)+2 == len(piece) {
			piece = strings.ReplaceAll(unquoted, `\`, "")
		}
		if m[1] == "" {
			octets.WriteString(piece)
			continue
		}
		if in := strings.SplitN(piece, "'", 3); i == 0 && len(in) == 3 {
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
