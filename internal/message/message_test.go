package message

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"testing/iotest"
	"time"
)

func parse(t *testing.T, raw string) *Message {
	t.Helper()
	b := (&Spooler{Limit: 1 << 20, Budget: 16 << 20}).New()
	if _, err := io.Copy(b, strings.NewReader(raw)); err != nil {
		t.Fatal(err)
	}
	m, err := Parse(b)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = m.Close() })
	return m
}

func read(t *testing.T, b *Spool) string {
	t.Helper()
	out, err := io.ReadAll(b.Reader())
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

func TestSpoolMakesLineEndsCanonical(t *testing.T) {
	tests := []struct {
		name, in, want string
		changed        bool
	}{
		{"canonical", "a\r\nb\r\n", "a\r\nb\r\n", false},
		{"bare LF", "a\nb\n\nc", "a\r\nb\r\n\r\nc", true},
		{"bare CR", "a\rb", "a\r\nb", true},
		{"CR at the end", "a\r", "a\r\n", true},
		{"CR CR LF", "a\r\r\nb", "a\r\n\r\nb", true},
		{"LF CR", "a\n\rb", "a\r\n\r\nb", true},
		{"NUL is kept", "a\x00b\r\n", "a\x00b\r\n", false},
		{"empty", "", "", false},
	}
	for _, tt := range tests {
		for where, limit := range map[string]int64{"memory": 1 << 20, "file": 0} {
			t.Run(tt.name+" in "+where, func(t *testing.T) {
				for chunk, r := range map[string]io.Reader{
					"whole": strings.NewReader(tt.in), "octet by octet": iotest.OneByteReader(strings.NewReader(tt.in)),
				} {
					b := (&Spooler{Limit: limit, Budget: 1 << 20, Dir: t.TempDir()}).New()
					if _, err := io.Copy(b, r); err != nil {
						t.Fatal(err)
					}
					if err := b.Flush(); err != nil {
						t.Fatal(err)
					}
					if got := read(t, b); got != tt.want || b.Size() != int64(len(tt.want)) ||
						b.Changed() != tt.changed {
						t.Errorf("%s: got %q (size %d, changed %v), want %q (changed %v)",
							chunk, got, b.Size(), b.Changed(), tt.want, tt.changed)
					}
					_ = b.Close()
				}
			})
		}
	}
}

func TestSpoolLeavesNoFileAndGivesBudgetBack(t *testing.T) {
	dir := t.TempDir()
	s := &Spooler{Limit: 1000, Budget: 10_000, Dir: dir}
	var open []*Spool
	for range 20 {
		b := s.New()
		if _, err := b.Write(bytes.Repeat([]byte("x"), 900)); err != nil {
			t.Fatal(err)
		}
		open = append(open, b)
	}
	if got := s.used.Load(); got > s.Budget {
		t.Errorf("%d octets held in memory, want at most the budget of %d", got, s.Budget)
	}
	if open[19].file == nil {
		t.Error("the last spool is in memory, want it in a file: the budget is used up")
	}
	if names, _ := filepath.Glob(filepath.Join(dir, "*")); len(names) > 0 && os.PathSeparator == '/' {
		t.Errorf("temporary files have names: %v, want none", names)
	}
	for _, b := range open {
		if err := b.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if got := s.used.Load(); got != 0 {
		t.Errorf("%d octets of the budget in use after all were closed, want 0", got)
	}
}

func TestHeaderText(t *testing.T) {
	tests := []struct{ name, header, want string }{
		{"plain", "Subject: Hello there", "Hello there"},
		{"folded", "Subject: Hello\r\n there", "Hello there"},
		{"utf-8 word", "Subject: =?UTF-8?B?5L2g5aW9?=", "你好"},
		{"two words join", "Subject: =?utf-8?Q?caf=C3=A9?=\r\n =?utf-8?Q?_au_lait?=", "café au lait"},
		{"character cut between words", "Subject: =?UTF-8?B?5L0=?= =?UTF-8?B?oOWlvQ==?=", "你好"},
		{"gb2312", "Subject: =?GB2312?B?xOO6ww==?=", "你好"},
		{"iso-2022-jp", "Subject: =?ISO-2022-JP?B?GyRCRnxLXDhsGyhC?=", "日本語"},
		{"iso-8859-2", "Subject: =?iso-8859-2?Q?Za=BF=F3=B3=E6_g=EA=B6l=B1?=", "Zażółć gęślą"},
		{"Windows-1252 that is called iso-8859-1", "Subject: =?iso-8859-1?Q?O=92Brien_=96_=8050?=", "O’Brien – €50"},
		{"Windows-1254 that is called iso-8859-9", "Subject: =?ISO-8859-9?Q?=93du=FE=94?=", "“duş”"},
		{"cp932", "Subject: =?cp932?B?ikqS7A==?=", "開廷"},
		{"ASCII of the C locale that is UTF-8", "Subject: =?ANSI_X3.4-1968?Q?M=C3=BCnchen?=", "München"},
		{"raw utf-8", "Subject: Zażółć", "Zażółć"},
		{
			"raw latin-2 with the body's charset",
			"Content-Type: text/plain; charset=iso-8859-2\r\nSubject: Za\xbf\xf3\xb3\xe6", "Zażółć",
		},
		{"raw utf-8 with an octet that is none", "Subject: 開廷 \xe9", "開廷 \uFFFD"},
		{"utf-8 that is cut", "Subject: =?utf-8?Q?=E9=96=8B=E5=BB=B7=E9?= x", "開廷\uFFFD x"},
		{"latin-1 that is called utf-8", "Subject: =?utf-8?Q?caf=E9?=", "café"},
		{"raw latin-1 without any", "Subject: caf\xe9", "café"},
		{"raw iso-2022-jp", "Subject: \x1b$BF|K\\8l\x1b(B ok", "日本語 ok"},
		{"unknown charset", "Subject: =?x-unknown?Q?abc?=", "abc"},
		{"broken base64", "Subject: =?utf-8?B?!!!?= x", "x"},
		{"text between words stays", "Subject: =?utf-8?Q?a?= and =?utf-8?Q?b?=", "a and b"},
		{"equals sign at the end", "Subject: =?utf-8?Q?a=?=", "a="},
		{"language tag", "Subject: =?us-ascii*en?Q?hi?=", "hi"},
		{"control characters go", "Subject: a\x1b[31mb\x00c", "a[31mbc"},
		{"after a line that is no field", "From someone\r\nSubject: x", "x"},
		{"space before the colon", "Subject : x", "x"},
		{"missing", "X: y", ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := parse(t, tt.header+"\r\n\r\nbody").Subject(); got != tt.want {
				t.Errorf("Subject() = %q, want %q", got, tt.want)
			}
		})
	}
}

func TestAddresses(t *testing.T) {
	tests := []struct {
		name, from string
		want       []Address
	}{
		{"plain", "a@x.example", []Address{{"", "a@x.example"}}},
		{
			"named", `"Doe, Jane" <j@x.example>, b@y.example`,
			[]Address{{"Doe, Jane", "j@x.example"}, {"", "b@y.example"}},
		},
		{"encoded name", "=?GB2312?B?xOO6ww==?= <a@x.example>", []Address{{"你好", "a@x.example"}}},
		{"unknown charset in the name", "=?x-nope?Q?hi?= <a@x.example>", []Address{{"hi", "a@x.example"}}},
		{"group", "team: a@x.example, b@x.example;", []Address{{"", "a@x.example"}, {"", "b@x.example"}}},
		{"control characters in a name", "\"A\x07\x7f, B\" <a@x.example>", []Address{{"A, B", "a@x.example"}}},
		{"control characters in an address", "<a\x00b@x.example>", []Address{{"", "ab@x.example"}}},
		{"broken", "John Doe a@x.example, <b@y.example", []Address{{"", "a@x.example"}, {"", "b@y.example"}}},
		{
			"an address for a name", "judge@court.example <a@x.example>, b@court.example c@x.example",
			[]Address{{"", "a@x.example"}, {"", "b@court.example"}, {"", "c@x.example"}},
		},
		{
			"a name with an address, and what breaks the grammar",
			`"judge@court.example, " (x@court.example) <a@x.example> .;`,
			[]Address{{"", "a@x.example"}},
		},
		{
			"an encoded name with an address, and what breaks the grammar",
			"=?utf-8?q?judge@court.example?= <a@x.example> .",
			[]Address{{"", "a@x.example"}},
		},
		{"a comment before the @", "Alice <alice(c)@court.example>", []Address{{"", "alice@court.example"}}},
		{
			"white space at the @, and an address for a name", "judge@court.example <a @\tx.example>",
			[]Address{{"", "a@x.example"}},
		},
		{"none", "nobody", nil},
		{"an encoded word in quotes", `"=?utf-8?B?5L2g5aW9?=" <a@x.example>`, []Address{{"你好", "a@x.example"}}},
		{
			"an encoded word in quotes, with text and a comma",
			`"=?utf-8?Q?M=C3=BCller=2C?= Jane" <a@x.example>, b@y.example`,
			[]Address{{"Müller, Jane", "a@x.example"}, {"", "b@y.example"}},
		},
		{
			"a character in two encoded words", "=?utf-8?B?5L0=?= =?utf-8?B?oA==?= <a@x.example>",
			[]Address{{"你", "a@x.example"}},
		},
		{
			"raw octets in an encoded word", "=?gb2312?Q?\xc4\xe3\xba\xc3?= <a@x.example>",
			[]Address{{"你好", "a@x.example"}},
		},
		{
			"raw octets beside an encoded word", "=?utf-8?Q?Zo=C3=AB?= Andr\xe9 <a@x.example>",
			[]Address{{"Zoë André", "a@x.example"}},
		},
		{"a comma in an encoded word", "=?utf-8?Q?Doe,_Jane?= <a@x.example>", []Address{{"Doe, Jane", "a@x.example"}}},
		{
			"an encoded word that pretends to be a mailbox", `=?utf-8?Q?a"?= <judge@court.example>, b?= <a@x.example>`,
			[]Address{{"", "judge@court.example"}, {"", "a@x.example"}},
		},
		{
			"an address like an encoded word", "=?utf-8?q?a?=@x.example, =?7?=@x.example",
			[]Address{{"", "=?utf-8?q?a?=@x.example"}, {"", "=?7?=@x.example"}},
		},
		{"no end of the quotes", `"Doe (judge@court.example) <a@x.example>`, []Address{{"", "a@x.example"}}},
		{
			"quotes that are escaped", `\"()\"() judge@court.example "\" b@x.example" <a@x.example`,
			[]Address{{"", "a@x.example"}},
		},
		{"raw latin-1 name", "Andr\xe9 <a@x.example>", []Address{{"André", "a@x.example"}}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := parse(t, "From: "+tt.from+"\r\n\r\n").Header.Addresses("From")
			if len(got) != len(tt.want) {
				t.Fatalf("Addresses = %v, want %v", got, tt.want)
			}
			for i := range got {
				if got[i] != tt.want[i] {
					t.Errorf("address %d = %v, want %v", i, got[i], tt.want[i])
				}
			}
		})
	}
}

func TestFingerprint(t *testing.T) {
	const base = "From: a@x.example\r\nDate: Fri, 20 Nov 2026 10:00:00 +0000\r\nSubject: alert\r\n\r\ndisk full\r\n"
	same := map[string]string{
		"line ends":        strings.ReplaceAll(base, "\r\n", "\n"),
		"field of a store": "X-UID: 7\r\n" + strings.Replace(base, "Subject:", "Status: RO\r\nSubject:", 1),
	}
	other := map[string]string{
		"body":     strings.Replace(base, "full", "fine", 1),
		"subject":  strings.Replace(base, "alert", "Alert", 1),
		"received": "Received: from x\r\n" + base,
		"moved boundary between header and body": strings.Replace(base, "Subject: alert\r\n\r\n",
			"\r\nSubject: alert\r\n", 1),
	}
	want := parse(t, base).Fingerprint
	for name, raw := range same {
		if parse(t, raw).Fingerprint != want {
			t.Errorf("%s: another fingerprint, want the same", name)
		}
	}
	for name, raw := range other {
		if parse(t, raw).Fingerprint == want {
			t.Errorf("%s: the same fingerprint, want another", name)
		}
	}
	if a, b := Outline(time.Unix(1, 0), 5), Outline(time.Unix(1, 0), 6); a == b || a != Outline(time.Unix(1, 999), 5) {
		t.Error("Outline is wrong, want it to differ by size and not by fractions of a second")
	}
}

func TestParseNeverFails(t *testing.T) {
	for name, raw := range map[string]string{
		"empty": "", "no header": "hello", "starts with an empty line": "\r\nhello", "only a header": "A: b",
		"continuation first": " x\r\nSubject: y\r\n\r\n", "colon only": ":\r\n\r\n",
		"binary":                               "\x00\xff\xfe\r\n\r\n\x00",
		"long line":                            "Subject: " + strings.Repeat("x", 200_000) + "\r\n\r\n",
		"line as long as the buffer, then end": "A: " + strings.Repeat("x", 32<<10-3) + "\r\nSubject: y\r\n\r\n",
		"huge header": strings.Repeat("A: "+strings.Repeat("x", 990)+"\r\n", 3000) +
			"\r\nbody",
	} {
		t.Run(name, func(t *testing.T) {
			m := parse(t, raw)
			m.Content(t.Context())
			if strings.HasPrefix(name, "line as long") && m.Subject() != "y" {
				t.Errorf("Subject() = %q, want y", m.Subject())
			}
		})
	}
}

func TestHasAttachment(t *testing.T) {
	const multi = "Content-Type: multipart/mixed; boundary=b\r\n\r\n--b\r\nContent-Type: text/plain\r\n\r\nhi\r\n" +
		"--b\r\n%s\r\n\r\nx\r\n--b--\r\n"
	tests := []struct {
		name, part string
		want       bool
	}{
		{"disposition", "Content-Disposition: attachment", true},
		{"named pdf", "Content-Type: application/pdf; name=a.pdf", true},
		{"inline text", "Content-Type: text/plain; name=a.txt\r\nContent-Disposition: inline", false},
		{"second body", "Content-Type: text/html", false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			m := parse(t, strings.Replace(multi, "%s", tt.part, 1))
			if got := m.Content(t.Context()).HasAttachment; got != tt.want {
				t.Errorf("HasAttachment = %v, want %v", got, tt.want)
			}
		})
	}
}

// TestDeepNesting checks that the search in nested parts ends at a limit.
func TestDeepNesting(t *testing.T) {
	var b strings.Builder
	for i := range 2000 {
		fmt.Fprintf(&b, "Content-Type: multipart/mixed; boundary=b%d\r\n\r\n--b%d\r\n", i, i)
	}
	b.WriteString("Content-Disposition: attachment\r\n\r\nx\r\n")
	if parse(t, b.String()).Content(t.Context()).HasAttachment {
		t.Error("an attachment was found 2000 levels down, want the search to end earlier")
	}
}

// TestMemoryOfShortFields checks that a header of nothing but short fields takes little more memory
// than its size.
func TestMemoryOfShortFields(t *testing.T) {
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	m := parse(t, strings.Repeat("a:\r\n", maxHeader/4)+"\r\n")
	runtime.GC()
	runtime.ReadMemStats(&after)
	if used := int64(after.HeapAlloc) - int64(before.HeapAlloc); used > 4<<20 {
		t.Errorf("it takes %d KiB, want at most 4 MiB for a header of 1 MiB", used>>10)
	}
	runtime.KeepAlive(m)
}

// TestCharsetIsReadOnce checks that decoding a header does not parse the charset once for each of
// its words.
func TestCharsetIsReadOnce(t *testing.T) {
	const words, params = 1000, 1000
	var b strings.Builder
	b.WriteString("Content-Type: text/plain")
	for i := range params {
		fmt.Fprintf(&b, "; p%d=x", i)
	}
	b.WriteString("\r\nSubject: " + strings.Repeat("\xff=?utf-8?Q?a?=", words) + "\r\n\r\n")
	m := parse(t, b.String())
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	m.Subject()
	runtime.ReadMemStats(&after)
	if used := after.TotalAlloc - before.TotalAlloc; used > 40<<10*words {
		t.Errorf("%d octets allocated for a subject of %d words, "+
			"want at most 40 KiB for each: is another field parsed for each of them?", used, words)
	}
}

// TestCorpus runs every message of the shared corpus through the parser, when the corpus is there.
func TestCorpus(t *testing.T) {
	files, _ := filepath.Glob("../../../shared/corpus/*/*/*.eml")
	if len(files) == 0 {
		t.Skip("the shared corpus is not there")
	}
	for _, f := range files {
		raw, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		m := parse(t, string(raw))
		m.Content(t.Context())
		for _, v := range []string{m.Subject(), m.From(), m.MessageID()} {
			if strings.ContainsAny(v, "\r\n") {
				t.Errorf("%s: a value is %q, want it without line ends", f, v)
			}
		}
	}
}

// TestSpoolError: the fix is about the disk, unless the error is not.
func TestSpoolError(t *testing.T) {
	for err, want := range map[error]string{
		syscall.ENOSPC: "free disk space there", syscall.EMFILE: "(raise the limit of open files)",
	} {
		if got := spoolErr(err).Error(); !strings.Contains(got, want) {
			t.Errorf("the error is %q, want %q in it", got, want)
		}
	}
}
