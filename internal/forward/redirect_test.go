package forward

import (
	"io"
	"strings"
	"testing"
	"time"

	"postrider/internal/srs"
)

func TestRedirect(t *testing.T) {
	const trace = "X-Postrider-Trace: "
	sig := func(h string) string {
		return "DKIM-Signature: v=1; a=rsa-sha256;\r\n\th=" + h + ";\r\n b=xyz\r\nFrom: a@x.example\r\n\r\nx"
	}
	const field = "X-Postrider-Trace: 0123456789abcdef0123; task=1\r\n"
	const covered, headless = "a signature covers X-Postrider-Trace", "it does not begin with a header field"
	arc := strings.NewReplacer("DKIM-S", "ARC-Message-S")
	tests := []struct {
		name, raw string
		attached  string // why; empty when it is redirected
	}{
		{"usual", plain, ""},
		{"empty", "", headless},
		{"only a header", "A: b", ""},
		{"no header, an empty line first", "\r\nhello", ""},
		{"no header at all", "hello\r\nworld\r\n", headless},
		{"text with a colon", "hello there: world", headless},
		{"continuation line first", " folded\r\nA: b\r\n\r\n", headless},
		{"tab first", "\tfolded\r\nA: b\r\n\r\n", headless},
		{"mbox line first", "From a@x.example Fri Nov 20 10:00:00 2026\r\nA: b\r\n\r\n", headless},
		{"space before the colon", "A : b\r\n\r\n", ""},
		{"long first field", "A: " + strings.Repeat("x", 100_000) + "\r\n\r\n", ""},
		{"long first line that is no field", strings.Repeat("x", 100_000) + "\r\n\r\n", headless},
		{"binary", "\x00\xff\xfe\r\n\r\n\x00", headless},
		{"signed", sig("from:to:subject"), ""},
		{"our field is signed", sig("from : X-Postrider-Trace\r\n\t:to"), covered},
		{"our field is signed, other case", sig("from:x-postrider-trace"), covered},
		{"our field is signed by ARC", arc.Replace(sig("from:x-postrider-trace")), covered},
		{"our field is signed, and is there", field + sig("from:x-postrider-trace"), ""},
		{
			"our field is there, and signed once more",
			field + sig("from:x-postrider-trace:x-postrider-trace"), covered,
		},
		{"a longer name is signed", sig("from:x-postrider-trace-2"), ""},
	}
	c := composer(t, ComposeConfig{})
	o := Origin{Trace: Trace{Inbox: "in@x.example", TaskID: 7}}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			m := parse(t, tt.raw)
			out, err := c.Compose(t.Context(), m, o, Style{Mode: Redirect})
			if err != nil {
				t.Fatal(err)
			}
			got := octetsOf(t, out.Reader())
			if reason, looped := Looped(parse(t, got).Header, "in@x.example", 50); !looped {
				t.Errorf("what goes out has no trace: %q\n%s", reason, got)
			}
			if int64(len(got)) != out.Size() {
				t.Errorf("%d octets, want Size() = %d", len(got), out.Size())
			}
			mode, remark := Redirect, ""
			if tt.attached != "" {
				mode, remark = Attach, "attached instead of redirected: "+tt.attached
			} else if want := trace + token("in@x.example") + "; task=7\r\n" + tt.raw; got != want {
				t.Errorf("it goes out as %q, want %q", got, want)
			}
			if out.Mode != mode || out.Remark != remark {
				t.Errorf("it goes out in mode %s, %q; want %s, %q", out.Mode, out.Remark, mode, remark)
			}
			nameless, err := (&Composer{}).Compose(t.Context(), m, o, Style{Mode: Redirect})
			if err != nil {
				t.Fatal(err)
			}
			want := trace + token("in@x.example") + "; task=7\r\n" + tt.raw
			if got := octetsOf(t, nameless.Reader()); got != want {
				t.Errorf("without an address of its own: %q, want %q", got, want)
			}
		})
	}
}

func TestLooped(t *testing.T) {
	c := content(t, plain)
	b, _ := io.ReadAll(c.Reader())
	once := string(b)
	tests := []struct {
		name, raw, inbox string
		want             bool
	}{
		{"fresh", plain, "in@x.example", false},
		{"ours", once, "in@x.example", true},
		{"ours, case of the address", once, "IN@X.example", true},
		{"another inbox", once, "other@x.example", false},
		{"ours below others", "X-Postrider-Trace: 0123; task=1\r\nReceived: x\r\n" + once, "in@x.example", true},
		{"a failure notice", "X-Postrider-Trace: report\r\n" + plain, "in@x.example", true},
		{"50 hops", strings.Repeat("Received: from x\r\n", 50) + plain, "in@x.example", false},
		{
			"51 inboxes", strings.Repeat("X-Postrider-Trace: 0123456789abcdef0123; task=1\r\n", 51) + plain,
			"in@x.example", true,
		},
		{"51 hops", strings.Repeat("Received: from x\r\n", 51) + plain, "in@x.example", true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			reason, got := Looped(parse(t, tt.raw).Header, tt.inbox, 50)
			if got != tt.want || got != strings.HasPrefix(reason, "loop") {
				t.Errorf("Looped = %q, %v, want %v", reason, got, tt.want)
			}
		})
	}
	field, _, _ := strings.Cut(once, "\n")
	if strings.Contains(field, "in@") || token("in@x.example") != "4396ad0f49db8a2a096d" {
		t.Errorf("trace field %q, want no address in it and a token that never changes", field)
	}
}

// rewriter makes SRS addresses of srs.example, on a day whose stamp is JJ.
func rewriter(t testing.TB) *srs.Rewriter {
	t.Helper()
	r, err := srs.New(srs.Config{
		Domain: "srs.example", Secrets: []string{"tops3cr3t"}, MaxAge: 21 * 24 * time.Hour,
		Now: func() time.Time { return time.Date(2026, 11, 20, 10, 0, 0, 0, time.UTC) },
	})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func bySRS(t testing.TB) func(*Config) {
	return func(c *Config) { c.EnvelopeFrom, c.SRS = SRS, rewriter(t) }
}

func TestEnvelope(t *testing.T) {
	configured := relayOn(t, 25)
	kept := relayOn(t, 25, func(c *Config) { c.EnvelopeFrom = Keep })
	rewritten := relayOn(t, 25, bySRS(t))
	long := strings.Repeat("x", 60) + "@y.example"
	const (
		bounce = "Content-Type: multipart/report; report-type=delivery-status; boundary=b"
		ofB    = "SRS0=X2rN=JJ=y.example=b@srs.example"
	)
	tests := []struct {
		name, header              string
		configured, inKeep, inSRS string
	}{
		{"none", "From: b@y.example", me, me, me},
		{"an address", "Return-Path: <b@y.example>", me, "b@y.example", ofB},
		{"without brackets", "Return-Path: b@y.example", me, "b@y.example", ofB},
		{"null", "Return-Path: <>", "", "", ""},
		{"null with a space", "Return-Path: < >", "", "", ""},
		{"empty field", "Return-Path:", me, me, me},
		{"no address", "Return-Path: <MAILER-DAEMON>", me, me, me},
		{"hostile", "Return-Path: <a@x.example> SIZE=1", me, me, me},
		{"the topmost counts", "Return-Path: <b@y.example>\r\nReturn-Path: <>", me, "b@y.example", ofB},
		{
			"rewritten by another", "Return-Path: <SRS0=abcd=JJ=y.example=b@z.example>",
			me, "SRS0=abcd=JJ=y.example=b@z.example", "SRS1=vxlS=z.example==abcd=JJ=y.example=b@srs.example",
		},
		{
			"rewritten by us", "Return-Path: <SRS0=abcd=JJ=y.example=b@srs.example>",
			me, "SRS0=abcd=JJ=y.example=b@srs.example", "SRS0=abcd=JJ=y.example=b@srs.example",
		},
		{
			"internationalised domain", "Return-Path: <b@bücher.example>",
			me, "b@bücher.example", "SRS0=bGTV=JJ=xn--bcher-kva.example=b@srs.example",
		},
		{"internationalised name", "Return-Path: <jörg@y.example>", me, "jörg@y.example", me},
		{"too long once it is rewritten", "Return-Path: <" + long + ">", me, long, me},
		{"quoted", `Return-Path: <"b c"@y.example>`, me, `"b c"@y.example`, `"SRS0=6HUp=JJ=y.example=b c"@srs.example`},
		{"a bounce whose Return-Path is missing", bounce, "", "", ""},
		{"an absence note", "Return-Path: <b@y.example>\r\nAuto-Submitted: auto-replied", "", "", ""},
		{
			"by a program that answers nobody", "Return-Path: <b@y.example>\r\nAuto-Submitted: auto-generated",
			me, "b@y.example", ofB,
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			m := parse(t, tt.header+"\r\nSubject: x\r\n\r\n")
			if got := configured.Envelope(m, Trace{Inbox: "in@x.example"}, nil).From; got != tt.configured {
				t.Errorf("with a configured sender: From = %q, want %q", got, tt.configured)
			}
			if got := kept.Envelope(m, Trace{Inbox: "in@x.example"}, nil).From; got != tt.inKeep {
				t.Errorf("in mode keep: From = %q, want %q", got, tt.inKeep)
			}
			if got := rewritten.Envelope(m, Trace{Inbox: "in@x.example"}, nil).From; got != tt.inSRS {
				t.Errorf("with SRS: From = %q, want %q", got, tt.inSRS)
			}
		})
	}
}

// TestLoopOfSeveralInboxes: what one inbox sent is known there again in whatever form another one
// sends it back.
func TestLoopOfSeveralInboxes(t *testing.T) {
	there, back := origin, origin
	there.Inbox, back.Inbox = "there@x.example", "back@x.example"
	c := composer(t, ComposeConfig{})
	modes := []Mode{Redirect, Rewrite, Attach, Notice}
	for _, first := range modes {
		for _, second := range modes {
			m := parse(t, plain)
			for _, step := range []struct {
				Mode
				Origin
			}{{first, there}, {second, back}} {
				m.HeaderOnly = step.Mode == Notice
				out, err := c.Compose(t.Context(), m, step.Origin, Style{Mode: step.Mode})
				if err != nil {
					t.Fatal(err)
				}
				m = parse(t, octetsOf(t, out.Reader()))
			}
			if _, looped := Looped(m.Header, there.Inbox, 50); !looped {
				t.Errorf("%s, then %s by another inbox: it is not known as a loop", first, second)
			}
		}
	}
	const folded = "X-Postrider-Trace:\r\n\t0123456789abcdef0123;\r\n\ttask=1\r\n"
	const want = "\r\nX-Postrider-Trace: 0123456789abcdef0123; task=1\r\n"
	if got := headerOf(t, compose(t, c, parse(t, folded+plain), Style{Mode: Attach})); !strings.Contains(got, want) {
		t.Errorf("a trace field that a relay folded is not kept, want %q in:\n%s", want, got)
	}
	m := parse(t, "X-Postrider-Trace: =?utf-8?q?=0D=0ABcc:_evil@x.example?=\r\nX-Postrider-Trace: a;\r\n b\r\n"+plain)
	if got := headerOf(t, compose(t, c, m, Style{Mode: Attach})); strings.Count(got, traceField) != 1 {
		t.Errorf("a trace field of somebody else's making is kept, want our own alone:\n%s", got)
	}
}
