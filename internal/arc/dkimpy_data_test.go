package arc

import (
	"bytes"
	"crypto/sha256"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"postrider/internal/testserver"
)

// bodyLength is why we do not take a signature with l=.
const bodyLength = "l= covers a part of the body; a verifier may ignore such a signature (RFC 6376 8.2)"

// notAsDKIMPy are tests of dkimpy with signatures that dkimpy takes and we do not.
var notAsDKIMPy = map[string]string{
	"test_dkim.test_add_body_length":         bodyLength,
	"test_dkim.test_l_verify":                bodyLength,
	"test_dkim_ed25519.test_add_body_length": bodyLength,
	"test_dkim.test_dkim_signature_canonicalization": "its key has 512 bits, and the test allows that; " +
		"keys under 1024 bits are not valid (RFC 8301 3.2)",
}

// TestAsDKIMPyTests: what dkimpy's own tests expect of dkimpy, we do.
func TestAsDKIMPyTests(t *testing.T) {
	tests := testserver.RunDKIMPyTests(t)
	t.Run("verified", func(t *testing.T) { verifiedByTests(t, tests.Verified) })
	t.Run("signed", func(t *testing.T) { signedIn(t, tests) })
	t.Run("canonical", func(t *testing.T) { canonicalInTests(t, tests.Canonical) })
	t.Run("sealed", func(t *testing.T) { sealedFrom(t, tests.Data) })
}

// verifiedByTests checks our verdicts.
func verifiedByTests(t *testing.T, all []testserver.DKIMPyVerified) {
	for name, why := range notAsDKIMPy {
		if !slices.ContainsFunc(all, func(v testserver.DKIMPyVerified) bool { return v.Test == name }) {
			t.Errorf("dkimpy has no test %s, which is listed because %s", name, why)
		}
	}
	for _, v := range all {
		want, why := strings.Join(v.Says, ", "), notAsDKIMPy[v.Test]
		if why != "" {
			if want != "pass" {
				t.Errorf("%s: dkimpy says %s, but it is listed because %s", v.Test, want, why)
			}
			want = "fail"
		}
		if got := judged(t, v); got != want {
			t.Errorf("%s: we say %q, want %q\n%s\n%s", v.Test, got, want, v.Records, v.Message)
		}
	}
	t.Logf("%d messages", len(all))
}

// judged is what we say of each signature, from the top, or of the chain.
func judged(t *testing.T, of testserver.DKIMPyVerified) string {
	t.Helper()
	raw, at := withCRLF(of.Message), time.Now() // dkimpy has just signed it
	if of.ARC {
		status, _ := verified(t, of.Records, raw, at)
		return string(status)
	}
	fields, body := parsed(t, raw)
	hashes, err := hashBody(t.Context(), body)
	if err != nil {
		t.Fatal(err)
	}
	v := &verifier{dns: zone(of.Records), header: newHeader(fields), body: hashes, at: at}
	var says []string
	for _, i := range v.header.named["dkim-signature"] {
		result := "fail"
		if tags, ok := parseTags(valueOf(fields[i])); ok && v.dkim(t.Context(), fields[i], tags) == nil {
			result = "pass"
		}
		says = append(says, result)
	}
	return strings.Join(says, ", ")
}

func withCRLF(raw []byte) string {
	return strings.ReplaceAll(strings.ReplaceAll(string(raw), "\r\n", "\n"), "\n", "\r\n")
}

// signedIn checks that the tests verify all signed messages of dkimpy's data.
func signedIn(t *testing.T, tests testserver.DKIMPyTests) {
	files, err := filepath.Glob(filepath.Join(tests.Data, "*"))
	if err != nil {
		t.Fatal(err)
	}
	signed := 0
	for _, file := range files {
		raw, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Contains(raw, []byte("DKIM-Signature:")) {
			continue
		}
		signed++
		if !slices.ContainsFunc(tests.Verified, func(v testserver.DKIMPyVerified) bool {
			return bytes.Contains(v.Message, raw)
		}) {
			t.Errorf("no test of dkimpy verifies %s, so we have not either", file)
		}
	}
	if signed == 0 || len(tests.Verified) == 0 || len(tests.Canonical) == 0 {
		t.Errorf("%s has %d signed messages, and the tests verify %d and have %d canonical forms, want some of each",
			tests.Data, signed, len(tests.Verified), len(tests.Canonical))
	}
}

// canonicalInTests checks our canonical forms.
func canonicalInTests(t *testing.T, all []testserver.DKIMPyForm) {
	for _, form := range all {
		in, want := string(form.In), string(form.Want)
		if strings.HasSuffix(form.Of, "Body") {
			hashes, err := hashBody(t.Context(), strings.NewReader(in))
			sum := sha256.Sum256(form.Want)
			got := map[string][]byte{
				"TestSimpleAlgorithmBody":  hashes.simple,
				"TestRelaxedAlgorithmBody": hashes.relaxed,
			}[form.Of]
			if err != nil || !bytes.Equal(got, sum[:]) {
				t.Errorf("%s: the hash of %q is %x, %v, want that of %q", form.Of, in, got, err, want)
			}
			continue
		}
		canonical := map[string]func(string) string{
			"TestSimpleAlgorithmHeaders":  simple,
			"TestRelaxedAlgorithmHeaders": relaxed,
		}[form.Of]
		if canonical == nil {
			t.Fatalf("dkimpy has a test class %s that is not known here", form.Of)
		}
		fields, _ := parsed(t, in+"\r\n")
		got := ""
		for _, f := range fields {
			got += canonical(string(f.Raw))
		}
		if got != want {
			t.Errorf("%s: %q becomes %q, want %q", form.Of, in, got, want)
		}
	}
	t.Logf("%d forms", len(all))
}

// sealedFrom checks that dkimpy's message, sealed with its key by us and by dkimpy, verifies on the
// other side.
func sealedFrom(t *testing.T, data string) {
	read := func(name string) []byte {
		raw, err := os.ReadFile(filepath.Join(data, name))
		if err != nil {
			t.Fatal(err)
		}
		return raw
	}
	private := string(read("test.private"))
	s, err := New(keyFrom(t, "firm.example", "s1", private), []string{"lists.example.org"})
	if err != nil {
		t.Fatal(err)
	}
	record := string(read("test.txt"))
	z := zone{"s1._domainkey.firm.example": record, "s1._domainkey.sealer.example": record}
	raw := withCRLF(read("test.message"))

	ours := forwarded(t, s, z, raw)
	theirs := testserver.SealARC(t, z, private, now, raw, ours)
	for name, raw := range map[string]string{"dkimpy's set": theirs[0], "dkimpy's set on ours": theirs[1]} {
		if got, why := verified(t, z, raw, now); got != passed {
			t.Errorf("%s: the chain is %s (%s), want it valid\n%s", name, got, why, raw)
		}
		if got, _ := verified(t, z, raw+"more\r\n", now); got != failed {
			t.Errorf("%s, with more text: the chain is %s, want it failed", name, got)
		}
	}
	verdicts := testserver.VerifyARC(t, z, ours, forwarded(t, s, z, theirs[0]), ours+"more\r\n")
	for i, want := range []string{"pass", "pass", "fail"} {
		if got := verdicts[i]; got.CV != want {
			t.Errorf("message %d: dkimpy says %+v, want %s", i, got, want)
		}
	}
}
