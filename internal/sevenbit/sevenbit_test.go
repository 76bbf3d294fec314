package sevenbit

import (
	"errors"
	"flag"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	gomessage "github.com/emersion/go-message"

	"postrider/internal/message"
	"postrider/internal/testserver"
)

var update = flag.Bool("update", false, "write the golden files")

// TestMain: go-message is to show octets, not what they mean in a charset.
func TestMain(m *testing.M) {
	gomessage.CharsetReader = nil
	os.Exit(m.Run())
}

func parse(t testing.TB, raw string) *message.Message {
	t.Helper()
	return parseIn(t, &message.Spooler{Limit: 64 << 20, Budget: 256 << 20}, strings.NewReader(raw))
}

func parseIn(t testing.TB, s *message.Spooler, raw io.Reader) *message.Message {
	t.Helper()
	b := s.New()
	if _, err := io.Copy(b, raw); err != nil {
		t.Fatal(err)
	}
	m, err := message.Parse(b)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = m.Close() })
	return m
}

// header are the fields of m, and where its body begins.
func header(t testing.TB, m *message.Message) (fields []message.Field, body int64) {
	t.Helper()
	all, err := m.Fields()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range all {
		if body += int64(len(f.Raw)); f.Name != "" {
			fields = append(fields, f)
		}
	}
	return fields, body
}

// encode is what becomes of raw, or why nothing does.
func encode(t testing.TB, raw string) (out, refused string) {
	t.Helper()
	m := parse(t, raw)
	fields, body := header(t, m)
	e, err := Encode(fields, m.Body, body)
	var r *Refusal
	if errors.As(err, &r) {
		return "", r.Why
	}
	if err != nil {
		t.Fatal(err)
	}
	return whole(t, e), ""
}

func whole(t testing.TB, e Encoded) string {
	t.Helper()
	var b strings.Builder
	for _, f := range e.Fields {
		b.Write(f.Raw)
	}
	b.WriteString("\r\n")
	for _, p := range e.Body {
		if n, err := io.Copy(&b, p.Open()); n != p.Size || err != nil {
			t.Fatalf("a piece has %d octets (%v), want its Size %d", n, err, p.Size)
		}
	}
	return b.String()
}

// sent is the message that a file has, with line ends as on the wire.
func sent(t testing.TB, file string) string {
	t.Helper()
	raw, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return strings.NewReplacer("\r\n", "\r\n", "\n", "\r\n").Replace(string(raw))
}

// TestGolden: each message in testdata becomes the one beside it, and go-message finds the same in both.
func TestGolden(t *testing.T) {
	files, _ := filepath.Glob("testdata/*.eml")
	if len(files) < 12 {
		t.Fatalf("%d messages in testdata, want all of them", len(files))
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			raw := sent(t, file)
			got, why := encode(t, raw)
			if why != "" {
				t.Fatalf("it is refused, %s; want it encoded", why)
			}
			check(t, raw, got)
			golden := strings.TrimSuffix(file, ".eml") + ".7bit"
			if *update {
				if err := os.WriteFile(golden, []byte(strings.ReplaceAll(got, "\r\n", "\n")), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			if want := sent(t, golden); got != want {
				t.Errorf("it becomes\n%s\nwant\n%s", got, want)
			}
		})
	}
}

// check is what holds for everything that is encoded.
func check(t testing.TB, raw, got string) {
	t.Helper()
	_, body, _ := strings.Cut(got, "\r\n\r\n")
	if strings.ContainsFunc(body, func(r rune) bool { return r >= 0x80 || r == 0 }) {
		t.Errorf("there are octets above 127, or a NUL, in\n%q", body)
	}
	for line := range strings.SplitSeq(body, "\r\n") {
		if len(line) > maxLine || strings.ContainsAny(line, "\r\n") {
			t.Errorf("there is a line of %d octets, or a bare line end: %.100q", len(line), line)
		}
	}
	if before, after := testserver.Leaves(tidy(t, raw)), testserver.Leaves(got); !slices.Equal(before, after) {
		t.Errorf("go-message finds\n%q\nin what comes out, want\n%q\nwhat comes out is\n%s", after, before, got)
	}
	if again, why := encode(t, got); again != got || why != "" {
		t.Errorf("encoded again it is (%s)\n%s\nwant it as it is:\n%s", why, again, got)
	}
}

// tidy is raw with nothing but fields in its header.
func tidy(t testing.TB, raw string) string {
	m := parse(t, raw)
	fields, body := header(t, m)
	return whole(t, Encoded{fields, []Piece{Stored(m.Body, body, m.Body.Size())}})
}

const (
	eight = "Zażółć\r\n"
	mixed = "Content-Type: multipart/mixed; boundary=b\r\n\r\n"
)

func TestRefused(t *testing.T) {
	const plain = "Content-Type: text/plain\r\n\r\n"
	long := strings.Repeat("x", maxLine+1) + "\r\n"
	tests := []struct{ name, raw, want string }{
		{"signed", "Content-Type: multipart/signed; boundary=b\r\n\r\n--b\r\n\r\n" + eight + "--b--\r\n", "it is signed (multipart/signed), which encoding would break"},
		{"encrypted", mixed + "--b\r\nContent-Type: Multipart/Encrypted; boundary=c\r\n\r\n" + eight + "\r\n--b--\r\n", "it is encrypted (multipart/encrypted)"},
		{"S/MIME", "Content-Type: application/pkcs7-mime; smime-type=signed-data\r\n\r\n" + eight, "it is signed or encrypted (application/pkcs7-mime)"},
		{"a signed message in it", "Content-Type: message/rfc822\r\n\r\nDKIM-Signature: v=1; b=x\r\n\r\n" + eight, "a message in it whose DKIM signature"},
		{"NUL", plain + eight + "\x00\r\n", "it has a NUL"},
		{"NUL in a part of 7 bits", mixed + "--b\r\n\r\n\x00\r\n--b\r\n\r\n" + eight + "--b--\r\n", "it has a NUL"},
		{"a long line elsewhere", mixed + "--b\r\n\r\n" + long + "--b\r\n\r\n" + eight + "--b--\r\n", "a line of more than 998 octets"},
		{"a long line in a header", mixed + "--b\r\nX: " + long + "\r\n" + eight + "--b--\r\n", "a line of more than 998 octets"},
		{"a long line in the preamble", mixed + long + "--b\r\n\r\n" + eight + "--b--\r\n", "a line of more than 998 octets"},
		{"a very long line in a header", mixed + "--b\r\nX: " + strings.Repeat(long[:900], 100) + "\r\n\r\n" + eight + "--b--\r\n", "a line of more than 998 octets"},
		{"the header of a part", mixed + "--b\r\nContent-Type: text/plain; name=ä\r\n\r\n" + eight + "--b--\r\n", "the header of a part has 8-bit octets"},
		{"the header of a message in it", "Content-Type: message/rfc822\r\n\r\nSubject: ä\r\n\r\nx\r\n", "the header of a part has 8-bit octets"},
		{"preamble", mixed + eight + "--b\r\n\r\nx\r\n--b--\r\n", "8-bit octets outside of its parts"},
		{"epilogue", mixed + "--b\r\n\r\nx\r\n--b--\r\n" + eight, "8-bit octets outside of its parts"},
		{"no boundary said", "Content-Type: multipart/mixed\r\n\r\n--b\r\n\r\n" + eight + "--b--\r\n", "whose boundary is missing, or no good"},
		{"an empty boundary", "Content-Type: multipart/mixed; boundary=\"\"\r\n\r\n--\r\n\r\n" + eight + "----\r\n", "whose boundary is missing, or no good"},
		{"a boundary that ends with a space", "Content-Type: multipart/mixed; boundary=\"b \"\r\n\r\n--b \r\n\r\n" + eight + "--b --\r\n", "whose boundary is missing, or no good"},
		{"two boundaries", "Content-Type: multipart/mixed; boundary=b; boundary=c\r\n\r\n--b\r\n\r\n" + eight + "--b--\r\n", "whose boundary is missing, or no good"},
		{"a boundary in pieces", "Content-Type: multipart/mixed; boundary*0=b; boundary*1=c\r\n\r\n--bc\r\n\r\n" + eight + "--bc--\r\n", "whose boundary is missing, or no good"},
		{"a boundary twice, one in its charset", "Content-Type: multipart/mixed; boundary=c; Boundary*=us-ascii''b\r\n\r\n--b\r\n\r\n" + eight + "--b--\r\n", "whose boundary is missing, or no good"},
		{"a boundary with a backslash", `Content-Type: multipart/mixed; boundary="b\(c"` + "\r\n\r\n--b(c\r\n\r\n" + eight + "--b(c--\r\n", "whose boundary is missing, or no good"},
		{"a boundary in angle brackets", "Content-Type: multipart/mixed; boundary=\"<b>\"\r\n\r\n--<b>\r\n\r\n" + eight + "--<b>--\r\n", "whose boundary is missing, or no good"},
		{"one boundary for two", mixed + "--b\r\n" + mixed + "--b\r\n\r\n" + eight + "--b--\r\n--b--\r\n", "with the same boundary"},
		{"a boundary that is another's end", "Content-Type: multipart/mixed; boundary=b--\r\n\r\n--b--\r\n" + mixed + "--b\r\n\r\n" + eight + "--b--\r\n--b----\r\n", "with the same boundary"},
		{"no part at all", mixed + eight, "8-bit octets outside of its parts"},
		{"no end", mixed + "--b\r\n\r\n" + eight, "do not end with their boundary"},
		{"no end within", mixed + "--b\r\nContent-Type: multipart/mixed; boundary=c\r\n\r\n--c\r\n\r\n" + eight + "--b--\r\n", "do not end with their boundary"},
		{"almost a boundary", mixed + "--b\r\n\r\n--bc\r\n" + eight + "--b--\r\n", "some take for a boundary"},
		{"a line that is no field", mixed + "--b\r\nhello\r\n\r\n" + eight + "--b--\r\n", "a line that is no field"},
		{"a space before the colon", mixed + "--b\r\nX-Note : y\r\n\r\n" + eight + "--b--\r\n", "a line that is no field"},
		{"a continuation first", mixed + "--b\r\n x: y\r\n\r\n" + eight + "--b--\r\n", "a line that is no field"},
		{"an unknown encoding", "Content-Transfer-Encoding: x-uue\r\n\r\n" + eight, "8-bit octets in the encoding x-uue"},
		{"8 bits in quoted-printable", "Content-Transfer-Encoding: Quoted-Printable\r\n\r\n" + eight, "8-bit octets in the encoding quoted-printable"},
		{"8 bits in base64", mixed + "--b\r\nContent-Transfer-Encoding: base64\r\n\r\n" + eight + "--b--\r\n", "8-bit octets in the encoding base64"},
		{"two encodings", "Content-Transfer-Encoding: 8bit\r\nContent-Transfer-Encoding: base64\r\n\r\n" + eight, "two fields content-transfer-encoding"},
		{"two types", mixed + "--b\r\nContent-Type: text/plain\r\nContent-type: text/html\r\n\r\n" + eight + "--b--\r\n", "two fields content-type"},
		{"a type that is none", "Content-Type: text\r\n\r\n" + eight, "whose Content-Type cannot be read"},
		{"a type behind a comment", "Content-Type: (really) multipart/mixed; boundary=b\r\n\r\n--b\r\n\r\n" + eight + "--b--\r\n", "whose Content-Type cannot be read"},
		{"a very long type", mixed + "--b\r\nContent-Type: text/plain;" + strings.Repeat("\r\n x="+strings.Repeat("y", 900)+";", 20) + "\r\n\r\n" + eight + "--b--\r\n", "very long"},
		{"an encoded multipart", "Content-Type: multipart/mixed; boundary=b\r\nContent-Transfer-Encoding: base64\r\n\r\n--b\r\n\r\n" + eight + "--b--\r\n", "multipart/mixed in an encoding"},
		{"an encoded message", "Content-Type: message/rfc822\r\nContent-Transfer-Encoding: quoted-printable\r\n\r\nA: b\r\n\r\n" + eight, "message/rfc822 in an encoding"},
		{"a report", "Content-Type: message/delivery-status\r\n\r\nA: b\r\n\r\n" + eight, "message/delivery-status, which may not be encoded"},
		{"a digest", "Content-Type: multipart/digest; boundary=b\r\n\r\n--b\r\n\r\nA: b\r\n\r\n" + eight + "--b--\r\n", "a digest with parts that do not say"},
		{"too deep", nested(message.MaxDepth + 1), "more than 30 deep"},
		{"too many", mixed + strings.Repeat("--b\r\n\r\nx\r\n", message.MaxParts) + "--b\r\n\r\n" + eight + "--b--\r\n", "more than 1,000 parts"},
	}
	always := map[string]bool{"it has a NUL": true, "a line of more than 998 octets": true, "some take for a boundary": true, "with the same boundary": true} // with 7 bits, too
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got, why := encode(t, tt.raw); !strings.Contains(why, tt.want) {
				t.Errorf("refused for %q, want for %q; what comes out is\n%s", why, tt.want, got)
			}
			sevenBits := strings.NewReplacer("ż", "z", "ó", "o", "ł", "l", "ć", "c", "ä", "a").Replace(tt.raw)
			_, body, _ := strings.Cut(sevenBits, "\r\n\r\n")
			got, why := encode(t, sevenBits)
			if _, as, _ := strings.Cut(got, "\r\n\r\n"); as != body && !always[tt.want] {
				t.Errorf("with 7 bits alone its body becomes (refused for %q)\n%s\nwant it as it is\n%s", why, as, body)
			}
		})
	}
}

// TestWhatHasNo8BitsStays: nothing in a signed message changes beside a part that is encoded, also where an encoding is named.
func TestWhatHasNo8BitsStays(t *testing.T) {
	const signed = "--b\r\nContent-Type: message/rfc822\r\nContent-Transfer-Encoding: 8bit\r\n\r\n" +
		"DKIM-Signature: v=1; h=content-transfer-encoding; b=x\r\nContent-Type: multipart/mixed; boundary=c\r\nContent-Transfer-Encoding: 8bit\r\n\r\n" +
		"--c\r\nContent-Type: multipart/mixed; boundary=d\r\nContent-Transfer-Encoding: binary\r\n\r\n--d\r\n\r\nx\r\n--d--\r\n--c--\r\n"
	raw := mixed + signed + "--b\r\n\r\n" + eight + "--b--\r\n"
	got, why := encode(t, raw)
	if why != "" || !strings.Contains(got, signed) {
		t.Fatalf("it becomes (refused for %q)\n%s\nwant it encoded, and in it as it was\n%s", why, got, signed)
	}
	check(t, raw, got)
}

// nested is a text in so many messages.
func nested(depth int) string {
	return strings.Repeat("Content-Type: message/rfc822\r\n\r\n", depth) + "Content-Type: text/plain\r\n\r\n" + eight
}

func TestDeep(t *testing.T) {
	raw := nested(message.MaxDepth)
	got, why := encode(t, raw)
	if why != "" {
		t.Fatalf("refused for %q, want what is 30 deep encoded", why)
	}
	check(t, raw, got)
}

// TestBoundaryInTheText: quoted-printable would break a long line right before what is a boundary at the beginning of one.
func TestBoundaryInTheText(t *testing.T) {
	for n := range 80 {
		raw := mixed + "--b\r\n\r\nä" + strings.Repeat("x", n) + "--b--" + strings.Repeat("y", 80) + "\r\n--b--\r\n"
		got, why := encode(t, raw)
		if why != "" {
			t.Fatalf("refused for %q, want it encoded", why)
		}
		check(t, raw, got)
	}
}

// TestLongLines: those of a part that is encoded are no more.
func TestLongLines(t *testing.T) {
	raw := mixed + "--b\r\n\r\n" + strings.Repeat("Zażółć ", 20_000) + "\r\n--b\r\nContent-Type: image/png\r\n\r\n" + strings.Repeat("\xff\xfe", 40_000) + "\r\n--b--\r\n"
	got, why := encode(t, raw)
	if why != "" {
		t.Fatalf("refused for %q, want it encoded", why)
	}
	check(t, raw, got)
}

// TestSpoolFails: that is no fault of the message.
func TestSpoolFails(t *testing.T) {
	m := parseIn(t, &message.Spooler{Dir: t.TempDir()}, strings.NewReader(mixed+"--b\r\n\r\n"+eight+"--b--\r\n"))
	fields, body := header(t, m)
	_ = m.Close()
	if _, err := Encode(fields, m.Body, body); err == nil || errors.As(err, new(*Refusal)) {
		t.Errorf("Encode of what cannot be read = %v, want an error that is no refusal", err)
	}
}

// TestCorpus encodes what has 8 bits in the shared corpus, when the corpus is there.
func TestCorpus(t *testing.T) {
	files, _ := filepath.Glob("../../../shared/corpus/*/*/*.eml")
	if len(files) == 0 {
		t.Skip("no corpus beside the repository")
	}
	encoded := 0
	for _, file := range files {
		raw := sent(t, file)
		got, why := encode(t, raw)
		if why != "" {
			t.Logf("%s: %s", file, why)
			continue
		}
		check(t, raw, got)
		if got != tidy(t, raw) {
			encoded++
		}
	}
	if encoded < 5 {
		t.Errorf("%d messages of the corpus are encoded, want those with 8 bits", encoded)
	}
}

// filler is so many octets of a text that is repeated.
type filler struct {
	text     string
	at, left int
}

func (f *filler) Read(p []byte) (int, error) {
	if f.left <= 0 {
		return 0, io.EOF
	}
	n := copy(p[:min(len(p), f.left)], f.text[f.at:])
	f.at, f.left = (f.at+n)%len(f.text), f.left-n
	return n, nil
}

// TestMemory: a large message, and one of very many parts, is encoded and read without being held.
func TestMemory(t *testing.T) {
	const size = 4 << 20
	small := "--b\r\nContent-Type: text/plain\r\n\r\n" + strings.Repeat("Die Verhandlung ist für Donnerstag geplant.\r\n", 50)
	end := strings.NewReader("\r\n--b--\r\n")
	for name, raw := range map[string]io.Reader{
		"text":          &filler{text: strings.Repeat("Die Verhandlung ist für Donnerstag geplant, bitte bestätigen.\r\n", 500), left: size},
		"one long line": &filler{text: strings.Repeat("Zażółć", 5000), left: size},
		"many parts":    io.MultiReader(strings.NewReader(mixed), &filler{text: small, left: len(small) * message.MaxParts}, end),
	} {
		t.Run(name, func(t *testing.T) {
			if name != "many parts" {
				raw = io.MultiReader(strings.NewReader("Subject: x\r\n\r\n"), raw)
			}
			m := parseIn(t, &message.Spooler{Dir: t.TempDir()}, raw)
			fields, body := header(t, m)
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			out, err := Encode(fields, m.Body, body)
			if err != nil {
				t.Fatal(err)
			}
			runtime.ReadMemStats(&after)
			if used := after.TotalAlloc - before.TotalAlloc; used > 1<<20 && name != "many parts" {
				t.Errorf("%d octets allocated to encode it, want less than 1 MiB", used)
			}
			runtime.GC()
			runtime.ReadMemStats(&after)
			if held := int64(after.HeapAlloc) - int64(before.HeapAlloc); held > 1<<20 {
				t.Errorf("%d octets held, want less than 1 MiB", held)
			}
			for _, p := range out.Body {
				if n, err := io.Copy(io.Discard, p.Open()); n != p.Size || err != nil {
					t.Fatalf("a piece has %d octets (%v), want its Size %d", n, err, p.Size)
				}
			}
		})
	}
}
