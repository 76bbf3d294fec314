package arc

import (
	"context"
	"crypto/subtle"
	"encoding/base64"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"postrider/internal/message"
)

// verifier verifies the signatures of one message.
type verifier struct {
	dns    Resolver
	header *header
	body   bodyHashes
	at     time.Time
}

// maxSignatures is how many DKIM signatures are verified: the author of a message decides how many
// it has.
const maxSignatures = 10

// maxDrift is how far clocks may differ.
const maxDrift = 5 * time.Minute

// valueOf is what follows the colon.
func valueOf(f message.Field) string {
	_, value, _ := strings.Cut(string(f.Raw), ":")
	return value
}

// message verifies a signature over the message: of DKIM, or of ARC, which has the same tags but v
// and i (RFC 8617 4.1.2).
func (v *verifier) message(ctx context.Context, f message.Field, t tags) (*publicKey, *fault) {
	names := strings.Split(t["h"], ":")
	switch {
	case !covers(t, "from"):
		return nil, permanent("it does not cover From")
	case t.given("l"):
		return nil, &fault{resultPolicy, "it covers a part of the body only (l=)"}
	}
	if why := v.dated(t); why != nil {
		return nil, why
	}
	inHeader, inBody, both := strings.Cut(t.or("c", "simple"), "/")
	if !both {
		inBody = "simple"
	}
	canonical, known := map[string]func(string) string{"simple": simple, "relaxed": relaxed}[inHeader]
	want, knownBody := map[string][]byte{"simple": v.body.simple, "relaxed": v.body.relaxed}[inBody]
	if !known || !knownBody {
		return nil, permanent("its canonicalization is not known")
	}
	bh, err := base64.StdEncoding.DecodeString(t["bh"])
	if err != nil || subtle.ConstantTimeCompare(bh, want) != 1 {
		return nil, &fault{resultFail, "the body was changed"}
	}
	return v.signature(ctx, t, v.header.picked(names, canonical)+unsignedField(f, canonical))
}

// covers reports whether the tag h= has a name.
func covers(t tags, name string) bool {
	return slices.ContainsFunc(strings.Split(t["h"], ":"), func(s string) bool { return strings.EqualFold(s, name) })
}

// signature verifies the tag b= over text.
func (v *verifier) signature(ctx context.Context, t tags, text string) (*publicKey, *fault) {
	b, err := base64.StdEncoding.DecodeString(t["b"])
	if err != nil || len(b) == 0 {
		return nil, permanent("its signature cannot be read")
	}
	key, why := lookUp(ctx, v.dns, strings.ToLower(t["d"]), t["s"])
	if why != nil {
		return nil, why
	}
	return key, key.verify(t["a"], text, b)
}

// dated checks the times of a signature (RFC 6376 3.5).
func (v *verifier) dated(t tags) *fault {
	for _, limit := range []struct {
		tag, why string
		over     func(time.Time) bool
	}{
		{"x", "it has expired", func(x time.Time) bool { return v.at.After(x) }},
		{"t", "it is dated in the future", func(t time.Time) bool { return t.After(v.at.Add(maxDrift)) }},
	} {
		at, why := t.time(limit.tag)
		switch {
		case why != nil:
			return why
		case t.given(limit.tag) && limit.over(at):
			return &fault{resultPolicy, limit.why}
		}
	}
	return nil
}

// time reads a time, if it is given.
func (t tags) time(name string) (time.Time, *fault) {
	if !t.given(name) {
		return time.Time{}, nil
	}
	seconds, err := strconv.ParseUint(t[name], 10, 63)
	if err != nil {
		return time.Time{}, permanent("it has a time that cannot be read")
	}
	return time.Unix(int64(seconds), 0), nil
}

// dkim verifies a DKIM signature (RFC 6376 6.1).
func (v *verifier) dkim(ctx context.Context, f message.Field, t tags) *fault {
	_, identity, _ := strings.Cut(strings.ToLower(t.or("i", "@"+t["d"])), "@")
	exactly := identity == strings.ToLower(t["d"])
	switch {
	case t["v"] != "1":
		return permanent("its version is not known")
	case !exactly && !strings.HasSuffix(identity, "."+strings.ToLower(t["d"])):
		return permanent("its identity is not of its domain")
	}
	key, why := v.message(ctx, f, t)
	switch {
	case why != nil:
		return why
	case key.testing:
		return &fault{resultNeutral, "its key is being tested (t=y)"}
	case key.strict && !exactly:
		return permanent("its identity is not of exactly its domain (t=s)")
	}
	return nil
}

// about are the domains that a result of DKIM names.
var about = regexp.MustCompile(`(?i) header\.[di]=(?:"?[^\s@"]*@)?"?([a-z0-9._-]+)`)

// signatures are results of our own verification, as in Authentication-Results, for the domains
// that the results so far do not name.
func (v *verifier) signatures(ctx context.Context, so []string) []string {
	known := map[string]bool{}
	for _, r := range so {
		for _, m := range about.FindAllStringSubmatch(r, -1) {
			if strings.HasPrefix(strings.ToLower(r), "dkim=") {
				known[strings.ToLower(m[1])] = true
			}
		}
	}
	var out []string
	all := v.header.named["dkim-signature"]
	for _, at := range all[:min(len(all), maxSignatures)] {
		f := v.header.fields[at]
		t, ok := parseTags(valueOf(f))
		domain := strings.ToLower(t["d"])
		if !ok || known[domain] || !isName(domain) || !isName(t["s"]) {
			continue
		}
		result := "pass"
		if why := v.dkim(ctx, f, t); why != nil {
			result = why.result
		}
		out = append(out, fmt.Sprintf("dkim=%s header.d=%s header.s=%s", result, domain, t["s"]))
	}
	if len(all) == 0 && !slices.ContainsFunc(so, func(r string) bool { return strings.HasPrefix(r, "dkim=") }) {
		out = append(out, "dkim=none")
	}
	return out
}
