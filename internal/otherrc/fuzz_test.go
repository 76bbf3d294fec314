package otherrc

import (
	"strings"
	"testing"

	"postrider/internal/testserver/effort"
)

func FuzzFetchmail(f *testing.F) {
	fuzz(f, "fetchmailrc", "poll h proto imap user a pass hunter2 ", "defaults ", "")
}

func FuzzGetmail(f *testing.F) {
	const retriever = "[retriever]\ntype = SimpleIMAPSSLRetriever\nusername = a\npassword = hunter2\n"
	fuzz(f, "getmailrc", retriever, "[retriever]\nmailboxes = (", "")
}

// fuzz looks for a text that makes a parser work for long when it is repeated, and for an account
// without a place.
func fuzz(f *testing.F, format string, begins ...string) {
	for _, begin := range begins {
		for _, text := range []string{
			"user a ", "is a ", "pass 'b' ", "\"", "\\", "\\x", "\\0", "=", "no ", "no", "#", "\n",
			"folder a ", "poll h ", "set ", "x ", "\\\n",
			"[a]\n", "a = b\n", " b\n", "(\"a\",", "'", ":", ";", "\x00",
		} {
			f.Add(begin, text)
		}
	}
	f.Fuzz(func(t *testing.T, begin, text string) {
		const size = 32 << 10
		if len(begin) > size || len(text) == 0 {
			return
		}
		for _, file := range []string{begin + text, begin + strings.Repeat(text, max(size/len(text), 1))} {
			effort.Within(t, len(file), func() {
				var notes Notes
				accounts, _ := Read(format, "rc", strings.NewReader(file), &notes)
				for _, a := range accounts {
					if !strings.HasPrefix(a.Where, "rc:") {
						t.Errorf("an account is at %q, want its line", a.Where)
					}
				}
				for _, n := range notes.All() {
					if !strings.HasPrefix(n, "rc:") || strings.ContainsAny(n, "\r\n") {
						t.Errorf("a note is %q, want one line with its place", n)
					}
				}
			})
		}
	})
}
