package transcript

import (
	"bytes"
	"context"
	"encoding/base64"
	"io"
	"log/slog"
	"net"
	"net/textproto"
	"strings"
	"testing"
)

// lines logs each message alone.
type lines struct{ out *strings.Builder }

func (l lines) Enabled(_ context.Context, level slog.Level) bool { return level >= Level }
func (l lines) WithAttrs([]slog.Attr) slog.Handler               { return l }
func (l lines) WithGroup(string) slog.Handler                    { return l }
func (l lines) Handle(_ context.Context, r slog.Record) error {
	l.out.WriteString(r.Message + "\n")
	return nil
}

const password = `ses"ame`

// play says the turns, "C: " or "S: " before each, and returns what is logged. It feeds one octet
// at a time, and then all at once: that must not matter.
func play(t *testing.T, kind string, turns ...string) string {
	t.Helper()
	said := func(step int) string {
		var out strings.Builder
		d := &dialogue{log: slog.New(lines{&out}), name: kind, hide: Hide("desk", password), protocol: &imap{}}
		if kind == "smtp" {
			d.protocol = &smtp{}
		}
		for _, turn := range turns {
			from := fromClient
			if turn[0] == 'S' {
				from = fromServer
			}
			for p := []byte(turn[3:]); len(p) > 0; {
				n := min(step, len(p))
				d.hear(from, p[:n])
				p = p[n:]
			}
		}
		return out.String()
	}
	slow, fast := said(1), said(1<<20)
	if slow != fast {
		t.Errorf("octet by octet it logs\n%s\nat once\n%s", slow, fast)
	}
	return fast
}

func base64Of(s string) string { return base64.StdEncoding.EncodeToString([]byte(s)) }

func TestSMTP(t *testing.T) {
	for _, tt := range []struct {
		name  string
		turns []string
		want  string
	}{
		{"a message", []string{
			"C: EHLO me\r\n", "S: 250-relay\r\n250 SIZE 10\r\n",
			"C: MAIL FROM:<a@x.example>\r\nRCPT TO:<b@x.example>\r\nDATA\r\n",
			"S: 250 ok\r\n250 2.1.5 ok\r\n354 go on\r\n",
			"C: Subject: x\r\n\r\nthe secret body\r\n..\r\nRCPT TO:<q>\r\n.\r\n", "S: 250 2.0.0 queued\r\n",
			"C: QUIT\r\n",
		}, "smtp C: EHLO me\nsmtp S: 250-relay\nsmtp S: 250 SIZE 10\n" +
			"smtp C: MAIL FROM:<a@x.example>\nsmtp C: RCPT TO:<b@x.example>\nsmtp C: DATA\n" +
			"smtp S: 250 ok\nsmtp S: 250 2.1.5 ok\nsmtp S: 354 go on\n" +
			"smtp C: (a message of 48 octets)\nsmtp S: 250 2.0.0 queued\n" +
			"smtp C: QUIT\n"},
		{"AUTH PLAIN", []string{
			"C: AUTH PLAIN " + base64Of("\x00desk\x00"+password) + "\r\n",
			"S: 535-no " + password + "\r\n535 5.7.8 " + base64Of(password) + "\r\n",
			"C: RSET\r\n",
		}, "smtp C: AUTH PLAIN ***\nsmtp S: 535 ***\nsmtp S: 535 ***\nsmtp C: RSET\n"},
		{"AUTH LOGIN", []string{
			"C: AUTH LOGIN\r\n", "S: 334 VXNlcg==\r\n",
			"C: " + base64Of("desk") + "\r\n", "S: 334 x\r\n",
			"C: " + base64Of(password) + "\r\n", "S: 235 ok\r\n",
			"C: NOOP\r\n",
		}, "smtp C: AUTH LOGIN ***\nsmtp S: 334 ***\nsmtp C: *** (8 octets)\nsmtp S: 334 ***\n" +
			"smtp C: *** (12 octets)\nsmtp S: 235 ***\nsmtp C: NOOP\n"},
		{
			"what is not known",
			[]string{"C: XSECRET " + password + "\r\n\r\n", "S: hello\r\n2x0 hm\r\n250\r\n"},
			"smtp C: *** (15 octets)\nsmtp C: *** (0 octets)\n" +
				"smtp S: *** (5 octets)\nsmtp S: *** (6 octets)\nsmtp S: 250\n",
		},
		{
			"a relay that repeats the password later, and colours",
			[]string{"S: 250 \x1b[31m" + password + " " + base64Of(password) + "\r\n"},
			"smtp S: 250 [31m*** ***\n",
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := play(t, "smtp", tt.turns...); got != tt.want {
				t.Errorf("it logs\n%s\nwant\n%s", got, tt.want)
			}
		})
	}
}

func TestIMAP(t *testing.T) {
	for _, tt := range []struct {
		name  string
		turns []string
		want  string
	}{
		{"a fetch", []string{
			"C: T1 UID FETCH 5 (UID BODY.PEEK[])\r\n",
			"S: * 1 FETCH (UID 5 INTERNALDATE \"01-Jan-2026 00:00:00 +0000\" BODY[] {13}\r\n" +
				"secret\r\n* 5 \nX-A \"b \\\" c\" BODY[TEXT] {2}\r\nhi)\r\nT1 OK done\r\n",
		}, "imap C: T1 UID FETCH 5 (UID BODY.PEEK[])\n" +
			"imap S: * 1 FETCH (UID 5 INTERNALDATE \"01-Jan-2026 00:00:00 +0000\" BODY[] {13}\n" +
			"imap S: (content) X-A (6 octets) BODY[TEXT] {2}\nimap S: (content) )\nimap S: T1 OK done\n"},
		{
			"a body in a quoted string",
			[]string{"S: * 1 FETCH (BODY[] \"the \\\"secret\\\" body\" UID 5)\r\n* 2 FETCH (BODY[] \"unfinished\r\n"},
			"imap S: * 1 FETCH (BODY[] (19 octets) UID 5)\nimap S: * 2 FETCH (BODY[] (10 octets)\n",
		},
		{
			"LOGIN",
			[]string{
				"C: T2 LOGIN desk " + password + "\r\n",
				"S: * OK " + password + "\r\n* CAPABILITY IMAP4rev1\r\n" +
					"T2 NO [AUTHENTICATIONFAILED] " + password + "\r\n",
				"C: T3 NOOP\r\n",
			},
			"imap C: T2 LOGIN ***\nimap S: * OK ***\nimap S: * CAPABILITY IMAP4rev1\n" +
				"imap S: T2 NO [AUTHENTICATIONFAILED] ***\nimap C: T3 NOOP\n",
		},
		{
			"LOGIN with literals",
			[]string{
				"C: T2 LOGIN {4}\r\n", "S: + go " + password + "\r\n",
				"C: desk {7}\r\n", "S: + go\r\n",
				"C: " + password + "\r\n", "S: T2 OK in\r\n",
				"C: T3 LIST \"\" *\r\n",
			},
			"imap C: T2 LOGIN ***\nimap S: *** (12 octets)\nimap C: *** (4 octets)\nimap S: *** (4 octets)\n" +
				"imap C: *** (0 octets)\nimap S: T2 OK ***\nimap C: T3 LIST \"\" *\n",
		},
		{
			"AUTHENTICATE",
			[]string{
				"C: T2 AUTHENTICATE PLAIN\r\n", "S: +\r\n",
				"C: " + base64Of("\x00desk\x00"+password) + "\r\n", "S: T2 BAD what?\r\n",
			},
			"imap C: T2 AUTHENTICATE PLAIN ***\nimap S: *** (1 octet)\nimap C: *** (20 octets)\nimap S: T2 BAD ***\n",
		},
		{
			"with an initial response",
			[]string{
				"C: T2 AUTHENTICATE PLAIN " + base64Of("\x00desk\x00"+password) + "\r\n",
				"S: T2 OK [CAPABILITY A B] in\r\n",
			},
			"imap C: T2 AUTHENTICATE PLAIN ***\nimap S: T2 OK [CAPABILITY] ***\n",
		},
		{
			"what is not known",
			[]string{"C: T4 XSECRET " + password + "\r\nhm\r\nDONE\r\n", "S: some text\r\n* 3 EXISTS\r\n"},
			"imap C: T4 *** (18 octets)\nimap C: *** (2 octets)\nimap C: DONE\n" +
				"imap S: *** (9 octets)\nimap S: * 3 EXISTS\n",
		},
		{
			"a server that repeats the password later",
			[]string{"S: * OK " + `ses\"ame` + " " + password + "\r\n"},
			"imap S: * OK *** ***\n",
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := play(t, "imap", tt.turns...); got != tt.want {
				t.Errorf("it logs\n%s\nwant\n%s", got, tt.want)
			}
		})
	}
}

// TestLongLines: what is kept of a line does not grow with it, and the size of the literal at its
// end is still found.
func TestLongLines(t *testing.T) {
	long := "S: * SEARCH" + strings.Repeat(" 1234567", 1<<17)
	got := play(t, "imap", long+"\r\n", "S: * 1 FETCH (X \""+strings.Repeat("a", 1<<16)+"\" BODY[] {6}\r\nsecret)\r\n")
	if len(got) > 1000 || strings.Contains(got, "secret") || strings.Count(got, "\n") != 3 {
		t.Errorf("it logs %d octets: %.2000s; want three short lines", len(got), got)
	}
	d := &dialogue{log: slog.New(slog.DiscardHandler), hide: Hide("", ""), protocol: &smtp{}}
	d.hear(fromServer, bytes.Repeat([]byte("250-x"), 1<<20))
	if n := cap(d.lines[fromServer].head) + cap(d.lines[fromServer].tail); n > 4*maxHead {
		t.Errorf("%d octets of an endless line are kept, want a few kilobytes", n)
	}
}

// TestOnlyWhenAsked: without the level nothing is put between.
func TestOnlyWhenAsked(t *testing.T) {
	client, server := net.Pipe()
	defer func() { _, _ = client.Close(), server.Close() }()
	quiet := slog.New(slog.NewTextHandler(io.Discard, &slog.HandlerOptions{Level: slog.LevelDebug}))
	if IMAP(client, quiet, Hide("", "")) != client {
		t.Error("IMAP: without the level the connection is another one")
	}
	if conn := textproto.NewConn(client); SMTP(conn, quiet, Hide("", "")) != conn {
		t.Error("SMTP: without the level the connection is another one")
	}
}
