package message

import (
	"context"
	"errors"
	"reflect"
	"strings"
	"testing"
)

func TestMessageParts(t *testing.T) {
	report := lines(`Content-Type: multipart/report; report-type=delivery-status; boundary=b

--b

A text.
--b
Content-Type: image/png
Content-Transfer-Encoding: base64

aaaa
--b
Content-Type: Message/Delivery-Status; Charset=utf-8
Content-Disposition: attachment; filename=report
Content-Transfer-Encoding: quoted-printable

Final-Recipient: utf-8; j=C3=B6rg@x.example
--b
Content-Type: message/rfc822

Subject: inside
Content-Type: multipart/mixed; boundary=c

--c

no part of this message
--b--
`)
	parts, err := parse(t, report).Parts(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	want := []Part{
		{MediaType: "text/plain", Text: "A text."},
		{
			MediaType: "message/delivery-status", Params: map[string]string{"charset": "utf-8"},
			Text: "Final-Recipient: utf-8; jörg@x.example",
		},
		{
			MediaType: "message/rfc822", Params: map[string]string{},
			Text: "Subject: inside\nContent-Type: multipart/mixed; boundary=c\n\n--c\n\nno part of this message",
		},
	}
	if !reflect.DeepEqual(parts, want) {
		t.Errorf("Parts = %+v, want %+v", parts, want)
	}
}

func TestMessagePartsAreBounded(t *testing.T) {
	var raw strings.Builder
	raw.WriteString("Content-Type: multipart/mixed; boundary=b\r\n")
	for range 6 {
		raw.WriteString("\r\n--b\r\n\r\n" + strings.Repeat(strings.Repeat("x", 70)+"\r\n", 2*maxPart/72))
	}
	parts, err := parse(t, raw.String()).Parts(t.Context())
	if err != nil || len(parts) != 6 {
		t.Fatalf("Parts = %d parts, %v, want 6", len(parts), err)
	}
	all := 0
	for _, p := range parts {
		if all += len(p.Text); len(p.Text) > maxPart {
			t.Errorf("a part has %d octets, want at most 1 MiB", len(p.Text))
		}
	}
	if all > maxRaw || len(parts[3].Text) < maxPart/72*71 { // the CR of each line is left out
		t.Errorf("all parts have %d octets and the fourth has %d, want 4 MiB and 1 MiB", all, len(parts[3].Text))
	}
}

func TestMessagePartsEnd(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	m := parse(t, "Subject: x\r\n\r\ntext\r\n")
	if parts, err := m.Parts(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("Parts = %+v, %v, want the end of its context", parts, err)
	}
	m.HeaderOnly = true
	if parts, err := m.Parts(t.Context()); len(parts) > 0 || err != nil {
		t.Errorf("Parts of a header = %+v, %v, want none", parts, err)
	}
}
