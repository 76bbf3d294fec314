package terminal

import "testing"

func TestFill(t *testing.T) {
	const in = "short\nlines stay\n\na paragraph with a line that is too long\nis broken again, Müller\n\n    as is\n\nexamples:\n  run --this --and that"
	const want = "short\nlines stay\n\na paragraph with a\nline that is too\nlong is broken\nagain, Müller\n\n    as is\n\nexamples:\n  run --this --and that"
	if got := Fill(in, 20); got != want {
		t.Errorf("it is\n%s\nwant\n%s", got, want)
	}
}
