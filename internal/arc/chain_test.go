package arc

import (
	"context"
	"fmt"
	"regexp"
	"strings"
	"testing"
)

// sealedTwice is a message with a valid chain of two sets.
func sealedTwice(t testing.TB, z zone) string {
	t.Helper()
	return forwarded(t, sealer(t, z, "b.example"), z, forwarded(t, sealer(t, z, "a.example"), z, plain))
}

// without removes the field of that kind and instance.
func without(raw, kind string, i int) string {
	return fieldOf(kind, i).ReplaceAllString(raw, "")
}

func fieldOf(kind string, i int) *regexp.Regexp {
	return regexp.MustCompile(fmt.Sprintf(`(?m)^%s: i=%d;.*\r\n(?:[ \t].*\r\n)*`, kind, i))
}

// broken are messages whose chain is invalid, each for another reason, which says has.
func broken(t testing.TB, z zone) map[string]string {
	t.Helper()
	raw := sealedTwice(t, z)
	change := func(kind string, i int, old, with string) string {
		return fieldOf(kind, i).ReplaceAllStringFunc(raw, func(f string) string {
			changed := strings.Replace(f, old, with, 1)
			if changed == f {
				t.Fatalf("%s has no %s:\n%s", kind, old, f)
			}
			return changed
		})
	}
	const (
		newest     = "the newest message signature is not valid: "
		noInstance = "a field of its chain has no valid instance"
	)
	inSignature := func(old, with string) string { return change("ARC-Message-Signature", 2, old, with) }
	inResults := func(i int, old, with string) string { return change("ARC-Authentication-Results", i, old, with) }
	inSeal := func(i int, old, with string) string { return change("ARC-Seal", i, old, with) }
	twoTo := strings.Replace(raw, "\r\nTo: ", "\r\nTo: x@y.example\r\nTo: ", 1)
	twoResults := "ARC-Authentication-Results: i=1; x.example; spf=pass\r\n" + raw
	alone := "ARC-Authentication-Results: x.example; spf=pass\r\n" + plain
	spfAdded := inResults(1, "arc=none", "arc=none; spf=pass")
	second := without(without(without(raw, "ARC-Seal", 1), "ARC-Message-Signature", 1), "ARC-Authentication-Results", 1)
	delete(z, "s1._domainkey.gone.example")
	return map[string]string{
		newest + "the body was changed":                     strings.Replace(raw, "Hello", "Hallo", 1),
		newest + "the body was changed, by a footer":        raw + "footer\r\n",
		newest + "its signature does not verify":            strings.Replace(raw, "From: Alice", "From: Mallory", 1),
		newest + "its signature does not verify, for a To":  twoTo,
		newest + "its signature does not verify, on a From": "From: x@y.example\r\n" + raw,
		newest + "its canonicalization is not known":        inSignature("c=relaxed/", "c=nofws/"),
		newest + "it does not cover From":                   inSignature("h=From:From:", "h="),
		newest + "it covers a seal":                         inSignature(" h=", " h=ARC-Seal:"),
		newest + "it covers a part of the body only (l=)":   inSignature(" h=", " l=1; h="),
		newest + "it has expired":                           inSignature(" h=", " x=1; h="),
		newest + "it is dated in the future":                inSignature("t=1", "t=11"),
		newest + "it has a time that cannot be read":        inSignature("t=1", "t=x"),
		newest + "gone.example has no key s1":               inSignature("d=b.example", "d=gone.example"),
		newest + "its domain or selector is not a name":     inSignature("d=b.example", "d=b example/"),
		newest + "its algorithm is not that of its key":     inSignature("rsa-sha256", "rsa-sha1"),
		newest + "its tags cannot be read":                  inSignature(" h=", " d=x; h="),
		newest + "its signature cannot be read":             inSignature("b=", "b=!"),

		"the seal of set 2 is not valid: its signature does not verify": inResults(2, "arc=pass", "arc=pass; spf=pass"),
		"the seal of set 1 is not valid":                                resealed(t, z, spfAdded),

		"set 2 has 0 fields arc-seal":                    without(raw, "ARC-Seal", 2),
		"set 1 has 0 fields arc-message-signature":       without(raw, "ARC-Message-Signature", 1),
		"set 1 has 0 fields arc-authentication-results":  second,
		"set 1 has 2 fields arc-authentication-results":  twoResults,
		"set 1 has 2 fields arc-seal":                    fieldOf("ARC-Seal", 1).FindString(raw) + raw,
		"the seal of set 2 has cv=none, and not cv=pass": inSeal(2, "cv=pass", "cv=none"),
		"the seal of set 1 has cv=pass, and not cv=none": inSeal(1, "cv=none", "cv=pass"),
		"the seal of set 1 has cv=fail, and not cv=none": inSeal(1, "cv=none", "cv=fail"),
		"the seal of set 2 has cv=, and not cv=pass":     inSeal(2, "cv=", "vc="),
		"the seal of set 2 is invalid":                   inSeal(2, "cv=", "h=From; cv="),
		"the seal of set 1 is invalid":                   inSeal(1, "cv=", "x; cv="),

		noInstance: "ARC-Seal: cv=none\r\n" + raw,
		noInstance + ", which is none that could be anywhere": "ARC-Seal: i=0; cv=none\r\n" + raw,
		noInstance + ", which is alone":                       alone,
	}
}

// resealed has the chain of raw, and a seal and a signature of its third set that are valid.
func resealed(t testing.TB, z zone, raw string) string {
	t.Helper()
	s := sealer(t, z, "c.example")
	fields, body := parsed(t, raw)
	hashes, err := hashBody(t.Context(), body)
	if err != nil {
		t.Fatal(err)
	}
	set, err := s.set(chainOf(fields), passed, nil, &verifier{header: newHeader(fields), body: hashes}, now)
	if err != nil {
		t.Fatal(err)
	}
	return set + raw
}

func TestBrokenChain(t *testing.T) {
	z := zone{}
	s := sealer(t, z, "firm.example")
	for why, raw := range broken(t, z) {
		t.Run(why, func(t *testing.T) {
			if strings.HasPrefix(why, "the seal of set 1 is not valid") {
				why = "the seal of set 2 is not valid: its signature does not verify" // it covers the same
			}
			set := seal(t, s, z, raw)
			want, _, _ := strings.Cut(why, ", ")
			if strings.Contains(why, ", and not") {
				want = why
			}
			if !strings.Contains(set.Says, "cv=fail: "+want) {
				t.Errorf("Seal says %q, want cv=fail: %s", set.Says, want)
			}
			again := seal(t, s, z, set.Fields+raw)
			if again.Fields != "" || again.Says != "not ARC-sealed: its chain has failed before" {
				t.Errorf("once more: Seal says %q with %q, want it not sealed", again.Says, again.Fields)
			}
		})
	}
}

// TestSealTags: each seal verifies, so what its tags say decides.
func TestSealTags(t *testing.T) {
	z := zone{}
	s := sealer(t, z, "a.example")
	raw := forwarded(t, s, z, plain)
	covered := relaxed(fieldOf("ARC-Authentication-Results", 1).FindString(raw)) +
		relaxed(fieldOf("ARC-Message-Signature", 1).FindString(raw))
	for tags, want := range map[string]status{
		"t=1": passed, "n=": passed, "x=1": passed, // a seal does not expire (RFC 8617 4.1.3)
		"t=": failed, "t=x": failed, "t=1 2": failed, "t=-1": failed, "_=": failed, "t=1; t=1": failed,
		"h=From": failed,
	} {
		seal, err := s.sign("ARC-Seal: i=1; a=rsa-sha256; d=a.example; s=s1; cv=none; "+tags+"; b=", covered)
		if err != nil {
			t.Fatal(err)
		}
		if got, why := verified(t, z, seal+without(raw, "ARC-Seal", 1), now); got != want {
			t.Errorf("%q: the chain is %s (%s), want %s", tags, got, why, want)
		}
	}
}

// TestValidChain: sealers write in ways of their own.
func TestValidChain(t *testing.T) {
	z := zone{}
	raw := sealedTwice(t, z)
	s := sealer(t, z, "firm.example")
	inAnotherCase := strings.NewReplacer(
		"ARC-Seal:", "Arc-seal:",
		"ARC-Message-Signature:", "arc-message-signature:",
	)
	for name, raw := range map[string]string{
		"as it is":                raw,
		"fields of relays on top": "Received: by x\r\nX-Spam: no\r\n" + raw,
		"in another order":        without(raw, "ARC-Seal", 1) + "",
		"in another case":         inAnotherCase.Replace(raw),
		"folded in another way":   strings.Replace(raw, "; a=rsa-sha256", ";\r\n\ta=rsa-sha256", 1),
		"only From is as it was":  strings.Replace(raw, "Received: from", "Received:  from", 1),
	} {
		if name == "in another order" {
			head, body, _ := strings.Cut(raw, "\r\n\r\n")
			raw = head + "\r\n" + fieldOf("ARC-Seal", 1).FindString(sealedTwice(t, z)) + "\r\n" + body
		}
		if got := seal(t, s, z, raw); got.Says != "ARC-sealed, i=3, cv=pass" {
			t.Errorf("%s: Seal says %q, want it continued\n%s", name, got.Says, raw)
		}
	}
}

// TestLongChain: there are at most 50 sets.
func TestLongChain(t *testing.T) {
	z, raw := zone{}, plain
	s := sealer(t, z, "firm.example")
	for range maxInstance {
		raw = forwarded(t, s, z, raw)
	}
	if !strings.HasPrefix(raw, "ARC-Seal: i=50;") ||
		!strings.Contains(raw, "cv=pass") || strings.Contains(raw, "cv=fail") {
		t.Fatalf("after 50 sets it begins with %.100q, want set 50 of a valid chain", raw)
	}
	const tooLong = "not ARC-sealed: its chain has 50 sets, and more are not allowed"
	for name, long := range map[string]string{
		"50 sets":                      raw,
		"an instance that is too high": "ARC-Seal: i=51; cv=pass\r\n" + plain,
	} {
		if got := seal(t, s, z, long); got.Fields != "" || got.Says != tooLong {
			t.Errorf("%s: Seal says %q, want it not sealed", name, got.Says)
		}
	}
}

// TestSilentDNS: a chain whose keys cannot be had is left as it is, because a seal that says fail
// would end it for ever.
func TestSilentDNS(t *testing.T) {
	z := zone{}
	raw := sealedTwice(t, z)
	s := sealer(t, z, "firm.example")
	z["s1._domainkey.a.example"] = "?"
	const unknown = "not ARC-sealed: whether its chain is valid is not known " +
		"(the key of a.example could not be looked up: "
	if got := seal(t, s, z, raw); got.Fields != "" || !strings.HasPrefix(got.Says, unknown) {
		t.Errorf("Seal says %q, want it not sealed", got.Says)
	}
	if got := seal(t, s, z, strings.Replace(raw, "Hello", "Hallo", 1)); !strings.Contains(got.Says, "cv=fail") {
		t.Errorf("Seal says %q of a chain that no key makes valid, want cv=fail", got.Says)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	fields, body := parsed(t, plain)
	if got, err := s.Seal(ctx, z, fields, body, now); err != nil || got.Says != "" && got.Fields != "" {
		t.Errorf("with a context that has ended: Seal = %+v, %v, want it not sealed", got, err)
	}
}
