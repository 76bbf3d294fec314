package message

import (
	"bufio"
	"bytes"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"postrider/internal/testserver/effort"
)

// canonical computes what a spool has to store, independently of Spool.
var canonical = strings.NewReplacer("\r\n", "\r\n", "\r", "\r\n", "\n", "\r\n")

// FuzzSpool checks that a spool stores the message with CRLF line ends, wherever the writes split
// it, in memory and in a file, and that storing the result again changes nothing.
func FuzzSpool(f *testing.F) {
	for _, s := range []string{"", "a\r\nb", "a\nb\rc\r\n", "\r", "\r\r\n", "\n\r", "\xff\x00\n"} {
		f.Add(s, uint(1), false)
		f.Add(s, uint(2), true)
	}
	dir := f.TempDir()
	f.Fuzz(func(t *testing.T, raw string, cut uint, inFile bool) {
		spooler := &Spooler{Limit: 1 << 20, Budget: 16 << 20, Dir: dir}
		if inFile {
			spooler.Limit = 4
		}
		cut %= uint(len(raw)) + 1
		want := canonical.Replace(raw)
		for name, parts := range map[string][]string{"cut": {raw[:cut], raw[cut:]}, "again": {want}} {
			b := spooler.New()
			b.Expect(int64(cut))
			for _, p := range parts {
				if n, err := b.Write([]byte(p)); n != len(p) || err != nil {
					t.Fatalf("%s: Write = %d, %v, want all %d octets taken", name, n, err, len(p))
				}
			}
			if err := b.Flush(); err != nil {
				t.Fatal(err)
			}
			got, err := io.ReadAll(b.Reader())
			if err != nil || string(got) != want || b.Size() != int64(len(want)) {
				t.Errorf("%s: the spool holds %q, size %d (%v), want %q", name, got, b.Size(), err, want)
			}
			if changed := name == "cut" && want != raw; b.Changed() != changed {
				t.Errorf("%s: Changed = %v, want %v", name, b.Changed(), changed)
			}
			if eight := strings.ContainsFunc(raw, func(r rune) bool { return r >= 0x80 }); b.Has8bit() != eight {
				t.Errorf("%s: Has8bit = %v, want %v", name, b.Has8bit(), eight)
			}
			if err := b.Close(); err != nil || spooler.used.Load() != 0 {
				t.Errorf("%s: Close = %v, %d octets of the budget in use, want 0", name, err, spooler.used.Load())
			}
		}
	})
}

// FuzzParse checks that Parse accepts every message, and that no parsed value contains control
// characters.
func FuzzParse(f *testing.F) {
	for _, s := range []string{
		"", "\r\n", "A: b", "From x\nSubject: y\n\nz", " folded\r\nA: b\r\n c\r\n\r\n",
		"Subject: =?utf-8?B?5L0=?= =?UTF-8?B?oOWlvQ==?=\n\n",
		"From: \"=?iso-2022-jp?B?GyRCRnxLXDhsGyhC?=\" <a@x.example>, g: b@y.example;\n\n",
		"Content-Type: multipart/mixed; boundary=b\n\n--b\nContent-Disposition: attachment\n\nx\n--b--\n",
	} {
		f.Add(s)
	}
	addCorpus(f)
	f.Fuzz(func(t *testing.T, raw string) {
		m := spooled(t, raw)
		want := canonical.Replace(raw)
		checkOrder(t, want, m.Header)
		for _, h := range m.Header.fields {
			checkField(t, m.Header, h.name)
		}
		checkOneLine(t, "From", m.From())
		if d := m.Date(); !d.IsZero() && (d.Year() < 1970 || d.Year() > 9999) {
			t.Errorf("Date = %v, want zero or a year from 1970 to 9999", d)
		}
		effort.Within(t, len(raw), func() { checkContent(t, m.Content(t.Context())) })
		effort.Within(t, len(raw), func() { _, _ = m.Parts(t.Context()) })
		forms := map[string]string{"canonical": want, "with bare LFs": strings.ReplaceAll(want, "\r\n", "\n")}
		if !strings.HasPrefix(raw, " ") && !strings.HasPrefix(raw, "\t") {
			forms["with a field of a mail store"] = "X-UID: 7\r\n" + want
		}
		for name, s := range forms {
			if spooled(t, s).Fingerprint != m.Fingerprint {
				t.Errorf("the message %s has another fingerprint, want the same", name)
			}
		}
	})
}

// checkContent checks that the text is bounded UTF-8 and that every name is one line.
func checkContent(t *testing.T, c Content) {
	t.Helper()
	if !utf8.ValidString(c.Text) || len(c.Text) > maxText {
		t.Errorf("%d octets of text, valid UTF-8: %v; want UTF-8 of at most %d",
			len(c.Text), utf8.ValidString(c.Text), maxText)
	}
	for _, name := range append(c.Attachments, c.Incomplete, c.Unread) {
		checkOneLine(t, "Content", name)
	}
}

// addCorpus adds the small messages of the shared corpus, when the corpus is there.
func addCorpus(f *testing.F) {
	files, _ := filepath.Glob("../../../shared/corpus/*/*/*.eml")
	for _, name := range files {
		if raw, err := os.ReadFile(name); err == nil && len(raw) < 4<<10 {
			f.Add(string(raw))
		}
	}
}

// spooled returns a message in memory. It needs no Close.
func spooled(t *testing.T, raw string) *Message {
	t.Helper()
	b := (&Spooler{Limit: 16 << 20, Budget: 64 << 20}).New()
	if _, err := io.WriteString(b, raw); err != nil {
		t.Fatal(err)
	}
	m, err := Parse(b)
	if err != nil {
		t.Fatalf("Parse = %v, want no error for any content", err)
	}
	return m
}

// checkOrder checks that the fields are consecutive pieces of the message, without a gap, in order.
func checkOrder(t *testing.T, octets string, h Header) {
	t.Helper()
	fields, err := readHeader(bufio.NewReader(strings.NewReader(octets)))
	if err != nil {
		t.Fatal(err)
	}
	var all []byte
	var names []string
	for _, f := range fields {
		all = append(all, f.Raw...)
		if f.Name != "" {
			names = append(names, f.Name)
		}
	}
	if !bytes.HasPrefix([]byte(octets), all) {
		t.Errorf("the fields joined are %q, want the beginning of the message", all)
	}
	if len(names) != len(h.fields) {
		t.Fatalf("%d fields, want %d", len(h.fields), len(names))
	}
	for i, f := range h.fields {
		if f.name != names[i] || strings.ToLower(f.name) != f.name {
			t.Errorf("field %d is %q, want %q", i, f.name, names[i])
		}
	}
}

func checkField(t *testing.T, h Header, name string) {
	t.Helper()
	values, texts := h.Values(name), h.Texts(name)
	if len(values) == 0 || len(texts) != len(values) || h.Get(name) != values[0] ||
		strings.TrimSpace(invisible.Replace(h.Text(name))) != texts[0] {
		t.Fatalf("%s has %d values and %d texts, want the same number, "+
			"and the first equal to Get, and to Text without invisible characters",
			name, len(values), len(texts))
	}
	for i := range values {
		if strings.ContainsAny(values[i], "\r\n") {
			t.Errorf("the value of %s is %q, want it without line ends", name, values[i])
		}
		checkOneLine(t, name, texts[i])
	}
	for _, a := range h.Addresses(name) {
		checkOneLine(t, "the name in "+name, a.Name)
		checkOneLine(t, "the address in "+name, a.Addr)
	}
}

func checkOneLine(t *testing.T, what, s string) {
	t.Helper()
	if !utf8.ValidString(s) || strings.ContainsFunc(s, unicode.IsControl) {
		t.Errorf("%s is %q, want UTF-8 without control characters", what, s)
	}
}
