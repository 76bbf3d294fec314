// Package arc seals mail that is forwarded (RFC 8617), so that a receiver who trusts the sealer
// learns what was known about the message when it arrived here.
//
// Seal adds one set of three fields to a message and does not change the rest. The set says what
// the inbox's own server found (Authentication-Results, from a trusted authserv-id only), what our
// own verification of the DKIM signatures found where the server says nothing, and whether the
// chain of earlier sets is valid. A valid chain is continued, a broken one ends with cv=fail. A
// chain that has failed before, or that has 50 sets, gets no more.
//
// The body is read once and not held. The set depends on the message, the time that the caller
// gives, and what the DNS answers: the same answers make the same octets. RSA keys of more than
// 8,192 bits are not used. When the DNS does not say whether the chain is valid, the message is not
// sealed, because cv=fail would end the chain for ever. A DNS that is down is never an error.
package arc

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"postrider/internal/dkim"
	"postrider/internal/message"
)

// Resolver looks up the TXT records of keys. Its errors are *net.DNSError: they tell whether the
// name does not exist, or the DNS did not answer.
type Resolver interface {
	LookupTXT(ctx context.Context, name string) ([]string, error)
}

// Sealer seals with one key. It is safe for concurrent use.
type Sealer struct {
	Key   *dkim.Key
	trust []string
}

// New returns a Sealer that believes the Authentication-Results of the servers named in trust. Its
// key must be RSA: sealers and receivers do not know Ed25519.
func New(key *dkim.Key, trust []string) (*Sealer, error) {
	if !key.IsRSA() {
		return nil, errors.New("is an Ed25519 key, which receivers of ARC do not know; " +
			"make an RSA key with: openssl genpkey -algorithm rsa -pkeyopt rsa_keygen_bits:2048")
	}
	return &Sealer{Key: key, trust: trust}, nil
}

// Set is what Seal adds to a message.
type Set struct {
	Fields string // to be put on top, with line ends; empty when the message is not sealed
	Says   string // what was sealed, or why nothing was
}

// maxInstance is how many sets a message may have (RFC 8617 4.2.1).
const maxInstance = 50

// Seal makes a set for a message. Fields are its whole header, in order, and body is what follows
// the empty line, with CRLF line ends. At is the time of sealing, for which signatures are
// verified. It fails when the body cannot be read, or when signing fails.
func (s *Sealer) Seal(
	ctx context.Context, dns Resolver, fields []message.Field, body io.Reader, at time.Time,
) (Set, error) {
	before := chainOf(fields)
	switch {
	case before.ended():
		return Set{Says: "not ARC-sealed: its chain has failed before"}, nil
	case before.highest >= maxInstance:
		says := fmt.Sprintf("not ARC-sealed: its chain has %d sets, and more are not allowed", maxInstance)
		return Set{Says: says}, nil
	}
	hashes, err := hashBody(ctx, body)
	switch {
	case ctx.Err() != nil:
		return Set{Says: "not ARC-sealed: there was no time to read it"}, nil
	case err != nil:
		return Set{}, fmt.Errorf("read a message to seal it: %w", err)
	}
	v := &verifier{dns: dns, header: newHeader(fields), body: hashes, at: at}
	status, why := before.verify(ctx, v)
	if status == unknown {
		return Set{Says: fmt.Sprintf("not ARC-sealed: whether its chain is valid is not known (%s)", why)}, nil
	}
	results, others := trusted(fields, s.trust)
	results = append(results, v.signatures(ctx, results)...)
	set, err := s.set(before, status, results, v, at)
	if err != nil {
		return Set{}, fmt.Errorf("seal for %s: %w", s.Key.Domain, err)
	}
	says := fmt.Sprintf("ARC-sealed, i=%d, cv=%s", before.highest+1, status)
	if status == failed {
		says += ": " + why
	}
	return Set{Fields: set, Says: says + others}, nil
}

// set is the new set, the seal on top (RFC 8617 5.1).
func (s *Sealer) set(before chain, status status, results []string, v *verifier, at time.Time) (string, error) {
	i := before.highest + 1
	results = append([]string{"arc=" + string(status)}, results...)
	found := fmt.Sprintf("ARC-Authentication-Results: i=%d; %s;\r\n %s\r\n",
		i, s.Key.Domain, strings.Join(results, ";\r\n "))
	tags := fmt.Sprintf("i=%d; a=rsa-sha256; d=%s; s=%s; t=%d;\r\n", i, s.Key.Domain, s.Key.Selector, at.Unix())

	names := v.header.toSign()
	ams := fmt.Sprintf("ARC-Message-Signature: %s c=relaxed/relaxed; bh=%s;\r\n h=%s;\r\n b=",
		tags, encode(v.body.relaxed), folded(names))
	ams, err := s.sign(ams, v.header.picked(names, relaxed))
	if err != nil {
		return "", err
	}
	// How to sign a broken chain is not defined, so the seal covers only the new set (RFC 8617
	// 5.1.2).
	covered := ""
	if status != failed {
		covered = before.canonical(before.highest)
	}
	seal := fmt.Sprintf("ARC-Seal: %s cv=%s;\r\n b=", tags, status)
	seal, err = s.sign(seal, covered+relaxed(found)+relaxed(ams))
	return seal + ams + found, err
}

// sign completes a field that ends in "b=". Covered is what it signs besides itself.
func (s *Sealer) sign(field, covered string) (string, error) {
	signature, err := s.Key.SignSHA256([]byte(covered + strings.TrimSuffix(relaxed(field), "\r\n")))
	if err != nil {
		return "", err
	}
	const line = 72
	text := encode(signature)
	for len(text) > line {
		field, text = field+text[:line]+"\r\n ", text[line:]
	}
	return field + text + "\r\n", nil
}

// folded are the names of a tag h=, in lines.
func folded(names []string) string {
	const line = 60
	text, last := names[0], len(names[0])
	for _, name := range names[1:] {
		text += ":"
		if last += len(name) + 1; last > line {
			text += "\r\n  "
			last = len(name)
		}
		text += name
	}
	return text
}
