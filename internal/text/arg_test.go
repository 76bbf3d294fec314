package text

import (
	"os/exec"
	"testing"
)

func TestArg(t *testing.T) {
	for s, want := range map[string]string{
		"ann+x_1@other.example":    "ann+x_1@other.example",
		"jörg@bücher.example":      "jörg@bücher.example",
		"/etc/postrider/p.yaml":    "/etc/postrider/p.yaml",
		"o'brien@other.example":    `'o'\''brien@other.example'`,
		`"a b"@other.example`:      `'"a b"@other.example'`,
		"a`id`$x&b#!*@x.example":   "'a`id`$x&b#!*@x.example'",
		"~/My Files/postrider.key": "'~/My Files/postrider.key'",
		"":                         "''",
	} {
		got := Arg(s)
		if got != want {
			t.Errorf("Arg(%q) = %s, want %s", s, got, want)
		}
		sh, err := exec.LookPath("sh")
		if err != nil {
			continue
		}
		if out, err := exec.Command(sh, "-c", "printf %s "+got).Output(); err != nil || string(out) != s {
			t.Errorf("a shell reads %s as %q (%v), want %q", got, out, err, s)
		}
	}
}
