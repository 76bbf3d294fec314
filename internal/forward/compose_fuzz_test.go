package forward

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	gomessage "github.com/emersion/go-message"

	"postrider/internal/testserver/effort"
)

// FuzzCompose: whatever comes in, what is composed of it has a header of ASCII on short lines that
// can be parsed, keeps its size, and gives the original back.
func FuzzCompose(f *testing.F) {
	files, _ := filepath.Glob("testdata/odd/*.eml")
	for _, file := range files {
		raw, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(string(raw))
	}
	f.Fuzz(func(t *testing.T, raw string) {
		c, m := composer(t, ComposeConfig{}), parse(t, raw)
		original := octetsOf(t, m.Body.Reader())
		for _, mode := range []Mode{Rewrite, Attach} {
			var out *Content
			effort.Within(t, len(raw), func() { out = compose(t, c, m, Style{Mode: mode}) })
			for ; out != nil; out = other(t, out) {
				data := octetsOf(t, out.Reader())
				if int64(len(data)) != out.Size() {
					t.Fatalf("%s: %d octets, want Size() = %d", mode, len(data), out.Size())
				}
				e, err := gomessage.Read(strings.NewReader(data))
				if unreadable(err) && out.Mode == Attach {
					t.Fatalf("%s: %v\n%q", mode, err, data)
				}
				head, body, _ := strings.Cut(data, "\r\n\r\n")
				switch {
				case out.Mode == Attach:
					checkComposed(t, head)
					if got := taken(t, e); got != original {
						t.Fatalf("the attachment is %q, want %q\n%q", got, original, data)
					}
				case strings.Contains(out.Remark, "encoded:"):
					arrival{"encoded", out.Mode, original, data}.checkPlain(t)
				case !fits(head):
					t.Fatalf("the header is %q, want ASCII on lines of at most 998 octets", head)
				case !strings.HasSuffix(original, body):
					t.Fatalf("the body is %q, want the end of %q", body, original)
				}
			}
		}
	})
}

func other(t *testing.T, c *Content) *Content {
	t.Helper()
	if c.instead == nil {
		return nil
	}
	next, err := c.instead()
	if err != nil {
		t.Fatal(err)
	}
	return next
}

func checkComposed(t *testing.T, head string) {
	t.Helper()
	for line := range strings.SplitSeq(head, "\r\n") {
		name, _, colon := strings.Cut(line, ":")
		unprintable := func(r rune) bool { return r >= 0x7f || r < ' ' && r != '\t' }
		if len(line) > maxLine || strings.ContainsFunc(line, unprintable) {
			t.Fatalf("the header has the line %q, want printable ASCII of at most 998 octets", line)
		}
		if line == "" || line[0] != ' ' && (!colon || strings.ContainsAny(name, " \t")) {
			t.Fatalf("the header has the line %q, want a field or its continuation", line)
		}
	}
}
