package testserver

import (
	"bytes"
	"fmt"
	"net/mail"
	"runtime"
	"strings"
	"testing"
)

// recorder is a testing.TB whose Skip and Fatal can be looked at.
type recorder struct {
	testing.TB
	skip, fatal string
}

func (r *recorder) Helper() {}

func (r *recorder) Skip(args ...any) {
	r.skip = fmt.Sprint(args...)
	runtime.Goexit()
}

func (r *recorder) Fatal(args ...any) {
	r.fatal = fmt.Sprint(args...)
	runtime.Goexit()
}

func (r *recorder) Fatalf(format string, args ...any) {
	r.Fatal(fmt.Sprintf(format, args...))
}

func record(f func(testing.TB)) *recorder {
	r, done := &recorder{}, make(chan struct{})
	go func() {
		defer close(done)
		f(r)
	}()
	<-done
	return r
}

func TestMissing(t *testing.T) {
	tests := []struct {
		name, required, skip, fatal string
	}{
		{name: "at home", required: "", skip: "x is not installed"},
		{name: "switched off", required: "0", skip: "x is not installed"},
		{name: "where servers are required", required: "1", fatal: "x is not installed"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Setenv("POSTRIDER_REQUIRE_SERVERS", tt.required)
			got := record(func(tb testing.TB) { missing(tb, "x is not installed") })
			if got.skip != tt.skip || got.fatal != tt.fatal {
				t.Errorf("skip %q, fatal %q; want skip %q, fatal %q", got.skip, got.fatal, tt.skip, tt.fatal)
			}
		})
	}
}

func TestMail(t *testing.T) {
	raw := Mail("a@example.com", "b@example.com", "Grüße", "one\r\ntwo\n", "X-Test: 1")
	count := func(end string) int { return bytes.Count(raw, []byte(end)) }
	if ends := count("\r\n"); count("\n") != ends || count("\r") != ends {
		t.Errorf("line ends are not all CRLF: %q", raw)
	}
	msg, err := mail.ReadMessage(bytes.NewReader(raw))
	if err != nil {
		t.Fatal(err)
	}
	if got := msg.Header.Get("X-Test"); got != "1" {
		t.Errorf("the extra field is %q; want 1", got)
	}
	if !strings.HasSuffix(string(raw), "\r\n\r\none\r\ntwo\r\n") {
		t.Errorf("body: %q", raw)
	}
	other, err := mail.ReadMessage(bytes.NewReader(Mail("a@example.com", "b@example.com", "s", "b")))
	if err != nil {
		t.Fatal(err)
	}
	if id := msg.Header.Get("Message-ID"); id == "" || id == other.Header.Get("Message-ID") {
		t.Errorf("Message-ID %q is empty or not unique", id)
	}
}
