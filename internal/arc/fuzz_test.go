package arc

import (
	"regexp"
	"strings"
	"testing"

	"postrider/internal/testserver/effort"
)

// setForm is a set as we write it: three fields of printable ASCII, in lines that every server
// takes.
var setForm = regexp.MustCompile(`^ARC-Seal: i=\d+; a=rsa-sha256; d=firm\.example; s=s1; t=\d+;\r\n` +
	` cv=(?:none|pass|fail);\r\n b=[A-Za-z0-9+/=\r\n ]+\r\n` +
	`ARC-Message-Signature: i=\d+; a=rsa-sha256; d=firm\.example; s=s1; t=\d+;\r\n` +
	` c=relaxed/relaxed; bh=[A-Za-z0-9+/=]+;\r\n h=From[A-Za-z:\r\n -]*;\r\n b=[A-Za-z0-9+/=\r\n ]+\r\n` +
	`ARC-Authentication-Results: i=\d+; firm\.example;\r\n arc=(?:none|pass|fail)(?:;\r\n [!-~ ]{1,998})*\r\n$`)

// FuzzSeal: no message and no key record makes sealing fail, or costs much. What is sealed is
// sealed in the same way each time, and the next sealer finds a valid chain, unless it was broken.
func FuzzSeal(f *testing.F) {
	z := zone{}
	f.Add(plain, recordOf(rsaKey()))
	f.Add(sealedTwice(f, z), recordOf(rsaKey()))
	for _, raw := range broken(f, z) {
		f.Add(raw, recordOf(rsaKey()))
	}
	f.Add("Authentication-Results: mx.firm.example; spf=pass (a (b) \\) c) reason=\"x; y\"\r\n"+
		"DKIM-Signature: v=1; a=rsa-sha256; d=a; s=b; h=from; bh=; b=\r\n"+
		"A : b\r\n\r\n \r\n\r\n\tx", "v=DKIM1; k=ed25519; p=AA==")
	f.Add("ARC-Seal: i=1; cv=none; b=\r\nARC-Message-Signature: i=1; h=from:from; b=\r\n"+
		"ARC-Authentication-Results: i=1\r\n\r\n", keyOf(9000))
	s := sealer(f, z, "firm.example", "mx.firm.example")
	f.Fuzz(func(t *testing.T, raw, record string) {
		fields, body := parsed(t, raw)
		for _, field := range fields {
			if field.Name == "" {
				return // forward does not seal it
			}
		}
		dns := zone{"s1._domainkey.firm.example": recordOf(rsaKey())}
		any := anyZone{dns, record}
		var set Set
		effort.Within(t, len(raw)+len(record), func() {
			var err error
			if set, err = s.Seal(t.Context(), any, fields, body, now); err != nil {
				t.Fatalf("Seal = %v, want no error", err)
			}
		})
		if again, err := s.Seal(t.Context(), any, fields, bodyOf(t, raw), now); err != nil || again != set {
			t.Errorf("Seal = %+v, and then %+v, %v, want no difference", set, again, err)
		}
		if set.Fields == "" {
			if !strings.HasPrefix(set.Says, "not ARC-sealed: ") {
				t.Errorf("nothing is sealed, and Seal says %q, want a reason", set.Says)
			}
			return
		}
		if !setForm.MatchString(set.Fields) || strings.ContainsFunc(set.Says, func(r rune) bool { return r < ' ' }) {
			t.Errorf("the set is %q (%q), want three fields of printable ASCII", set.Fields, set.Says)
		}
		fields, body = parsed(t, set.Fields+raw)
		next, err := s.Seal(t.Context(), any, fields, body, now)
		valid := strings.Contains(next.Says, ", cv=pass") || strings.Contains(next.Says, "has 50 sets")
		failed := next.Says == "not ARC-sealed: its chain has failed before"
		if err != nil || failed == valid || failed != strings.Contains(set.Says, ", cv=fail") {
			t.Errorf("Seal says %q, and the next one %q, %v, want a valid chain unless it was broken\n%s",
				set.Says, next.Says, err, set.Fields+raw)
		}
	})
}
