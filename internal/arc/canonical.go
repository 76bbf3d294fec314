package arc

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"hash"
	"io"
	"slices"
	"strings"

	"postrider/internal/dkim"
	"postrider/internal/message"
)

// relaxed is a field in the relaxed canonical form (RFC 6376 3.4.2).
func relaxed(field string) string {
	name, value, _ := strings.Cut(field, ":")
	value = strings.Join(strings.FieldsFunc(value, isWhite), " ")
	return strings.ToLower(strings.TrimRight(name, " \t")) + ":" + value + "\r\n"
}

// simple is a field in the simple canonical form (RFC 6376 3.4.1).
func simple(field string) string { return field }

// header are the fields of a message. It finds each by its name at once: a stranger decides how
// many fields there are, and how many names a signature has.
type header struct {
	fields []message.Field
	named  map[string][]int // from the top
}

func newHeader(fields []message.Field) *header {
	h := &header{fields: fields, named: map[string][]int{}}
	for i, f := range fields {
		h.named[f.Name] = append(h.named[f.Name], i)
	}
	return h
}

// picked are the fields that names stand for, each in its canonical form: those of one name from
// the bottom up, and nothing for names that are left over (RFC 6376 5.4.2).
func (h *header) picked(names []string, canonical func(string) string) string {
	var b strings.Builder
	used := map[string]int{}
	for _, name := range names {
		name = strings.ToLower(name)
		all := h.named[name]
		used[name]++
		if n := used[name]; n <= len(all) {
			b.WriteString(canonical(string(h.fields[all[len(all)-n]].Raw)))
		}
	}
	return b.String()
}

// signed are the fields that a message signature covers: what readers see, what says how the body
// is read, and the author's signatures (RFC 8617 4.1.2).
var signed = slices.Concat(dkim.Covered, []string{"DKIM-Signature"})

// toSign returns the names of the fields that a message signature covers. Most names are listed
// once more than the field occurs, so that no other field of that name can be added. A field that
// is missing is not listed: a relay may add it, and its own DKIM-Signature.
func (h *header) toSign() []string {
	const most = 10 // fields of one name
	names := []string{"From"}
	for _, name := range signed {
		n := min(len(h.named[strings.ToLower(name)]), most)
		if n > 0 && name != "From" && name != "DKIM-Signature" {
			n++
		}
		names = append(names, slices.Repeat([]string{name}, n)...)
	}
	return names
}

// bodyHashes are the SHA-256 hashes of a body in both canonical forms.
type bodyHashes struct{ simple, relaxed []byte }

// hashBody reads a body to its end, or until ctx ends.
func hashBody(ctx context.Context, r io.Reader) (bodyHashes, error) {
	plain, loose := &canonicalBody{hash: sha256.New()}, &canonicalBody{hash: sha256.New(), relaxed: true}
	buf := make([]byte, 32<<10)
	for {
		n, err := r.Read(buf)
		plain.write(buf[:n])
		loose.write(buf[:n])
		switch {
		case errors.Is(err, io.EOF):
			return bodyHashes{plain.sum(), loose.sum()}, nil
		case err != nil:
			return bodyHashes{}, err
		case ctx.Err() != nil:
			return bodyHashes{}, ctx.Err()
		}
	}
}

// canonicalBody hashes a body in one canonical form (RFC 6376 3.4.3 and 3.4.4). Line ends are held
// back as a number, because those at the end do not count.
type canonicalBody struct {
	hash    hash.Hash
	relaxed bool

	out   []byte
	ends  int  // line ends since the last octet
	space bool // relaxed: white space since then, in this line
	any   bool
}

func (c *canonicalBody) write(p []byte) {
	for _, b := range p {
		switch {
		case b == '\r': // always before a LF
		case b == '\n':
			c.ends++
			c.space = false
		case c.relaxed && (b == ' ' || b == '\t'):
			c.space = true
		default:
			c.flushEnds()
			if c.space {
				c.out = append(c.out, ' ')
			}
			c.out = append(c.out, b)
			c.space, c.any = false, true
		}
	}
	c.flush()
}

func (c *canonicalBody) flushEnds() {
	for ; c.ends > 0; c.ends-- {
		c.out = append(c.out, "\r\n"...)
		if len(c.out) > 32<<10 {
			c.flush()
		}
	}
}

func (c *canonicalBody) flush() {
	_, _ = c.hash.Write(c.out) // never fails
	c.out = c.out[:0]
}

func (c *canonicalBody) sum() []byte {
	if c.any || !c.relaxed {
		_, _ = c.hash.Write([]byte("\r\n"))
	}
	return c.hash.Sum(nil)
}

// unsignedField is a field of a signature with an empty b= (RFC 6376 3.5), in its canonical form
// and without its line end.
func unsignedField(f message.Field, canonical func(string) string) string {
	raw := bytes.TrimSuffix(f.Raw, []byte("\r\n"))
	at := bytes.IndexByte(raw, ':') + 1
	out := string(raw)
	for part := range bytes.SplitSeq(raw[at:], []byte(";")) {
		name, _, found := bytes.Cut(part, []byte("="))
		if found && string(bytes.TrimSpace(name)) == "b" {
			out = string(raw[:at]) + string(name) + "=" + string(raw[at+len(part):])
			break
		}
		at += len(part) + 1
	}
	return strings.TrimSuffix(canonical(out), "\r\n")
}

func encode(b []byte) string { return base64.StdEncoding.EncodeToString(b) }
