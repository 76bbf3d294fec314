package contacts

import (
	"strings"
	"testing"

	"postrider/internal/testserver/effort"
)

// FuzzCSV looks for a text that makes the reader work for long when it is repeated, and for an
// entry without a place or without a name that has no fault.
func FuzzCSV(f *testing.F) {
	for _, text := range []string{
		"ann,a@x.example,\"one;two\",yes\n", "\"", "\"\"", ",", ";", "\r", "\n", "\x00", "\xff\xfea\x00",
		"\xef\xbb\xbf", "ann\n",
	} {
		f.Add("name,email,keywords,active\n", text)
		f.Add("sep=;\r\nname\r\n", text)
		f.Add("", text)
	}
	f.Fuzz(func(t *testing.T, begin, text string) {
		const size = 32 << 10
		if len(begin) > size || len(text) == 0 {
			return
		}
		for _, file := range []string{begin + text, begin + strings.Repeat(text, max(size/len(text), 1))} {
			effort.Within(t, len(file), func() {
				entries, err := ReadCSV("p.csv", strings.NewReader(file))
				if err != nil && len(entries) > 0 {
					t.Errorf("%d entries and the error %v, want one of both", len(entries), err)
				}
				for _, e := range entries {
					if !strings.HasPrefix(e.Where, "p.csv:") {
						t.Errorf("an entry is at %q, want its line", e.Where)
					}
				}
			})
		}
	})
}
