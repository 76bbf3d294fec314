package forward

import (
	"bufio"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"
)

func TestReadReply(t *testing.T) {
	tests := []struct {
		name, wire string
		want       reply
	}{
		{"plain", "250 ok\r\n", reply{250, "", "ok"}},
		{"enhanced", "250 2.1.5 Recipient OK\r\n", reply{250, "2.1.5", "Recipient OK"}},
		{"code alone", "250\r\n", reply{250, "", ""}},
		{"code and a space", "354 \r\n", reply{354, "", ""}},
		{"bare LF", "250 ok\n", reply{250, "", "ok"}},
		{"more lines", "550-5.1.1 no\r\n550-5.1.1 such\r\n550 5.1.1 user\r\n", reply{550, "5.1.1", "no such user"}},
		{"more lines, one empty", "550-no\r\n550-\r\n550\r\n", reply{550, "", "no"}},
		{"enhanced alone", "550 5.1.1\r\n", reply{550, "5.1.1", ""}},
		{"not enhanced", "550 5.1.1.1 is an address\r\n", reply{550, "", "5.1.1.1 is an address"}},
		{"controls and bad UTF-8", "550 a\x1b[31mb\xff\tc\r\n", reply{550, "", "a [31mb\uFFFD c"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := readReply(bufio.NewReader(strings.NewReader(tt.wire)))
			if err != nil || got != tt.want {
				t.Errorf("readReply(%q) = %+v, %v, want %+v", tt.wire, got, err, tt.want)
			}
		})
	}
	for name, wire := range map[string]string{
		"nothing": "", "cut": "250 o", "cut between lines": "250-ok\r\n", "text": "hello\r\n",
		"no separator": "2500 x\r\n", "impossible code": "199 x\r\n", "empty line": "\r\n",
		"endless line":  "250 " + strings.Repeat("x", 10_000),
		"endless reply": strings.Repeat("250-x\r\n", 20_000) + "250 x\r\n",
	} {
		t.Run("no reply: "+name, func(t *testing.T) {
			if got, err := readReply(bufio.NewReader(strings.NewReader(wire))); err == nil {
				t.Errorf("readReply(%.20q) = %+v, want an error", wire, got)
			}
		})
	}
}

var codePattern = regexp.MustCompile(`(?m)^([245]\.\d{1,3}\.\d{1,3})(?:\s+|$)`)

// FuzzNewReply: the codes that are found and taken out of a text are those that a pattern says.
func FuzzNewReply(f *testing.F) {
	for _, s := range []string{
		"", "ok", "5.1.1", "5.1.1 no\nsuch\n5.1.2 user\n", "5.1.1\n5.1.1\n", "5.1.1 \n 5.1.1 x",
		"5.1.1\n\n5.1.1 x\n5.1.1", "5.1.1234 x", "5.1.1.1 x", "3.1.1 x", "2.0.0\fx\ry", "5..1 x", "5.1. x",
		"5.1.1\u00a0x", "x 5.1.1\n4.999.000\tx\n\n", "5.1.1\v", "5.1.1 5.1.2 x", "2.", "2.0", "2.0.",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		want := reply{code: 250, text: short(codePattern.ReplaceAllString(text, ""))}
		if m := codePattern.FindStringSubmatch(text); m != nil {
			want.enhanced = m[1]
		}
		if got := newReply(250, text); got != want {
			t.Errorf("newReply(%q) = %+v, want %+v", text, got, want)
		}
	})
}

// TestReplyIsCheap: what a relay says to each command costs a few allocations.
func TestReplyIsCheap(t *testing.T) {
	const wire = "250 2.1.5 Recipient OK\r\n"
	in := strings.NewReader(wire)
	r := bufio.NewReader(in)
	if n := testing.AllocsPerRun(100, func() {
		in.Reset(wire)
		r.Reset(in)
		if _, err := readReply(r); err != nil {
			t.Fatal(err)
		}
	}); n > 3 {
		t.Errorf("%v allocations, want at most 3", n)
	}
}

func TestShort(t *testing.T) {
	for _, s := range []string{
		strings.Repeat("x", 499) + "ü", strings.Repeat("ü", 400), strings.Repeat("a b\r\n", 1000),
	} {
		got := short(s)
		if len(got) > 500 || len(got) < 498 || !utf8.ValidString(got) || strings.ContainsAny(got, "\r\n") {
			t.Errorf("short of %d octets has %d: %q, want one line of valid UTF-8 and just under 500 octets",
				len(s), len(got), got)
		}
	}
}
