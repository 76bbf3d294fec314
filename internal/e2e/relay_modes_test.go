package e2e

import (
	"bytes"
	"io"
	"maps"
	"strings"
	"testing"

	gomessage "github.com/emersion/go-message"

	"postrider/internal/testserver"
)

// setting does the first pass with other settings of the section forward: KEY, VALUE, ...
func setting(pairs ...string) func(w *relayWorld) {
	return func(w *relayWorld) {
		for i := 0; i < len(pairs); i += 2 {
			w.t.Setenv("POSTRIDER_FORWARD_"+pairs[i], pairs[i+1])
		}
	}
}

const (
	noEightBit = "smtpd_discard_ehlo_keywords = 8bitmime"
	noUTF8     = "smtputf8_enable = no"
)

// encodingCases are the rows about octets and addresses that some relays refuse, by mode.
func encodingCases() map[string]relayCase {
	raw := func(text string) [][]byte { return [][]byte{[]byte("From: alice@client.example\r\n" + text)} }
	umlauts := [][]byte{testserver.Mail("alice@client.example", desk, "umlauts", "Grüße")}
	header := raw("Subject: Größe\r\nMessage-ID: <8bit@client.example>\r\n\r\nThe body.\r\n")
	foreign := [][]byte{
		testserver.Mail("alice@client.example", desk, "foreign", "The body.", "Return-Path: <jörg@client.example>"),
	}
	long := [][]byte{testserver.Mail("alice@client.example", desk, "long", "short\r\n"+strings.Repeat("x", 2000))}
	bare := raw("Subject: bare\r\nMessage-ID: <bare@client.example>\r\n\r\none\rtwo\nthree\r\n")
	open := raw("Subject: open\r\nMessage-ID: <open@client.example>\r\n\r\none\r\ntwo")
	return map[string]relayCase{
		"8-bit text without 8BITMIME, attached": {
			settings: []string{noEightBit}, mails: umlauts,
			before: setting("MODE", "attach"), then: arrivesAttached,
		},
		"8-bit text without 8BITMIME, rewritten": {
			settings: []string{noEightBit}, mails: umlauts,
			before: setting("MODE", "rewrite"), then: arrivesAttached,
		},
		"8-bit text without 8BITMIME, with fallback": {
			settings: []string{noEightBit}, mails: umlauts,
			before: setting("FALLBACK", "attach"), then: arrivesAttached,
		},
		"8-bit text with 8BITMIME, rewritten": {
			mails: umlauts, before: setting("MODE", "rewrite"), then: bodyArrives("Grüße\r\n"),
		},
		"8-bit header without SMTPUTF8": {
			settings: []string{noUTF8}, mails: header, then: fieldArrives("Subject: Größe\r\n"),
		},
		"8-bit header without SMTPUTF8, rewritten": {
			settings: []string{noUTF8}, mails: header, before: setting("MODE", "rewrite"),
			then: fieldArrives("Subject: =?utf-8?q?Gr=C3=B6=C3=9Fe?="),
		},
		"sender that needs SMTPUTF8": {
			settings: []string{noUTF8}, mails: foreign,
			before: setting("ENVELOPE_FROM", "keep"), then: reasonSays("SMTPUTF8"),
		},
		"sender that needs SMTPUTF8, rewritten": {
			settings: []string{noUTF8}, mails: foreign,
			before: setting("ENVELOPE_FROM", "keep", "MODE", "rewrite"), then: arrivesFrom("forwarder@firm.example"),
		},
		"sender that needs SMTPUTF8, with fallback": {
			settings: []string{noUTF8}, mails: foreign,
			before: setting("ENVELOPE_FROM", "keep", "FALLBACK", "attach"), then: arrivesAttached,
		},
		"too large once it is attached": {
			settings: []string{"message_size_limit = 20000"}, mails: large(19_000),
			before: setting("MODE", "attach"), then: reasonSays("the relay takes at most 20000"),
		},
		"line of 2,000 octets": {
			mails: long, then: bodyArrives("short\r\n" + strings.Repeat("x", 998) + "\r\n "),
		},
		"line of 2,000 octets, with fallback": {
			mails: long, before: setting("FALLBACK", "attach"), then: arrivesAttached,
		},
		"bare CR and LF":              {mails: bare, then: bodyArrives("one\r\ntwo\r\nthree\r\n")},
		"no final line end":           {mails: open, then: bodyArrives("one\r\ntwo\r\n")},
		"no final line end, attached": {mails: open, before: setting("MODE", "attach"), then: arrivesAttached},
	}
}

// allRelayCases are all cases of the table, by the first cell of the row.
func allRelayCases() map[string]relayCase {
	all := relayCases()
	maps.Copy(all, encodingCases())
	return all
}

// only returns the only message that came through the relay.
func (w *relayWorld) only() []byte {
	w.t.Helper()
	w.relay.Drain(w.t)
	got := w.sink.Messages()
	if len(got) != 1 {
		w.t.Fatalf("%d messages arrived, want one", len(got))
	}
	return got[0].Data
}

// arrivesAttached checks that the attachment is the original, octet for octet.
func arrivesAttached(t *testing.T, w *relayWorld) {
	e, err := gomessage.Read(bytes.NewReader(w.only()))
	if err != nil {
		t.Fatal(err)
	}
	var last []byte
	for parts := e.MultipartReader(); parts != nil; {
		part, err := parts.NextPart()
		if err != nil {
			break
		}
		if last, err = io.ReadAll(part.Body); err != nil {
			t.Fatal(err)
		}
	}
	if string(last) != string(w.mails[0]) {
		t.Errorf("the attachment is %.300q, want the original %.300q", last, w.mails[0])
	}
}

// bodyArrives checks the beginning of the body.
func bodyArrives(want string) func(*testing.T, *relayWorld) {
	return func(t *testing.T, w *relayWorld) {
		if _, body, _ := strings.Cut(string(w.only()), "\r\n\r\n"); !strings.HasPrefix(body, want) {
			t.Errorf("the body that arrived is %.300q, want it to begin with %.300q", body, want)
		}
	}
}

// fieldArrives checks that the header has this line.
func fieldArrives(want string) func(*testing.T, *relayWorld) {
	return func(t *testing.T, w *relayWorld) {
		if head, _, _ := strings.Cut(string(w.only()), "\r\n\r\n"); !strings.Contains(head, "\r\n"+want) {
			t.Errorf("the header that arrived is\n%s\nwant %q in it", head, want)
		}
	}
}

// arrivesFrom checks the envelope sender.
func arrivesFrom(want string) func(*testing.T, *relayWorld) {
	return func(t *testing.T, w *relayWorld) {
		w.only()
		if got := w.sink.Messages()[0].From; got != want {
			t.Errorf("it arrived from %q, want %q", got, want)
		}
	}
}
