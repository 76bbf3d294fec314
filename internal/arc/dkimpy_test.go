package arc

import (
	"strings"
	"testing"

	"postrider/internal/testserver"
)

// bodies are ends and insides of bodies that canonical forms differ about.
var bodies = map[string]string{
	"plain": "hello\r\n", "none": "", "empty lines": "\r\n\r\n", "white lines": " \r\n\t\r\n", "no line end": "hello",
	"inside": "a  b\t c \r\n\r\n \r\nd\r\n\r\n", "8 bits": "Zażółć  gęślą\r\n", "dots": ".\r\n..two\r\n",
}

// TestSealedElsewhere: what we seal and continue, dkimpy verifies.
func TestSealedElsewhere(t *testing.T) {
	z := zone{}
	one, two := sealer(t, z, "firm.example", "mx.firm.example"), sealer(t, z, "other.example")
	var names, messages []string
	for name, body := range bodies {
		head, _, _ := strings.Cut(plain, "\r\n\r\n")
		raw := "Authentication-Results: mx.firm.example;\r\n spf=pass smtp.mailfrom=alice@client.example;\r\n" +
			" dmarc=pass (p=REJECT) header.from=client.example\r\n" +
			signedBy(t, z, "client.example", head+"\r\n\r\n"+body, nil)
		for range 2 {
			raw = forwarded(t, one, z, raw)
			names, messages = append(names, name+", sealed"), append(messages, raw)
			raw = forwarded(t, two, z, "X-Trace: 1\r\n"+raw)
			names, messages = append(names, name+", continued"), append(messages, raw)
		}
	}
	forged := strings.Replace(messages[0], "From: Alice", "From: Mallory", 1)
	verdicts := testserver.VerifyARC(t, z, append(messages, forged)...)
	for i, name := range names {
		if got := verdicts[i]; got.CV != "pass" {
			t.Errorf("%s: dkimpy says %+v, want pass\n%s", name, got, messages[i])
		}
	}
	if got := verdicts[len(names)]; got.CV != "fail" {
		t.Errorf("a forged message: dkimpy says %+v, want fail", got)
	}
}

// TestBrokenElsewhere: a set that ends a broken chain is valid on its own, as dkimpy sees it.
func TestBrokenElsewhere(t *testing.T) {
	z := zone{}
	s := sealer(t, z, "firm.example")
	var names, messages []string
	for name, raw := range broken(t, z) {
		names, messages = append(names, name), append(messages, forwarded(t, s, z, raw))
	}
	for i, got := range testserver.VerifyARC(t, z, messages...) {
		if got.CV == "pass" || !got.Seal {
			t.Errorf("%s: dkimpy says %+v, want a chain that has failed, below a valid set\n%s",
				names[i], got, messages[i])
		}
	}
}

// TestSealedByOthers: what dkimpy seals, we verify and continue, and dkimpy agrees.
func TestSealedByOthers(t *testing.T) {
	z := zone{"s1._domainkey.sealer.example": recordOf(rsaKey())}
	s := sealer(t, z, "firm.example", "mx.sealer.example")
	var names, messages []string
	for name, body := range bodies {
		head, _, _ := strings.Cut(plain, "\r\n\r\n")
		names, messages = append(names, name), append(messages, head+"\r\n\r\n"+body)
	}
	for hop := range 2 {
		messages = testserver.SealARC(t, z, pemOf(rsaKey()), now, messages...)
		for i, raw := range messages {
			set := seal(t, s, z, raw)
			if !strings.HasSuffix(set.Says, "cv=pass") {
				t.Errorf("hop %d of %s: Seal says %q, want the chain valid\n%s", hop, names[i], set.Says, raw)
			}
			changed := seal(t, s, z, strings.Replace(raw, "From: Alice", "From: Malice", 1))
			if !strings.Contains(changed.Says, "cv=fail") {
				t.Errorf("hop %d of %s: Seal says %q of a forged message, want cv=fail", hop, names[i], changed.Says)
			}
			messages[i] = set.Fields + raw
		}
	}
	for i, got := range testserver.VerifyARC(t, z, messages...) {
		if got.CV != "pass" {
			t.Errorf("%s: dkimpy says %+v, want pass\n%s", names[i], got, messages[i])
		}
	}
}
