package forward

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"postrider/internal/testserver"
)

// mailboxOf is one with a name.
func mailboxOf(name, addr string) testserver.Mailbox {
	return testserver.Mailbox{Name: name, Addr: addr}
}

func authors(of ...testserver.Mailbox) []testserver.Mailbox { return of }

// alice is what a From field means that has one name, and the address alice@x.example.
func alice(name string) []testserver.Mailbox {
	return []testserver.Mailbox{mailboxOf(name, "alice@x.example")}
}

const aliceAt = " <alice@x.example>"

// authorField is a From field as an author writes it, and what it means.
type authorField struct {
	name, raw string
	want      []testserver.Mailbox
	from      string // the name in our From, before "via"; empty for the first name of want
}

// via is the name in our From.
func (f authorField) via() string {
	switch {
	case f.want == nil:
		return "Intake"
	case f.from == "":
		return f.want[0].Name + " via Intake"
	}
	return f.from + " via Intake"
}

// authorFields are From fields as authors write them, and what they mean.
var authorFields = []authorField{
	{"a word", "Alice" + aliceAt, alice("Alice"), ""},
	{"no name", "alice@x.example", alice(""), "alice at x.example"},
	{"an empty name", `""` + aliceAt, alice(""), "alice at x.example"},
	{"a blank name", `" "` + aliceAt, alice(""), "alice at x.example"},
	{"a name in a comment", "alice@x.example (Alice Example)", alice("Alice Example"), ""},
	{"a comment beside the name", "Alice (sales)" + aliceAt, alice("Alice"), ""},

	{"an encoded word", "=?utf-8?q?J=C3=B6rg?=" + aliceAt, alice("Jörg"), ""},
	{"an encoded word in quotes", `"=?utf-8?B?5L2g5aW9?="` + aliceAt, alice("你好"), ""},
	{"two in quotes", `"=?utf-8?Q?J=C3=B6rg?= =?utf-8?Q?_M=C3=BCller?="` + aliceAt, alice("Jörg Müller"), ""},
	{"a comma in an encoded word in quotes", `"=?utf-8?Q?M=C3=BCller=2C_Jan?="` + aliceAt, alice("Müller, Jan"), ""},
	{"a bare comma in an encoded word", "=?utf-8?Q?M=C3=BCller, Jan?=" + aliceAt, alice("Müller, Jan"), ""},
	{"quotes in an encoded word", "=?utf-8?Q?J=C3=B6rg_=22JM=22?=" + aliceAt, alice(`Jörg "JM"`), ""},
	{
		"an address in an encoded word", "=?utf-8?Q?boss=40firm.example_=3Cboss=40firm.example=3E?=" + aliceAt,
		alice("boss@firm.example <boss@firm.example>"), "boss at firm.example <boss at firm.example>",
	},
	{"a character in two encoded words", "=?utf-8?q?J=C3?= =?utf-8?q?=B6rg?=" + aliceAt, alice("Jörg"), ""},
	{"encoded words and bare ones", "Dr. =?utf-8?q?J=C3=B6rg?= Example" + aliceAt, alice("Dr. Jörg Example"), ""},
	{
		"an encoded word of an encoded word", "=?utf-8?q?=3D=3Futf-8=3Fq=3Fx=3F=3D?=" + aliceAt,
		alice("= ?utf-8?q?x?="), "",
	},
	{"an encoded word in GB 2312", "=?gb2312?B?xOO6ww==?=" + aliceAt, alice("你好"), ""},
	{"an encoded word in an unknown charset", "=?klingon?Q?Alice?=" + aliceAt, alice("Alice"), ""},
	{"an encoded word with broken octets", "=?utf-8?q?A=FFb?=" + aliceAt, alice("Aÿb"), ""},

	{"raw UTF-8", "Jörg Müller" + aliceAt, alice("Jörg Müller"), ""},
	{"raw UTF-8 in quotes, with a comma", `"Müller, Jörg"` + aliceAt, alice("Müller, Jörg"), ""},
	{"raw Latin 1", "J\xf6rg M\xfcller" + aliceAt, alice("Jörg Müller"), ""},
	{"raw Latin 1 in quotes, with a comma", "\"M\xfcller, J\xf6rg\"" + aliceAt, alice("Müller, Jörg"), ""},
	{"raw ISO-2022-JP", "\x1b$B;3ED\x1b(B" + aliceAt, alice("山田"), ""},
	{"raw and encoded", "=?utf-8?q?J=C3=B6rg?= Müller" + aliceAt, alice("Jörg Müller"), ""},
	{"raw octets in an encoded word", "=?utf-8?q?J\xc3\xb6rg?=" + aliceAt, alice("Jörg"), ""},

	{
		"a group", "Staff: Alice" + aliceAt + ", =?utf-8?q?J=C3=B6rg?= <j@x.example>;",
		authors(mailboxOf("Alice", "alice@x.example"), mailboxOf("Jörg", "j@x.example")), "",
	},
	{"a group with a raw name", "Büro: Jörg" + aliceAt + ";", alice("Jörg"), ""},
	{"a group with a quoted name", `"Staff, all": "A, B"` + aliceAt + ";", alice("A, B"), ""},
	{
		"a group and one more", "Staff: Alice" + aliceAt + "; , \"B, C\" <b@x.example>",
		authors(mailboxOf("Alice", "alice@x.example"), mailboxOf("B, C", "b@x.example")), "",
	},
	{"an empty group", "undisclosed-recipients:;", nil, ""},

	{
		"200 letters", strings.Repeat("x", 200) + aliceAt,
		alice(strings.Repeat("x", 200)), strings.Repeat("x", 100) + "...",
	},
	{
		"200 words", `"` + strings.TrimSpace(strings.Repeat("a ", 100)) + `"` + aliceAt,
		alice(strings.TrimSpace(strings.Repeat("a ", 100))), strings.Repeat("a ", 50) + "...",
	},
	{
		"200 letters in words, with two spaces", `"` + strings.Repeat("abcdefgh  ", 19) + `abcdefghij"` + aliceAt,
		alice(strings.Repeat("abcdefgh ", 19) + "abcdefghij"), strings.Repeat("abcdefgh ", 10) + "...",
	},
	{
		"200 umlauts", strings.Repeat("ü", 200) + aliceAt,
		alice(strings.Repeat("ü", 200)), strings.Repeat("ü", 100) + "…",
	},
	{
		"200 Chinese characters", strings.Repeat("好", 200) + aliceAt,
		alice(strings.Repeat("好", 200)), strings.Repeat("好", 100) + "…",
	},
	{
		"200 emoji", strings.Repeat("😀", 200) + aliceAt,
		alice(strings.Repeat("😀", 200)), strings.Repeat("😀", 100) + "…",
	},
	{
		"200 quotes", `"` + strings.Repeat(`\"`, 200) + `"` + aliceAt,
		alice(strings.Repeat(`"`, 200)), strings.Repeat(`"`, 100) + "...",
	},
	{
		"200 words with a comma each", `"` + strings.Repeat("ü, ", 66) + `ü"` + aliceAt,
		alice(strings.Repeat("ü, ", 66) + "ü"), strings.Repeat("ü, ", 33) + "ü…",
	},

	{"right to left", "=?utf-8?q?abc=E2=80=AEcba?=" + aliceAt, alice("abc\u202ecba"), "abccba"},
	{"isolates", "\"\u2066abc\u2069\"" + aliceAt, alice("\u2066abc\u2069"), "abc"},
	{"marks of direction only", "\u200f\u200e" + aliceAt, alice("\u200f\u200e"), "alice at x.example"},
	{"Hebrew", "=?utf-8?b?16nXnNeV150=?=" + aliceAt, alice("שלום"), ""},
	{"NUL", "=?utf-8?q?A=00B?=" + aliceAt, alice("AB"), ""},
	{"a line end", "=?utf-8?q?A=0D=0ABcc:_x?=" + aliceAt, alice("ABcc: x"), ""},
	{"controls", "=?utf-8?q?A=07=1B[31mB=7F=C2=85C?=" + aliceAt, alice("A[31mBC"), ""},
	{"raw controls", "\"A\x07\x7fB\"" + aliceAt, alice("AB"), ""},
	{"a tab", "\"A\tB\"" + aliceAt, alice("A B"), ""},
	{"a fold in quotes", "\"Alice\r\n\tExample\"" + aliceAt, alice("Alice Example"), ""},
	{"line separators", "=?utf-8?q?A=E2=80=A8B=E2=80=A9C?=" + aliceAt, alice("A\u2028B\u2029C"), ""},
	{"a byte order mark and a soft hyphen", "=?utf-8?q?=EF=BB=BFA=C2=ADB?=" + aliceAt, alice("\ufeffA\u00adB"), ""},

	{"a comma", `"Example, Alice"` + aliceAt, alice("Example, Alice"), ""},
	{"a comma first", `", Alice"` + aliceAt, alice(", Alice"), ""},
	{"a comma last", `"Alice,"` + aliceAt, alice("Alice,"), ""},
	{"a comma alone", `","` + aliceAt, alice(","), ""},
	{"quotes inside", `"Alice \"Al\" Example"` + aliceAt, alice(`Alice "Al" Example`), ""},
	{"a quote first", `"\"Alice"` + aliceAt, alice(`"Alice`), ""},
	{"a quote last", `"Alice\""` + aliceAt, alice(`Alice"`), ""},
	{"a quote alone", `"\""` + aliceAt, alice(`"`), ""},
	{"quotes around", `"\"Alice\""` + aliceAt, alice(`"Alice"`), ""},
	{"a quoted word among bare ones", `Alice "Al" Example` + aliceAt, alice("Alice Al Example"), ""},
	{"single quotes", "'Alice'" + aliceAt, alice("'Alice'"), ""},
	{"a backslash", `"A\\B"` + aliceAt, alice(`A\B`), ""},
	{"a backslash last", `"Alice\\"` + aliceAt, alice(`Alice\`), ""},
	{"a backslash and umlauts", `"Jörg\\"` + aliceAt, alice(`Jörg\`), ""},
	{"brackets of all kinds", `"<A> (B) [C] {D}; E: F"` + aliceAt, alice("<A> (B) [C] {D}; E: F"), ""},
	{"a semicolon and umlauts", `"Jörg; Müller: (x) <y>"` + aliceAt, alice("Jörg; Müller: (x) <y>"), ""},
	{"a comma and a quote beside umlauts", `"Müller, \"Jö\", x"` + aliceAt, alice(`Müller, "Jö", x`), ""},
	{"an unbalanced parenthesis", `"Alice :("` + aliceAt, alice("Alice :("), ""},
	{"an equals sign and a question mark", `"a=?b?= c"` + aliceAt, alice("a= ?b?= c"), ""},
	{"an underscore and umlauts", "J_ö_rg" + aliceAt, alice("J_ö_rg"), ""},
	{"two spaces within", `"Alice  Example"` + aliceAt, alice("Alice Example"), ""},
	{"spaces around", `"  Alice  "` + aliceAt, alice("Alice"), ""},
	{"initials", "A. B. Example" + aliceAt, alice("A. B. Example"), ""},
	{"another address", `"bob@y.example"` + aliceAt, alice("bob@y.example"), "bob at y.example"},
	{"a comma outside quotes", "Example, Alice" + aliceAt, alice(""), "alice at x.example"},
	{"a name that ends in a dot", "Example Inc." + aliceAt, alice("Example Inc."), ""},
	{"an address that needs SMTPUTF8", "Jörg <jörg@x.example>", []testserver.Mailbox{}, "Jörg"},
	{"a raw domain", "Jörg <j@bücher.example>", []testserver.Mailbox{mailboxOf("Jörg", "j@xn--bcher-kva.example")}, ""},
	{
		"two authors", `"A, B" <a@x.example>, Jörg <j@x.example>`,
		authors(mailboxOf("A, B", "a@x.example"), mailboxOf("Jörg", "j@x.example")), "",
	},
}

// written is an address field that we wrote, and what it has to mean.
type written struct {
	what, value string
	want        []testserver.Mailbox
}

// TestNames: other programs read the names that rewrite and attach write as we mean them.
func TestNames(t *testing.T) {
	c := composer(t, ComposeConfig{})
	var all []written
	for _, n := range authorFields {
		m := parse(t, "From: "+n.raw+"\r\nTo: "+n.raw+"\r\nCc: "+n.raw+"\r\nSubject: x\r\n\r\nhello\r\n")
		for _, mode := range []Mode{Rewrite, Attach} {
			raw := octetsOf(t, compose(t, c, m, Style{Mode: mode}).Reader())
			via := []testserver.Mailbox{mailboxOf(n.via(), me)}
			all = append(all, written{n.name + ", From", fieldOf(t, raw, "From"), via})
			if n.want != nil {
				all = append(all, written{n.name + ", Reply-To", fieldOf(t, raw, "Reply-To"), n.want})
			}
			if mode == Rewrite && nonASCII([]byte(n.raw)) {
				all = append(all, written{n.name + ", Cc", fieldOf(t, raw, "Cc"), n.want})
			}
		}
	}
	values := make([]string, len(all))
	for i, w := range all {
		values[i] = w.value
	}
	t.Run("Python", func(t *testing.T) {
		for i, got := range testserver.PythonMailboxes(t, values) {
			w := all[i]
			// It keeps the space between encoded words:
			// https://github.com/python/cpython/issues/128110
			if severalWords.MatchString(w.value) {
				got, w.want = spaceless(got), spaceless(w.want)
			}
			w.compare(t, got)
		}
	})
	t.Run("rspamd", func(t *testing.T) {
		for i, got := range testserver.RspamdMailboxes(t, values) {
			// It takes a group without members for a mailbox without an address.
			all[i].compare(t, slices.DeleteFunc(got, func(m testserver.Mailbox) bool { return m.Addr == "" }))
		}
	})
}

func (w written) compare(t *testing.T, got []testserver.Mailbox) {
	t.Helper()
	if !slices.Equal(got, w.want) {
		t.Errorf("%s: in %q are the mailboxes %q, want %q", w.what, w.value, got, w.want)
	}
}

var severalWords = regexp.MustCompile(`\?=\s+=\?`)

// spaceless are mailboxes with names without spaces.
func spaceless(list []testserver.Mailbox) []testserver.Mailbox {
	out := slices.Clone(list)
	for i, m := range out {
		out[i].Name = strings.ReplaceAll(m.Name, " ", "")
	}
	return out
}

// fieldOf is the value of a field, folded.
func fieldOf(t *testing.T, raw, name string) string {
	t.Helper()
	fields, err := parse(t, raw).Fields()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range fields {
		if f.Name == strings.ToLower(name) {
			return strings.TrimSpace(string(f.Raw[len(name)+1:]))
		}
	}
	return ""
}
