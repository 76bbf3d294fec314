package forward

import (
	"bufio"
	"io"
	"net/textproto"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"postrider/internal/address"
	"postrider/internal/message"
	"postrider/internal/testserver/effort"
)

var traceLine = regexp.MustCompile(`^X-Postrider-Trace: [0-9a-f]{20}; task=-?[0-9]+\r\n$`)

// FuzzRedirect: below one trace field, which no inbox can put anything into, the original is sent
// octet for octet, and is understood as it was before. Where the field would do harm, it is
// attached, and has a trace as well.
func FuzzRedirect(f *testing.F) {
	for _, raw := range []string{
		plain, "", "\r\nx", "hello there: world", "A : b\n\nx", "From a@x.example\nA: b\n\n", "\x00:\n\n",
		"ARC-Message-Signature: a; h=x-postrider-trace\r\n\r\n",
	} {
		f.Add(raw, "in@x.example", int64(7))
	}
	files, _ := filepath.Glob("../../../shared/corpus/*/*/*.eml")
	for _, name := range files {
		if raw, err := os.ReadFile(name); err == nil && len(raw) < 4<<10 {
			f.Add(string(raw), "in@x.example", int64(1))
		}
	}
	relays := senders(f)
	composes, err := NewComposer(ComposeConfig{From: me})
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, raw, inbox string, task int64) {
		m := inMemory(t, raw)
		var c *Content
		effort.Within(t, len(raw), func() {
			var err error
			o := Origin{Trace: Trace{Inbox: inbox, TaskID: task}}
			if c, err = composes.Compose(t.Context(), m, o, Style{Mode: Redirect}); err != nil {
				t.Fatal(err)
			}
		})
		if c.Mode == Attach {
			if _, looped := Looped(inMemory(t, octets(t, c.Reader())).Header, inbox, 1_000_000); !looped {
				t.Error("what was attached is no loop in the inbox, want it to be one")
			}
			return
		}
		sent, original := octets(t, c.Reader()), octets(t, m.Body.Reader())
		head, found := strings.CutSuffix(sent, original)
		if !found || c.Size() != int64(len(sent)) || c.eight != has8bit(original) {
			t.Fatalf("sent is %q (size %d, 8 bits %v), want the original at its end", sent, c.Size(), c.eight)
		}
		if c.utf8 && !m.Header.Has8bit() {
			t.Error("utf8 although the header is ASCII")
		}
		again := inMemory(t, sent).Header
		checkTrace(t, head, m.Header, again)
		if _, looped := Looped(again, inbox, 1_000_000); !looped {
			t.Error("what was forwarded from the inbox is no loop there, want it to be one")
		}
		for _, name := range []string{
			"From", "To", "Subject", "Message-Id", "Received", "Return-Path", "Dkim-Signature", "A",
		} {
			if got, want := again.Values(name), m.Header.Values(name); !slices.Equal(got, want) {
				t.Errorf("%s is %q after forwarding, want %q as before", name, got, want)
			}
		}
		for _, r := range relays {
			from := r.Envelope(m, Trace{Inbox: inbox}, nil).From
			if _, err := address.Parse(from); from != "" && err != nil {
				t.Errorf("the envelope's sender cannot be sent: %v", err)
			}
		}
	})
}

// checkTrace: head is one field, which is new on top, and no signature speaks of it.
func checkTrace(t *testing.T, head string, before, after message.Header) {
	t.Helper()
	if !traceLine.MatchString(head) {
		t.Errorf("on top is %q, want one trace field", head)
	}
	got, had := after.Values(traceField), before.Values(traceField)
	if len(got) != len(had)+1 || !strings.Contains(head, got[0]) {
		t.Errorf("trace fields are %q, want one on top of %q", got, had)
	}
	for _, name := range []string{"Dkim-Signature", "Arc-Message-Signature"} {
		for _, v := range before.Values(name) {
			tags := strings.ToLower(strings.Join(strings.Fields(v), ""))
			if len(had) == 0 && strings.Contains(";"+tags+";", ";h="+strings.ToLower(traceField)+";") {
				t.Errorf("%s covers the trace field that was added", name)
			}
		}
	}
}

// senders are relays with a configured sender, with the message's, and with a rewritten one.
func senders(f *testing.F) []*Relay {
	f.Helper()
	var out []*Relay
	for _, from := range []string{me, Keep, SRS} {
		r, err := NewRelay(Config{
			Host: "localhost", Port: 25, Security: "none", From: me, EnvelopeFrom: from, SRS: rewriter(f),
		})
		if err != nil {
			f.Fatal(err)
		}
		out = append(out, r)
	}
	return out
}

func inMemory(t *testing.T, raw string) *message.Message {
	t.Helper()
	b := (&message.Spooler{Limit: 16 << 20, Budget: 64 << 20}).New()
	_, _ = io.WriteString(b, raw)
	m, err := message.Parse(b)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func octets(t *testing.T, r io.Reader) string {
	t.Helper()
	b, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func has8bit(s string) bool {
	return strings.ContainsFunc(s, func(r rune) bool { return r >= utf8.RuneSelf })
}

// FuzzReply: whatever a relay says is one printable line and has a verdict, and nobody is refused
// for good because of a reply that will not stay.
func FuzzReply(f *testing.F) {
	for _, s := range []string{
		"250 2.1.5 ok\r\n", "250\r\n", "354 \r\n", "550-5.1.1 no\r\n550 5.1.1 user\r\n", "421 4.3.2 closing\r\n",
		"452 4.5.3 too many\r\n", "2500 x\r\n", "550 a\x1b[31mb\xff\tc\r\n",
		"553 5.7.1 Sender address rejected: not owned by user\r\n", "",
	} {
		f.Add(s, uint(5), true)
	}
	stages := slices.Concat(opening, anySender, []Stage{StageContent})
	f.Fuzz(func(t *testing.T, wire string, n uint, own bool) {
		var rep reply
		var err error
		effort.Within(t, len(wire), func() { rep, err = readReply(bufio.NewReader(strings.NewReader(wire))) })
		if err != nil {
			checkPrintable(t, err.Error())
			return
		}
		if rep.code < 200 || rep.code > 599 || rep.enhanced != "" && enhancedCode(rep.enhanced) == 0 {
			t.Errorf("readReply(%q) = %+v, want a reply's code", wire, rep)
		}
		checkPrintable(t, rep.text)
		if same, ok := replyIn(&textproto.Error{Code: rep.code, Msg: wire}); ok {
			checkPrintable(t, same.line())
		}
		at := stages[n%uint(len(stages))]
		v, fix := classify(at, rep, own)
		checkPrintable(t, fix)
		switch started := !slices.Contains(opening, at); {
		case v == refused && rep.code < 500, v == relayRefuses && started && rep.code < 500:
			t.Errorf("%+v at %s is %d, want only 5yz to be for good", rep, at, v)
		case v == tooMany && at != StageRCPT, !started && v != relayDown && v != relayRefuses:
			t.Errorf("%+v at %s is %d, want who is to blame there", rep, at, v)
		case rep.code == 421 && v != relayDown:
			t.Errorf("421 at %s is %d, want the relay to be down", at, v)
		}
	})
}

func checkPrintable(t *testing.T, s string) {
	t.Helper()
	unprintable := func(r rune) bool { return !unicode.IsGraphic(r) }
	if strings.ContainsFunc(s, unprintable) || !utf8.ValidString(s) || len(s) > 600 {
		t.Errorf("%q is not one printable line", s)
	}
}
