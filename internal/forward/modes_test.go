package forward

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	gomessage "github.com/emersion/go-message"

	"postrider/internal/message"
	"postrider/internal/testserver/smtpsink"
)

var origin = Origin{
	Trace: Trace{Inbox: "office@firm.example", TaskID: 7}, Folder: "INBOX", UID: 12,
	Registered: time.Date(2026, 11, 20, 10, 0, 0, 0, time.UTC), Size: 4321, MaxSize: 50 << 20,
}

func composer(t testing.TB, cfg ComposeConfig) *Composer {
	t.Helper()
	if cfg.From == "" {
		cfg.From = "Intake <" + me + ">"
	}
	c, err := NewComposer(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func compose(t testing.TB, c *Composer, m *message.Message, s Style) *Content {
	t.Helper()
	out, err := c.Compose(t.Context(), m, origin, s)
	if err != nil {
		t.Fatalf("Compose in mode %s: %v", s.Mode, err)
	}
	return out
}

func octetsOf(t testing.TB, r io.Reader) string {
	t.Helper()
	b, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// odd are our own messages, one for each oddity, and those of the shared corpus, when it is there.
func odd(t *testing.T) map[string]string {
	t.Helper()
	out := map[string]string{}
	for _, pattern := range []string{"testdata/odd/*.eml", "../../../shared/corpus/*/*/*.eml"} {
		files, _ := filepath.Glob(pattern)
		for _, f := range files {
			raw, err := os.ReadFile(f)
			if err != nil {
				t.Fatal(err)
			}
			out[filepath.Base(filepath.Dir(f))+"/"+filepath.Base(f)] = string(raw)
		}
	}
	if len(out) < 35 {
		t.Fatalf("%d messages in testdata/odd, want all of them", len(out))
	}
	filler := "X-Filler: " + strings.Repeat("y", 900) + "\r\n"
	out["made/header of 1200 KiB"] = "From: a@x.example\r\n" + strings.Repeat(filler, 1350) + "\r\nbody\r\n"
	return out
}

// arrival is what came of one message in one mode.
type arrival struct {
	name     string
	mode     Mode
	original string // canonical
	data     string
}

// TestModes sends every odd message in every mode to a relay that takes all, and to one that takes
// the least.
func TestModes(t *testing.T) {
	var all []arrival
	for relay, extensions := range map[string][]string{
		"all extensions": {"8BITMIME", "SMTPUTF8", "SIZE"}, "no extension": {"SIZE"},
	} {
		s := sink(t, smtpsink.Options{Extensions: extensions})
		r := relayOn(t, s.Port())
		for name, raw := range odd(t) {
			m := parse(t, raw)
			for _, mode := range []Mode{Redirect, Rewrite, Attach} {
				style := Style{Mode: mode, Fallback: len(extensions) == 1}
				content := compose(t, composer(t, ComposeConfig{}), m, style)
				again := compose(t, composer(t, ComposeConfig{}), m, style)
				if octetsOf(t, again.Reader()) != octetsOf(t, content.Reader()) {
					t.Errorf("%s, %s: composed again it is another message, want the same in each attempt", name, mode)
				}
				res, err := send(t, r, content, "a@x.example")
				if got := brief(res); got != "a accepted 250 2.0.0" || err != nil {
					t.Errorf("%s, %s, %s: Send = %+v, %v, want it accepted", name, mode, relay, res, err)
					continue
				}
				sent := s.Messages()[len(s.Messages())-1]
				if res.Sent.Size() != sent.Size && res.Sent.Size()+2 != sent.Size {
					t.Errorf("%s, %s: %d octets arrived, want Size() = %d", name, mode, sent.Size, res.Sent.Size())
				}
				a := arrival{name, res.Sent.Mode, octetsOf(t, m.Body.Reader()), string(sent.Data)}
				a.check(t)
				if len(extensions) == 1 {
					a.checkPlain(t)
				}
				all = append(all, a)
			}
		}
	}
	checkWithPython(t, all)
}

func (a arrival) check(t *testing.T) {
	t.Helper()
	e, err := gomessage.Read(strings.NewReader(a.data))
	_, before := gomessage.Read(strings.NewReader(a.original))
	if unreadable(err) && (a.mode != Redirect || !unreadable(before)) {
		t.Errorf("%s, %s: what arrived cannot be parsed: %v\n%.500s", a.name, a.mode, err, a.data)
		return
	}
	switch a.mode {
	case Redirect:
		if !strings.HasSuffix(strings.TrimSuffix(a.data, "\r\n"), strings.TrimSuffix(a.original, "\r\n")) {
			t.Errorf("%s: the original is not what arrived below the trace field", a.name)
		}
	case Rewrite:
		_, body, _ := strings.Cut(a.original, "\r\n\r\n")
		_, got, _ := strings.Cut(a.data, "\r\n\r\n")
		same := strings.TrimSuffix(got, "\r\n") == strings.TrimSuffix(body, "\r\n")
		if !same && !strings.HasPrefix(a.original, "\r\n") {
			t.Errorf("%s: the body is %.300q, want %.300q", a.name, got, body)
		}
		a.checkHeader(t, e.Header)
	case Attach:
		if got := taken(t, e); got != a.original {
			t.Errorf("%s: the attachment is %.300q, want the original octet for octet: %.300q", a.name, got, a.original)
		}
		a.checkHeader(t, e.Header)
	}
}

func unreadable(err error) bool {
	return err != nil && !gomessage.IsUnknownCharset(err) && !gomessage.IsUnknownEncoding(err)
}

// checkHeader: what is composed can be read by those who read nothing but RFC 5322.
func (a arrival) checkHeader(t *testing.T, h gomessage.Header) {
	t.Helper()
	if !strings.HasSuffix(h.Get("From"), "<"+me+">") || len(headerValues(h, "From")) != 1 {
		t.Errorf("%s, %s: From is %q, want one with our address", a.name, a.mode, headerValues(h, "From"))
	}
	for _, name := range []string{"Message-Id", "Date", "X-Postrider-Trace"} {
		if h.Get(name) == "" {
			t.Errorf("%s, %s: there is no %s, want one", a.name, a.mode, name)
		}
	}
	head, _, _ := strings.Cut(a.data, "\r\n\r\n")
	if strings.ContainsFunc(head, func(r rune) bool { return r >= 0x80 }) {
		t.Errorf("%s, %s: the header has 8-bit octets, want ASCII:\n%.500s", a.name, a.mode, head)
	}
}

func headerValues(h gomessage.Header, name string) []string {
	var out []string
	for f := h.FieldsByKey(name); f.Next(); {
		out = append(out, f.Value())
	}
	return out
}

// taken takes the attachment out.
func taken(t *testing.T, e *gomessage.Entity) string {
	t.Helper()
	parts := e.MultipartReader()
	if parts == nil {
		return "no multipart"
	}
	var last string
	for n := 0; ; n++ {
		part, err := parts.NextPart()
		if errors.Is(err, io.EOF) {
			if n != 2 {
				return fmt.Sprintf("%d parts", n)
			}
			return last
		}
		if err != nil {
			return err.Error()
		}
		last = octetsOf(t, part.Body)
	}
}

// checkPlain: a relay without extensions got what RFC 5321 and 5322 allow.
func (a arrival) checkPlain(t *testing.T) {
	t.Helper()
	form, err := shapeOf(strings.NewReader(a.data))
	if err != nil || form.nul || form.eight || form.longest > maxLine {
		t.Errorf("%s, %s: %+v arrived at a relay without extensions, want short lines of 7 bits", a.name, a.mode, form)
	}
}

// checkWithPython has Python's email package read the same, where there is a Python.
func checkWithPython(t *testing.T, all []arrival) {
	t.Helper()
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Log("no python3 here: what arrived was not read with Python")
		return
	}
	type one struct {
		Name           string
		Mode           Mode
		Data, Original []byte
	}
	var in bytes.Buffer
	for _, a := range all {
		if err := json.NewEncoder(&in).Encode(one{a.name, a.mode, []byte(a.data), []byte(a.original)}); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.CommandContext(t.Context(), python, "testdata/read.py")
	cmd.Stdin = &in
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Errorf("Python reads it otherwise: %v\n%s", err, out)
	}
}
