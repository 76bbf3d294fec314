package forward

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"postrider/internal/dkim"
	"postrider/internal/testserver/effort"
)

// TestRewriteEightBit: a message with 8-bit content is rewritten for a relay with 8BITMIME, and
// attached for another.
func TestRewriteEightBit(t *testing.T) {
	const want = "attached instead of rewritten: it has 8-bit content, and the relay does not offer 8BITMIME"
	c := composer(t, ComposeConfig{})
	for _, file := range []string{"8-bit-body-utf-8", "8-bit-parts", "8-bit-signed", "8-bit-and-nul"} {
		t.Run(file, func(t *testing.T) {
			raw, err := os.ReadFile("testdata/odd/" + file + ".eml")
			if err != nil {
				t.Fatal(err)
			}
			m := parse(t, string(raw))
			out := compose(t, c, m, Style{Mode: Rewrite})
			if !out.eight || out.Mode != Rewrite || out.Remark != "" {
				t.Errorf("for a relay with 8BITMIME: mode %s, %q; want rewrite without a remark", out.Mode, out.Remark)
			}
			for out.eight {
				out = other(t, out)
			}
			if out.Mode != Attach || out.Remark != want {
				t.Errorf("for a relay without 8BITMIME: mode %s, %q; want attach, %q", out.Mode, out.Remark, want)
			}
			arrival{file, out.Mode, octetsOf(t, m.Body.Reader()), octetsOf(t, out.Reader())}.check(t)
		})
	}
}

// TestRewriteEncodedNames: names in encoded words that are quoted, or hold raw octets, are decoded
// as the subject is.
func TestRewriteEncodedNames(t *testing.T) {
	m := parse(t, "From: \"=?utf-8?B?5L2g5aW9?=\" <a@client.example>\r\n"+
		"To: =?gb2312?Q?\xc4\xe3?= <b@client.example>\r\n\r\nx\r\n")
	raw := octetsOf(t, compose(t, composer(t, ComposeConfig{}), m, Style{Mode: Rewrite}).Reader())
	h := parse(t, raw).Header
	for field, want := range map[string]string{"From": "你好 via ", "Reply-To": "你好", "To": "你"} {
		if got := h.Addresses(field); len(got) != 1 || !strings.HasPrefix(got[0].Name, want) {
			t.Errorf("%s has the mailboxes %v, want one whose name begins with %q", field, got, want)
		}
	}
}

// TestRewriteSpacesBeforeColons: they are left out. Some verifiers do not read a header with one.
func TestRewriteSpacesBeforeColons(t *testing.T) {
	m := parse(t, "From : a@client.example\r\nTo\t: b@client.example\r\nX-Q : 1\r\n\r\nx\r\n")
	out := octetsOf(t, compose(t, composer(t, ComposeConfig{}), m, Style{Mode: Rewrite}).Reader())
	head, _, _ := strings.Cut(out, "\r\n\r\n")
	checkComposed(t, head)
}

// TestRewriteUnwieldyHeader: what takes a signer or a verifier too long is attached.
func TestRewriteUnwieldyHeader(t *testing.T) {
	z := zone{}
	key, err := dkim.Load("client.example", "ed25519", keyFile(t, keys(t, z)["ed25519"]))
	if err != nil {
		t.Fatal(err)
	}
	c := composer(t, ComposeConfig{Key: key})
	for name, raw := range map[string]string{
		"lines":                "To: b@client.example" + strings.Repeat(",\r\n ", 50_000),
		"text to be encoded":   "Subject: " + strings.Repeat("\u00fc", 100<<10),
		"names to be encoded":  "To: " + strings.Repeat("\u00fc<a@b>,", 20_000),
		"a long line of ASCII": "To: " + strings.Repeat("a@b,", 50_000),
	} {
		t.Run(name, func(t *testing.T) {
			raw := "From: a@client.example\r\n" + raw + "\r\n\r\nx\r\n"
			effort.Within(t, len(raw), func() {
				out := compose(t, c, parse(t, raw), Style{Mode: Rewrite})
				const want = "attached instead of rewritten: its header has a field of too many lines"
				if out.Mode != Attach || out.Remark != want {
					t.Errorf("it goes out in mode %s, %q; want attach, %q", out.Mode, out.Remark, want)
				}
			})
		})
	}
}

// TestRewriteManyFields: a header of which only the beginning was parsed is not written again, and
// is attached as octets: what follows may be no fields.
func TestRewriteManyFields(t *testing.T) {
	m := parse(t, "From: a@client.example\r\n"+strings.Repeat("X:\r\n", 10_000)+"Subject: y\r\n\r\nx\r\n")
	out := compose(t, composer(t, ComposeConfig{}), m, Style{Mode: Rewrite})
	const want = "attached instead of rewritten: its header has too many fields"
	if out.Mode != Attach || out.Remark != want {
		t.Errorf("it goes out in mode %s, %q; want attach, %q", out.Mode, out.Remark, want)
	}
	if raw := octetsOf(t, out.Reader()); !strings.Contains(raw, "application/octet-stream") {
		t.Errorf("it is attached as\n%.1000s\nwant application/octet-stream", raw)
	}
}

// TestRewriteLongNames: a field with a long name keeps its value, and no line becomes too long. If
// the name alone is too long for a line, the message is attached.
func TestRewriteLongNames(t *testing.T) {
	c := composer(t, ComposeConfig{})
	const tooLong = "attached instead of rewritten: its header has a field whose name is too long to encode its value"
	for what, value := range map[string]string{
		"words":         "Gr\u00fc\u00dfe aus K\u00f6ln",
		"one long word": strings.Repeat("\u00fc", 450),
		"latin-1":       "Gr\xfc\xdfe",
	} {
		for _, n := range []int{59, 60, 61, 72, 73, 74, 75, 76, 80, 200, 900, 997, 998, 1000} {
			t.Run(fmt.Sprintf("%s, %d octets", what, n), func(t *testing.T) {
				name := "X-" + strings.Repeat("a", n-2)
				m := parse(t, "From: a@client.example\r\n"+name+": "+value+"\r\nSubject: x\r\n\r\nx\r\n")
				out := compose(t, c, m, Style{Mode: Rewrite})
				raw := octetsOf(t, out.Reader())
				for line := range strings.Lines(raw) {
					if len(line) > maxLine+len("\r\n") {
						t.Errorf("a line has %d octets, want at most %d", len(line)-len("\r\n"), maxLine)
					}
				}
				if n >= maxLine {
					if out.Mode != Attach || out.Remark != tooLong {
						t.Errorf("it goes out in mode %s, %q; want attach, %q", out.Mode, out.Remark, tooLong)
					}
					return
				}
				h := parse(t, raw).Header
				if got, want := h.Text(name), m.Header.Text(name); got != want || out.Mode != Rewrite {
					t.Errorf("it goes out in mode %s with the value %q, want rewrite with %q", out.Mode, got, want)
				}
				if got := h.Text("Subject"); got != "x" {
					t.Errorf("the field behind it is %q, want %q", got, "x")
				}
			})
		}
	}
}

// TestRewriteLongLines: no line of the header is longer than 998 octets, or of white space only,
// and the values stay.
func TestRewriteLongLines(t *testing.T) {
	xs := strings.Repeat("x", 100)
	list := strings.TrimSuffix(strings.Repeat("somebody@client.example,", 60), ",")
	for field, value := range map[string]string{
		"To":                 list,
		"Cc":                 "A B <a@client.example>," + list,
		"References":         strings.TrimSpace(strings.Repeat("<0123456789@client.example> ", 60)),
		"Subject":            strings.TrimSpace(strings.Repeat("hearing ", 200)),
		"X-Note":             strings.TrimSpace(strings.Repeat("=?utf-8?q?=C3=A4?= ", 200)),
		"X-Original-Subject": strings.Repeat("é", 600),
		"Comments":           "a" + strings.Repeat(" ", 2000) + "b",
		"Keywords":           "ä" + strings.Repeat(" ", 300) + xs + "  " + strings.Repeat("y", 100),
	} {
		author := "From: \"a" + strings.Repeat(" ", 300) + "b\" <a@client.example>\r\n"
		m := parse(t, author+field+": "+value+"\r\n\r\nx\r\n")
		out := compose(t, composer(t, ComposeConfig{}), m, Style{Mode: Rewrite})
		raw := octetsOf(t, out.Reader())
		for line := range strings.Lines(raw) {
			if s := strings.TrimRight(line, "\r\n"); len(s) > maxLine || s != "" && strings.TrimSpace(s) == "" {
				t.Errorf("%s: a line has %d octets and is %.40q, want at most %d, and not only white space",
					field, len(s), s, maxLine)
			} else if most := len(field+": ") + 75; strings.Contains(s, "?=") && len(s) > most {
				t.Errorf("%s: a line with encoded words has %d octets, want at most %d: one word", field, len(s), most)
			}
		}
		h := parse(t, raw).Header
		got, want := h.Text(field), spaced(m.Header.Text(field))
		if got != want && !addressFields[strings.ToLower(field)] || out.Mode != Rewrite {
			t.Errorf("%s: it goes out in mode %s with the value %.100q, want rewrite with %.100q",
				field, out.Mode, got, want)
		}
		if got, want := h.Addresses(field), m.Header.Addresses(field); !slices.Equal(got, want) {
			t.Errorf("%s: it has the addresses %v, want %v", field, got, want)
		}
	}
}

// TestRewriteEightBitBoundary: the body keeps the octets of the boundary, so the field cannot be
// encoded.
func TestRewriteEightBitBoundary(t *testing.T) {
	for _, boundary := range []string{`"größe"`, "größe", "\"gr\xf6\xdfe\""} {
		raw := "From: a@client.example\r\nContent-Type: multipart/mixed; boundary=" + boundary + "\r\n\r\n--x\r\n"
		out := compose(t, composer(t, ComposeConfig{}), parse(t, raw), Style{Mode: Rewrite})
		const want = "attached instead of rewritten: the boundary between its parts is not ASCII"
		if out.Mode != Attach || out.Remark != want {
			t.Errorf("boundary=%s: it goes out in mode %s, %q; want attach, %q", boundary, out.Mode, out.Remark, want)
		}
	}
}
