package message

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"testing"

	gomessage "github.com/emersion/go-message"
	"postrider/internal/testserver/timing"
)

func TestParts(t *testing.T) {
	outer := func(s string) string { return lines("Content-Type: multipart/mixed; boundary=a\n\n" + s) }
	const inner = "--a\nContent-Type: multipart/mixed; boundary=b\n\n"
	long := strings.Repeat("x", 32<<10) // as the reader's buffer
	tests := []struct{ name, raw, text string }{
		{
			"before, between and after",
			outer("no\n--a\n\none\n" + inner + "no\n--b\n\ntwo\n--b--\nno\n--a\n\nthree\n--a--\nno\n--a\n\nno"),
			"one\ntwo\nthree",
		},
		{"an outer delimiter ends inner parts", outer(inner + "--b\n\none\n--a\n\ntwo\n--a--\n"), "one\ntwo"},
		{"an outer end ends inner parts", outer(inner + "--b\n\none\n--a--\nno"), "one"},
		{"an outer delimiter in an inner header", outer(inner + "--b\nX: y\n--a\n\ntwo"), "two"},
		{"no inner parts at all", outer(inner + "--a\n\ntwo"), "two"},
		{"space after delimiters", outer("--a \t\n\none\n--a  \n\ntwo\n--a--  \nno"), "one\ntwo"},
		{
			"a line that only begins like one", outer("--a\n\none\n--ab\n--a-\n--a-- b\n--\n --a\n--a--"),
			"one\n--ab\n--a-\n--a-- b\n--\n --a",
		},
		{"in the middle of a line that does not fit", outer("--a\n\n" + long + "--a\n--a\n\ntwo"), long + "--a\ntwo"},
		{"a line without an end", outer("--a\n\none\n--a--"), "one"},
		{
			"a delimiter that begins like the outer one",
			outer(strings.ReplaceAll(inner, "=b", "=ab") + "--ab\n\none\n--ab--\n--a\n\ntwo"), "one\ntwo",
		},
		{
			"a boundary with a space after it", strings.Replace(outer("--a\n\none\n--a--\nno"), "=a", `="a "`, 1),
			"one",
		},
		{
			"a boundary that ends with --", strings.Replace(outer("--a--\n\none\n--a----\nno"), "=a", `="a--"`, 1),
			"one",
		},
		{
			"inner and outer parts with one delimiter",
			outer("--a\nContent-Type: multipart/mixed; boundary=a\n\n--a\n\none\n--a\n\ntwo\n--a--\n"), "one\ntwo",
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c := parse(t, tt.raw).Content(t.Context())
			if c.Text != tt.text || c.Incomplete != "" {
				t.Errorf("the text is %.200q (incomplete: %q), want %.200q", c.Text, c.Incomplete, tt.text)
			}
		})
	}
}

// TestDepthIsCheap checks that lines that look like boundaries are read about as fast in thirty
// nested parts as in one.
func TestDepthIsCheap(t *testing.T) {
	read := func(depth int) func() {
		var b strings.Builder
		for i := range depth {
			fmt.Fprintf(&b, "Content-Type: multipart/mixed; boundary=b%d\r\n\r\n--b%d\r\n", i, i)
		}
		m := parse(t, b.String()+"Content-Type: application/x\r\n\r\n"+strings.Repeat("--b14x\r\n", 1<<17))
		return func() {
			if c := m.Content(t.Context()); c.Incomplete != "" {
				t.Fatalf("%d deep: Incomplete = %q, want it empty", depth, c.Incomplete)
			}
		}
	}
	timing.AtMost(t, 10, read(1), read(MaxDepth))
}

// TestPartsMatchOtherParser builds random multiparts. When another package parses one without an
// error, both must read the same text.
func TestPartsMatchOtherParser(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	pieces := []string{
		"--a\n", "--a\n\n", "--a--\n", "--b\n", "--b\n\n", "--b-- \t\n", "--c\n\n", "--ab\n", "--a \n\n", "\n",
		"one\n", "two\n", "X: y\n",
		"Content-Type: text/plain\n\n", "Content-Type: multipart/mixed; boundary=b\n\n",
		"Content-Type: multipart/alternative; boundary=\"c\"\n\n",
	}
	compared := 0
	for range 5000 {
		raw := "Content-Type: multipart/mixed; boundary=a\n\n"
		for range 3 + rng.IntN(20) {
			raw += pieces[rng.IntN(len(pieces))]
		}
		want, err := otherText(lines(raw))
		c := parse(t, lines(raw)).Content(t.Context())
		if err != nil || c.Incomplete != "" {
			continue
		}
		compared++
		if c.Text != want {
			t.Fatalf("the text of\n%s\nis %q, want %q", raw, c.Text, want)
		}
	}
	if compared < 500 {
		t.Errorf("%d of 5000 messages could be compared, want at least 500", compared)
	}
}

func otherText(raw string) (string, error) {
	m, err := gomessage.Read(strings.NewReader(raw))
	if err != nil {
		return "", err
	}
	var out strings.Builder
	err = m.Walk(func(_ []int, p *gomessage.Entity, err error) error {
		if err != nil {
			return err
		}
		kind, _, err := p.Header.ContentType()
		if err != nil || strings.HasPrefix(kind, "multipart/") {
			return err
		}
		b, err := io.ReadAll(p.Body)
		if text := strings.TrimSpace(strings.ReplaceAll(string(b), "\r", "")); text != "" {
			out.WriteString(text + "\n")
		}
		if errors.Is(err, io.ErrUnexpectedEOF) { // the last boundary is missing
			return nil
		}
		return err
	})
	return strings.TrimSuffix(out.String(), "\n"), err
}
