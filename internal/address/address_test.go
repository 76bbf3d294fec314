package address

import (
	"slices"
	"strings"
	"testing"

	"postrider/internal/testserver/effort"
)

func TestParse(t *testing.T) {
	long := strings.Repeat("x", 64)
	tests := []struct {
		text, wire string
		utf8       bool
	}{
		{"a@x.example", "a@x.example", false},
		{"a.b+c=d@x-y.example", "a.b+c=d@x-y.example", false},
		{"-a@x.example", "-a@x.example", false},
		{"a@localhost", "a@localhost", false},
		{"a@X.Example", "a@X.Example", false},
		{"a@[192.0.2.1]", "a@[192.0.2.1]", false},
		{"a@[IPv6:2001:db8::1]", "a@[IPv6:2001:db8::1]", false},
		{"a@[ipv6:2001:db8::1]", "a@[ipv6:2001:db8::1]", false},
		{`"a b"@x.example`, `"a b"@x.example`, false},
		{`"a@b, c"@x.example`, `"a@b, c"@x.example`, false},
		{`"a>\"<@\\b"@x.example`, `"a>\"<@\\b"@x.example`, false},
		{`""@x.example`, `""@x.example`, false},
		{"a@bücher.example", "a@xn--bcher-kva.example", false},
		{"a@BÜCHER.example", "a@xn--bcher-kva.example", false},
		{"a@ｘ．example", "a@x.example", false},
		{"jörg@bücher.example", "jörg@xn--bcher-kva.example", true},
		{`"jörg b"@x.example`, `"jörg b"@x.example`, true},
		{"用户@例え.example", "用户@xn--r8jz45g.example", true},
		{"a@under_score.example", "a@under_score.example", false},
		{long + "@x.example", long + "@x.example", false},
	}
	for _, tt := range tests {
		t.Run(tt.text, func(t *testing.T) {
			got, err := Parse(tt.text)
			if want := (Address{tt.text, tt.wire, tt.utf8}); err != nil || got != want {
				t.Errorf("Parse(%q) = %+v, %v, want %+v", tt.text, got, err, want)
			}
			if err := Check(tt.text); err != nil {
				t.Errorf("Check(%q) = %v, want no error, as Parse accepts it", tt.text, err)
			}
		})
	}
}

// TestNoAddress checks what Parse refuses, and with which error.
func TestNoAddress(t *testing.T) {
	tests := []struct{ name, text, says string }{
		{"nothing", "", "missing"},
		{"no @", "ann", "is not an address; write it like"},
		{"no local part", "@x.example", "before the @"},
		{"no domain", "a@", "after the @"},
		{"empty label", "a@x..example", "its domain is invalid"},
		{"dot first", "a@.example", "its domain is invalid"},
		{"dot last", "a@x.example.", "ends with a dot"},
		{"dot last, IDN", "a@bücher.example.", "ends with a dot"},
		{"two dots", "a..b@x.example", "before the @"},
		{"local dot first", ".a@x.example", "before the @"},
		{"local dot last", "a.@x.example", "before the @"},
		{"line end", "a@x.example>\r\nDATA", "invisible"},
		{"line end in the local part", "a\r\n@x.example", "invisible"},
		{"line end at the end", "a@x.example\n", "white space around"},
		{"space around", " a@x.example", "write only a@x.example"},
		{"space", "a b@x.example", "invisible character or a space"},
		{"space in the domain", "a@x example", "invisible character or a space"},
		{"brackets", "<a@x.example>", "write only a@x.example"},
		{"name", "Ann <a@x.example>", "write only a@x.example"},
		{"comment", "a@x.example (Ann)", "write only a@x.example"},
		{"two", "a@b.example, c@d.example", "several addresses"},
		{"two with a semicolon", "a@b.example;c@d.example", "before the @"},
		{"bracket", "a>@x.example", "before the @"},
		{"parameter", "a@x.example SIZE=1", "invisible character or a space"},
		{"NUL", "a\x00@x.example", "invisible"},
		{"line end in quotes", "\"a\r\nb\"@x.example", "before the @"},
		{"quote in quotes", `"a"b"@x.example`, "before the @"},
		{"open quotes", `"a\"@x.example`, "before the @"},
		{"DEL in quotes", "\"a\x7f\"@x.example", "before the @"},
		{"dash first", "a@-x.example", "its domain is invalid"},
		{"dash last", "a@x-.example", "its domain is invalid"},
		{"open literal", "a@[192.0.2.1", "its domain is invalid"},
		{"literal of no host", "a@[300.0.0.1]", "its domain is invalid"},
		{"IPv6 without its tag", "a@[2001:db8::1]", "[IPv6:2001:db8::1]"},
		{"a tag and nothing else", "a@[ipv6:]", "its domain is invalid"},
		{"IPv4 with the tag", "a@[IPv6:192.0.2.1]", "its domain is invalid"},
		{"zone", "a@[IPv6:fe80::1%eth0]", "its domain is invalid"},
		{"not UTF-8", "a\xff@x.example", "not UTF-8"},
		{"C1 control", "a\u0085@x.example", "invisible"},
		{"line separator", "a@x.ex\u2028ample", "invisible"},
		{"zero-width space", "ann\u200b@x.example", "invisible"},
		{"no-break space", "ann\u00a0b@x.example", "invisible"},
		{"byte order mark", "\ufeffann@x.example", "invisible"},
		{"text that turns around", "a\u202eb@x.example", "invisible"},
		{"no internationalized name", "a@\u0301x.example", "internationalized"},
		{"label of 64", "a@" + strings.Repeat("x", 64) + ".example", "its domain is invalid"},
		{"label of 64 once it is encoded", "a@" + strings.Repeat("ü", 60) + ".example", "its domain is invalid"},
		{"too long", strings.Repeat("x", 250) + "@x.example", "longer than mail allows"},
		{"much too long", strings.Repeat("ü", 9000) + "@x.example", "longer than mail allows"},
		{"source route", "@a.example:b@x.example", "before the @"},
		{"percent in the domain", "a@x%y.example", "a character that no domain has"},
		{"URL", "mailto:a@x.example", "before the @"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := Parse(tt.text)
			if err == nil || !strings.Contains(err.Error(), tt.says) {
				t.Errorf("Parse(%q) = %+v, %v, want an error that says %q", tt.text, got, err, tt.says)
			}
			if Check(tt.text) == nil {
				t.Errorf("Check(%q) = nil, want an error, as Parse refuses it", tt.text)
			}
		})
	}
}

// TestLongLocalPart checks that Parse accepts a local part of more than 64 octets, and Check does
// not.
func TestLongLocalPart(t *testing.T) {
	s := strings.Repeat("x", 65) + "@x.example"
	if a, err := Parse(s); err != nil || a.Wire != s {
		t.Errorf("Parse of 65 octets before the @ = %+v, %v, want no error (RFC 5321 4.5.3.1)", a, err)
	}
	if err := Check(s); err == nil || !strings.Contains(err.Error(), "longer than mail allows") {
		t.Errorf("Check of 65 octets before the @ = %v, want the error that it is too long", err)
	}
}

func TestParseNamed(t *testing.T) {
	tests := []struct{ text, name, wire string }{
		{"a@x.example", "", "a@x.example"},
		{"Ann Müller <a@bücher.example>", "Ann Müller", "a@xn--bcher-kva.example"},
		{`"Front Desk" <"front desk"@x.example>`, "Front Desk", `"front desk"@x.example`},
		{`"front desk"@x.example`, "", `"front desk"@x.example`},
		{"a@[IPv6:2001:db8::1]", "", "a@[IPv6:2001:db8::1]"},
		{"Ann", "", ""},
		{"a@b.example, c@d.example", "", ""},
		{"Ann <a@-x.example>", "", ""},
		{"", "", ""},
	}
	for _, tt := range tests {
		name, a, err := ParseNamed(tt.text)
		if (err != nil) != (tt.wire == "") || err == nil && (name != tt.name || a.Wire != tt.wire) {
			t.Errorf("ParseNamed(%q) = %q, %+v, %v, want %q and %q", tt.text, name, a, err, tt.name, tt.wire)
		}
	}
}

// FuzzParse checks that an accepted address stays between the angle brackets of MAIL and RCPT, has
// the right UTF8, and is the same when it is parsed again.
func FuzzParse(f *testing.F) {
	for _, s := range []string{
		"a@x.example", `"a b"@x.example`, "a@bücher.example", "用户@例え.example", "a@[192.0.2.1]", "a@[IPv6:2001:db8::1]",
		"a@x.example SIZE=1", "<a@x.example>", "a>b@x.example", `"a"b"@x.example`, "a\x00@x.example",
		"\"a\r\nb\"@x.example", "", "a\xff@x",
		"a@b, c@d", "Ann <a@x.example>", "a b@x.example", "a@x.example.", "ann\u200b@x.example",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		var a Address
		var err error
		effort.Within(t, len(s), func() {
			a, err = Parse(s)
			_, _, _ = ParseNamed(s)
		})
		if err != nil {
			checkLine(t, err.Error())
			if Check(s) == nil {
				t.Errorf("Check(%q) = nil, want an error, as Parse refuses it", s)
			}
			return
		}
		if strings.ContainsFunc(a.Wire, func(r rune) bool { return r != ' ' && invisible(r) }) ||
			len(a.Wire) > maxWhole {
			t.Errorf("Parse(%q).Wire = %q, want at most 254 octets of UTF-8 without invisible characters", s, a.Wire)
		}
		if a.UTF8 == ascii(a.Wire) || a.Text != s {
			t.Errorf("Parse(%q) = %+v, want UTF8 when it is not ASCII, and Text unchanged", s, a)
		}
		if rest, ok := readPath("<" + a.Wire + "> SIZE=1"); !ok || rest != " SIZE=1" {
			t.Errorf("a server reads <%s> and has %q left, want the rest to be after the closing bracket", a.Wire, rest)
		}
		if again, err := Parse(a.Wire); err != nil || again.Wire != a.Wire {
			t.Errorf("Parse(%q).Wire = %q (%v), want no change", a.Wire, again.Wire, err)
		}
		if _, named, err := ParseNamed("<" + a.Wire + ">"); err == nil && named.Wire != a.Wire && a.Wire[0] != '"' {
			t.Errorf("ParseNamed(<%s>) = %q, want the same address", a.Wire, named.Wire)
		}
	})
}

func checkLine(t *testing.T, s string) {
	t.Helper()
	if strings.ContainsAny(s, "\r\n\x00") {
		t.Errorf("the error is %q, want one line", s)
	}
}

// readPath reads a path as a server does (RFC 5321 4.1.2), and returns what follows it.
func readPath(s string) (rest string, ok bool) {
	quoted := false
	for i := 1; i < len(s); i++ {
		switch c := s[i]; {
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case quoted:
		case c == ' ' || c == '<':
			return s[i:], false
		case c == '>':
			return s[i+1:], true
		}
	}
	return "", false
}

// TestKey checks that all spellings of an address have one key, and other addresses another.
func TestKey(t *testing.T) {
	for _, same := range [][]string{
		{"a.b@x.example", "A.B@X.Example", `"a.b"@x.example`, `"\a.b"@x.example`},
		{"a@bücher.example", "a@BÜCHER.example", "A@xn--bcher-kva.example"},
		{`"a b"@x.example`, `"a\ B"@x.example`},
		{`"a..b"@x.example`},
		{`"\"a\""@x.example`},
		{`"jörg"@x.example`, "JÖRG@x.example"},
		{`""@x.example`},
		{`"a@b"@x.example`},
		{`"a\\b"@x.example`},
	} {
		for _, other := range []string{same[0], "a@x.example", `"a b"@x.example`, `"a\"b"@x.example`} {
			for _, text := range same {
				a, b := key(t, text), key(t, other)
				if want := slices.Contains(same, other); (a == b) != want {
					t.Errorf("the keys of %s and %s are %s and %s, want them equal: %v", text, other, a, b, want)
				}
			}
		}
	}
}

func key(t *testing.T, text string) string {
	t.Helper()
	a, err := Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return a.Key()
}

func TestMailbox(t *testing.T) {
	for in, want := range map[string]string{
		"Ann@Example.COM": "Ann@example.com", "a@B@C.D": "a@B@c.d", "ann": "ann", "": "", "@X": "@x",
		"Jörg@BÜCHER.example": "Jörg@xn--bcher-kva.example", "a@XN--Bcher-KVA.example": "a@xn--bcher-kva.example",
		"a@straße.example": "a@xn--strae-oqa.example", "a@strasse.example": "a@strasse.example",
		"a@ısparta.example": "a@xn--sparta-o9a.example",
		"a@ü b.EXAMPLE":     "a@ü b.example", "a@[IPv6:2001:DB8::1]": "a@[ipv6:2001:db8::1]",
	} {
		if got := Mailbox(in); got != want || Mailbox(got) != got {
			t.Errorf("the mailbox of %q is %q, and of that %q, want %q", in, got, Mailbox(got), want)
		}
	}
}

// TestUnicodeDomain checks that spellings of a domain are equal, and that domains which a person
// may take for each other are not.
func TestUnicodeDomain(t *testing.T) {
	for in, want := range map[string]string{
		"X.Example.": "x.example", "*": "*", "*.Example": "*.example", "a_b.example": "a_b.example", "": "",
		"BÜCHER.example.": "bücher.example", "XN--Bcher-KVA.example": "bücher.example",
		"bu\u0308cher。example": "bücher.example", "*.BÜ?cher.*": "*.bü?cher.*",
		"ΟΔΟΣ.example": "οδοσ.example", "r3---ü.example": "r3---ü.example",
		"straße.example": "straße.example", "xn--strae-oqa.example": "straße.example",
		"STRASSE.example": "strasse.example", "ısparta.example": "ısparta.example",
		"İsparta.example": "i\u0307sparta.example", "ISPARTA.example": "isparta.example",
		"xn--firm-.Example": "xn--firm-.example", "xn--bcher-*.example": "xn--bcher-*.example",
	} {
		if got := UnicodeDomain(in); got != want {
			t.Errorf("UnicodeDomain(%q) = %q, want %q", in, got, want)
		}
	}
}

func TestIsLoopback(t *testing.T) {
	for host, want := range map[string]bool{
		"localhost": true, "LOCALHOST": true,
		"127.0.0.1": true, "127.9.9.9": true, "::1": true, "::ffff:127.0.0.1": true,
		"": false, "localhost.example": false, "128.0.0.1": false, "::2": false,
		"127.0.0.1.example": false, "127.1": false,
	} {
		if got := IsLoopback(host); got != want {
			t.Errorf("IsLoopback(%q) = %v, want %v", host, got, want)
		}
	}
}
