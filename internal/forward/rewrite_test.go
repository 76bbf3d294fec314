package forward

import (
	"io"
	"os"
	"strings"
	"testing"

	"postrider/internal/dkim"
	"postrider/internal/sevenbit"
	"postrider/internal/testserver/smtpsink"
)

// TestInSevenBits: what is rewritten goes encoded to a relay without 8BITMIME, or attached with the reason, and as it is to another.
func TestInSevenBits(t *testing.T) {
	const (
		encoded  = "encoded: the relay takes no 8-bit message"
		attached = "attached instead of rewritten: the relay takes no 8-bit message, and "
		cannot   = attached + "this one cannot be encoded: "
	)
	tests := []struct{ file, want string }{
		{"8-bit-body-utf-8", encoded},
		{"8-bit-parts", encoded},
		{"8-bit-message-in-message", encoded},
		{"8-bit-line-of-2000-octets", encoded},
		{"8-bit-signed", cannot + "it is signed (multipart/signed), which encoding would break"},
		{"8-bit-header-of-a-part", cannot + "the header of a part has 8-bit octets"},
		{"8-bit-without-last-boundary", cannot + "it has parts that do not end with their boundary"},
		{"8-bit-in-quoted-printable", cannot + "it has a part with 8-bit octets in the encoding quoted-printable"},
		{"8-bit-in-an-unknown-encoding", cannot + "it has a part with 8-bit octets in the encoding 8-bit"},
		{"8-bit-beside-a-long-line", cannot + "it has a line of more than 998 octets in a part that needs no encoding"},
		{"8-bit-and-nul", cannot + "it has a NUL"},
	}
	c := composer(t, ComposeConfig{})
	for _, tt := range tests {
		t.Run(tt.file, func(t *testing.T) {
			raw, err := os.ReadFile("testdata/odd/" + tt.file + ".eml")
			if err != nil {
				t.Fatal(err)
			}
			m := parse(t, string(raw))
			as := compose(t, c, m, Style{Mode: Rewrite})
			if !as.Needs8bit() || as.Mode != Rewrite || as.Remark != "" {
				t.Errorf("to a relay with 8BITMIME it goes in mode %s, %q; want rewrite, as it is", as.Mode, as.Remark)
			}
			for _, s := range []Style{{Mode: Rewrite}, {Mode: Rewrite, Fallback: true}} {
				out := compose(t, c, m, s)
				for out.Needs8bit() {
					out = other(t, out)
				}
				if out.Remark != tt.want && !s.Fallback || out.Mode == Attach != strings.HasPrefix(out.Remark, "attached") {
					t.Errorf("%+v: it goes in mode %s, %q; want %q", s, out.Mode, out.Remark, tt.want)
				}
				arrival{tt.file, out.Mode, octetsOf(t, m.Body.Reader()), octetsOf(t, out.Reader())}.check(t)
				if out.Mode == Rewrite && idOf(t, out) != idOf(t, as) {
					t.Errorf("encoded its Message-ID is %s, want %s as without", idOf(t, out), idOf(t, as))
				}
			}
		})
	}
}

func idOf(t *testing.T, c *Content) string {
	t.Helper()
	_, id, _ := strings.Cut(headerOf(t, c), "\r\nMessage-ID: ")
	id, _, _ = strings.Cut(id, "\r\n")
	return id
}

// TestEncodedHeader: the fields that tell the encoding are what the body has become, in ASCII; the others are as at other relays.
func TestEncodedHeader(t *testing.T) {
	const body = "\r\nDie Verhandlung ist am Donnerstag um zehn Uhr; bitte bestätigen Sie den Termin.\r\n"
	tests := []struct {
		name, fields string
		want, never  []string
	}{
		{"no MIME", "", []string{"Content-Transfer-Encoding: quoted-printable", "MIME-Version: 1.0"}, nil},
		{
			"MIME", "MIME-Version: 1.0 (x)\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Transfer-Encoding: 8bit\r\n",
			[]string{"MIME-Version: 1.0 (x)", "Content-Type: text/plain; charset=utf-8", "Content-Transfer-Encoding: quoted-printable"},
			[]string{"Content-Transfer-Encoding: 8bit", "MIME-Version: 1.0\r\n"},
		},
		{"a file name of 8 bits", "Content-Type: text/plain; name=\"ä.txt\"\r\n", []string{"Content-Type: text/plain; name*=utf-8''%C3%A4.txt", "Content-Transfer-Encoding: quoted-printable"}, nil},
		{"an author of 8 bits", "X-Note: ä\r\n", []string{"X-Note: =?utf-8?q?=C3=A4?=", "X-Original-From: =?utf-8?q?Zo=C3=AB_<zoe@client.example>?="}, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			out := other(t, compose(t, composer(t, ComposeConfig{}), parse(t, "From: Zoë <zoe@client.example>\r\n"+tt.fields+body), Style{Mode: Rewrite}))
			head := "\r\n" + headerOf(t, out)
			for _, want := range tt.want {
				if strings.Count(head, "\r\n"+want+"\r\n") != 1 {
					t.Errorf("want the field %q once in:%s", want, head)
				}
			}
			for _, never := range tt.never {
				if strings.Contains(head, "\r\n"+never) {
					t.Errorf("want no line that starts with %q in:%s", never, head)
				}
			}
		})
	}
}

// TestHeaderThatStays: no encoding of the body mends what is wrong in the header.
func TestHeaderThatStays(t *testing.T) {
	for field, want := range map[string]string{
		"X: " + strings.Repeat("x", maxLine): "its header has a line of more than 998 octets",
		"X: a\x00b":                          "its header has a NUL",
		"Content-Type : text/html":           "this one cannot be encoded: it has a part whose header has a line that is no field",
		"Content-Transfer-Encoding: 8bit\r\nX-Note\t: text/html": "this one cannot be encoded: it has a part whose header has a line that is no field",
	} {
		out := other(t, compose(t, composer(t, ComposeConfig{}), parse(t, "From: a@client.example\r\n"+field+"\r\n\r\nZażółć\r\n"), Style{Mode: Rewrite}))
		want = "attached instead of rewritten: the relay takes no 8-bit message, and " + want
		if out.Mode != Attach || out.Remark != want {
			t.Errorf("%.30q: it goes in mode %s, %q; want attach, %q", field, out.Mode, out.Remark, want)
		}
	}
}

// TestEncodedIsSigned: our signature is over what goes out.
func TestEncodedIsSigned(t *testing.T) {
	z := zone{}
	key, err := dkim.Load("firm.example", "rsa", keyFile(t, keys(t, z)["rsa"]))
	if err != nil {
		t.Fatal(err)
	}
	name, record := key.Record()
	z[name] = record
	s := sink(t, smtpsink.Options{})
	c := composer(t, ComposeConfig{From: "Intake <intake@firm.example>", Key: key})
	got := delivered(t, s, relayOn(t, s.Port()), compose(t, c, parse(t, "From: a@client.example\r\n\r\nZażółć\r\n"), Style{Mode: Rewrite}))
	if !strings.Contains(got, "\r\nContent-Transfer-Encoding: base64\r\n") {
		t.Errorf("what arrived is not encoded:\n%s", got)
	}
	z.verify(t, "encoded", got, 1)
}

// TestEncodedRemark: all that was done to the message is told. A type with 8 bits in it is read as it goes out.
func TestEncodedRemark(t *testing.T) {
	raw := "DKIM-Signature: v=1; b=x\r\nFrom: a@client.example\r\nContent-Type: multipart/mixed; name=Aktä; boundary=b\r\n\r\n--b\r\n\r\nZażółć\r\n--b--\r\n"
	out := other(t, compose(t, composer(t, ComposeConfig{}), parse(t, raw), Style{Mode: Rewrite}))
	const want = "without its signature fields (1), which another From breaks; encoded: the relay takes no 8-bit message"
	if out.Mode != Rewrite || out.Remark != want {
		t.Errorf("it goes in mode %s, %q; want rewrite, %q", out.Mode, out.Remark, want)
	}
}

// TestPiecesInTurn: a message of thousands of parts does not have thousands of readers.
func TestPiecesInTurn(t *testing.T) {
	opened := 0
	piece := sevenbit.Piece{Size: 4, Open: func() io.Reader {
		opened++
		return strings.NewReader("text")
	}}
	r := (&Content{parts: []sevenbit.Piece{piece, piece}}).Reader()
	if n, err := io.ReadFull(r, make([]byte, 4)); n != 4 || err != nil || opened != 1 {
		t.Errorf("%d octets (%v) of %d pieces, want 4 of one", n, err, opened)
	}
	if rest := octetsOf(t, r); rest != "text" || opened != 2 {
		t.Errorf("then %q of %d pieces, want the other", rest, opened)
	}
}
