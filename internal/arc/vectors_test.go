package arc

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestVectors: messages that were sealed once, by us and by dkimpy, whose key nobody has any more.
// record.txt is its record. What they are is in their names.
func TestVectors(t *testing.T) {
	record, err := os.ReadFile("testdata/vectors/record.txt")
	if err != nil {
		t.Fatal(err)
	}
	z := zone{}
	s := sealer(t, z, "next.example", "mx.firm.example", "mx.sealer.example")
	for _, domain := range []string{"firm.example", "sealer.example"} {
		z["s1._domainkey."+domain] = strings.TrimSpace(string(record))
	}
	want := map[string]string{
		"sealed-by-dkimpy":    "ARC-sealed, i=2, cv=pass",
		"sealed-by-us":        "ARC-sealed, i=2, cv=pass",
		"sealed-by-both":      "ARC-sealed, i=3, cv=pass",
		"sealed-three-times":  "ARC-sealed, i=4, cv=pass",
		"white-space-changed": "ARC-sealed, i=3, cv=pass",
		"body-changed": "ARC-sealed, i=3, cv=fail: " +
			"the newest message signature is not valid: the body was changed",
		"results-changed": "ARC-sealed, i=3, cv=fail: " +
			"the seal of set 2 is not valid: its signature does not verify",
		"set-missing": "ARC-sealed, i=4, cv=fail: set 2 has 0 fields arc-authentication-results, and not one",
		"ended":       "not ARC-sealed: its chain has failed before",
	}
	files, err := filepath.Glob("testdata/vectors/*.eml")
	if err != nil || len(files) != len(want) {
		t.Fatalf("there are %d vectors, %v, want %d", len(files), err, len(want))
	}
	for _, file := range files {
		raw, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		name := strings.TrimSuffix(filepath.Base(file), ".eml")
		if got := seal(t, s, z, string(raw)); got.Says != want[name] {
			t.Errorf("%s: Seal says %q, want %q", name, got.Says, want[name])
		}
	}
}
