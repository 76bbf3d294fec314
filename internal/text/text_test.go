package text

import (
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"
)

func TestLine(t *testing.T) {
	for _, c := range []struct{ name, in, want string }{
		{"escape sequences do not reach the terminal", "a\x1b[2Jb\u009bc", "a [2Jb c"},
		{"one line", "two\r\nlines\tand a tab", "two lines and a tab"},
		{"no turning of the writing direction", "exe.\u202efdp", "exe. fdp"},
		{"octets that are no text", "a\xffb", "a\uFFFDb"},
		{"other scripts stay", "開廷 – Žluťoučký", "開廷 – Žluťoučký"},
		{"nothing", " \n ", ""},
		{"spaces", " a  b c~ d\x7f\n", "a b c~ d"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := Line(c.in); got != c.want {
				t.Errorf("Line(%q) is %q, want %q", c.in, got, c.want)
			}
		})
	}
}

func TestError(t *testing.T) {
	for in, want := range map[string]string{
		"log in: no\nclose: no":                       "log in: no; close: no",
		"nothing was changed:\n\n\tline 2: no name\n": "nothing was changed: line 2: no name",
		"one;\r\n two":                                "one; two",
		"the server says \x1b[2J":                     "the server says [2J",
	} {
		if got := Error(errors.New(in)); got != want {
			t.Errorf("Error of %q is %q, want %q", in, got, want)
		}
	}
}

func TestCut(t *testing.T) {
	for in, want := range map[string]string{"": "", "開廷開廷": "開廷開廷", "開廷開廷開": "開廷開…"} {
		if got := Cut(in, 4); got != want {
			t.Errorf("Cut(%q, 4) is %q, want %q", in, got, want)
		}
	}
}

func TestNearest(t *testing.T) {
	known := []string{
		"INBOX", "Sent Items", "forwarded", "received", "dead", "all", "box1@firm.example", "*@firm.example",
	}
	for in, want := range map[string]string{
		"Inbxo": "INBOX", "inbox": "INBOX", "forwrded": "forwarded", "ded": "dead", "al": "all", "rceeived": "received",
		"sent item": "Sent Items", "zzz": "", "": "", "Archive": "",
		"bxo1@firm.example": "box1@firm.example", "box1@frm.example": "box1@firm.example", "jdoe@firm.example": "",
		"*@frm.exmple": "*@firm.example",
	} {
		if got := Nearest(in, known); got != want {
			t.Errorf("Nearest(%q) is %q, want %q", in, got, want)
		}
	}
	if got := DidYouMean("ded", known) + DidYouMean("zzz", known); got != "; did you mean dead?" {
		t.Errorf("the question is %q, want it only for the name that is near", got)
	}
}

func TestContains(t *testing.T) {
	for _, c := range []struct {
		s, part string
		want    bool
	}{
		{"Ärger im Büro", "äRGER", true},
		{"Ärger im Büro", "Büros", false},
		{"", "", true},
		{"", "a", false},
		{"Bu\u0308ro.pdf", "Büro", true},
		{"Büro.pdf", "bu\u0308ro", true},
		{"Rech\u00adnung 2\u200b026", "rechnung 2026", true},
		{"Rech\u00adnung", "rech nung", true}, // as it is shown
		{"Rechnung", "Rech\u00adnung", true},
		{"Rech nung", "Rechnung", false},
		{"ΟΔΟΣ", "οδος", true},
		{"οδος", "ΟΔΟΣ", true},
		{"ｆｕｌｌ １２", "Full 12", true},
		{"full 12", "ｆｕｌｌ", true},
		{"STRASSE", "Straße", true},
		{"HI", "hı", true},
		{"bad \xffend", "\uFFFDEND", true},
	} {
		if got := Contains(c.s, c.part); got != c.want {
			t.Errorf("Contains(%q, %q) is %t, want %t", c.s, c.part, got, c.want)
		}
	}
}

func TestSome(t *testing.T) {
	for n, want := range map[int]string{1: "a, and 2 more", 2: "a, b, and 1 more", 3: "a, b, c", 4: "a, b, c"} {
		if got := strings.Join(Some([]string{"a", "b", "c"}, n), ", "); got != want {
			t.Errorf("Some of a, b, c, at most %d, is %q, want %q", n, got, want)
		}
	}
}

func TestCount(t *testing.T) {
	for n, want := range map[int]string{0: "0 tasks", 1: "1 task", 2: "2 tasks"} {
		if got := Count(n, "task"); got != want {
			t.Errorf("Count(%d) is %q, want %q", n, got, want)
		}
	}
}

func TestPrintable(t *testing.T) {
	const in = "Subject: a\x1b[31mb\r\n\r\ncol\tcol\rx\a\x9b\u009b\u202e\xff 開廷\n"
	const want = "Subject: a [31mb\n\ncol\tcol x \uFFFD  \uFFFD 開廷\n"
	for name, src := range map[string]io.Reader{
		"at once":         strings.NewReader(in),
		"octet for octet": iotest.OneByteReader(strings.NewReader(in)),
	} {
		var out strings.Builder
		if err := Printable(&out, src); err != nil || out.String() != want {
			t.Errorf("%s: %q, %v; want %q", name, out.String(), err, want)
		}
	}
	broken := errors.New("broken")
	if err := Printable(io.Discard, iotest.ErrReader(broken)); !errors.Is(err, broken) {
		t.Errorf("the error is %v, want that of the reader", err)
	}
}
