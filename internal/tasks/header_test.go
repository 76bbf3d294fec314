package tasks

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"

	"postrider/internal/message"
)

func headerOf(t *testing.T, raw string) *Header {
	t.Helper()
	spool := (&message.Spooler{Limit: 1 << 21, Budget: 1 << 22}).New()
	if _, err := io.Copy(spool, strings.NewReader(raw)); err != nil {
		t.Fatal(err)
	}
	m, err := message.Parse(spool)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = m.Close() })
	return HeaderOf(m.Header)
}

// TestHeaderOf: the fields are in their order, those of one name, too, unfolded and not decoded.
func TestHeaderOf(t *testing.T) {
	got := headerOf(t, "Received: by b\r\nFrom: =?utf-8?q?A=2C?=\r\n <a@x.example>\r\n"+
		"RECEIVED: by a\r\nno field\r\n\r\nBody: none\r\n")
	want := []HeaderField{{"received", "by b"}, {"from", "=?utf-8?q?A=2C?= <a@x.example>"}, {"received", "by a"}}
	if !slices.Equal(got.Fields, want) || got.Cut {
		t.Errorf("the header is %+v, want all of %+v", got, want)
	}
	text, err := json.Marshal(headerOf(t, "\r\nno header\r\n"))
	if err != nil || string(text) != `{"header":[],"header_cut":false}` {
		t.Errorf("without fields it is %s, %v; want an empty list", text, err)
	}
}

// TestHeaderOfIsBounded: a header that is too large ends before the field that does not fit, and
// says so. What is escaped in JSON counts as such.
func TestHeaderOfIsBounded(t *testing.T) {
	for name, value := range map[string]string{
		"many": "x", "large": strings.Repeat("x", 1000), "escaped": strings.Repeat("\x01", 900),
	} {
		t.Run(name, func(t *testing.T) {
			var raw strings.Builder
			for i := range 10_000 {
				fmt.Fprintf(&raw, "X-%d: %s\r\n", i, value)
			}
			got := headerOf(t, raw.String())
			text, err := json.Marshal(got.Fields)
			if err != nil || !got.Cut || len(text) > maxHeader+2 || len(text) < maxHeader-6000 {
				t.Errorf("%d octets, %v, cut: %t; want about %d, and that it was cut",
					len(text), err, got.Cut, maxHeader)
			}
			if got.Fields[1] != (HeaderField{"x-1", value}) {
				t.Errorf("the second field is %+v", got.Fields[1])
			}
		})
	}
}
