package forward

import (
	"strings"
	"testing"
)

func TestNotice(t *testing.T) {
	m := parse(t, "From: Alice <alice@client.example>\r\nSubject: =?utf-8?q?Gr=C3=B6=C3=9Fe?=\r\n"+
		"Message-ID: <big@client.example>\r\n\r\n")
	m.HeaderOnly = true
	c := compose(t, composer(t, ComposeConfig{}), m, Style{Mode: Redirect})
	if c.Mode != Notice || c.eight {
		t.Errorf("mode %s, 8 bits %v, want a notice that every relay takes", c.Mode, c.eight)
	}
	got := strings.ReplaceAll(octetsOf(t, c.Reader()), "=\r\n", "")
	for _, want := range []string{
		"Auto-Submitted: auto-generated\r\n", "In-Reply-To: <big@client.example>\r\n",
		"4.2 KiB", "50 MiB", "Folder / ", ": INBOX\r\n", "UID: 12\r\n",
		"Message-ID: <big@client.example>\r\n", "Alice <alice@client.example>\r\n", "Gr=C3=B6=C3=9Fe",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("want %q in the notice:\n%s", want, got)
		}
	}
}

func TestNoteTemplate(t *testing.T) {
	c := composer(t, ComposeConfig{Note: "{{.Task}} {{.UID}} {{.Folder}}: {{.Subject}}"})
	got := octetsOf(t, compose(t, c, parse(t, "Subject: =?utf-8?q?=C3=9F?=\r\n\r\n"), Style{Mode: Attach}).Reader())
	if !strings.Contains(got, "\r\n\r\n7 12 INBOX: =C3=9F\r\n--") {
		t.Errorf("want the note as its template says in:\n%s", got)
	}
	for name, bad := range map[string]string{
		"unknown": "{{.Nobody}}", "syntax": "{{.From", "too long": "{{printf \"%70000d\" 1}}",
	} {
		err := CheckNote(bad, nil)
		if err == nil || !strings.Contains(err.Error(), "forward.note") ||
			!strings.Contains(err.Error(), "{{.From}}") {
			t.Errorf("%s: CheckNote = %v, want an error that says what can be used", name, err)
		}
	}
}

// TestNoteOfCaptures: what routes captured stands in the note, on one line, and what they did not
// is empty.
func TestNoteOfCaptures(t *testing.T) {
	c := composer(t, ComposeConfig{Note: "File <{{.Captured.file}}>, client <{{.Captured.client}}>"})
	o := origin
	for want, captured := range map[string]func() map[string]string{
		"File <M-4711 b>, client <>": func() map[string]string {
			return map[string]string{"file": "M-4711\r\n\tb", "other": "x"}
		},
		"File <>, client <>": nil,
	} {
		o.Captured = captured
		out, err := c.Compose(t.Context(), parse(t, plain), o, Style{Mode: Attach})
		if err != nil {
			t.Fatal(err)
		}
		if got := octetsOf(t, out.Reader()); !strings.Contains(got, "\r\n\r\n"+want+"\r\n--") {
			t.Errorf("want the note %q in:\n%s", want, got)
		}
	}
	for note, want := range map[string]string{
		"{{.Captured.file}}": "", "{{with .Captured.client}}Client {{.}}{{end}}": "",
		"{{.Captured.fiel}}": `no entry for key "fiel"`,
	} {
		err := CheckNote(note, []string{"file", "client"})
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("CheckNote(%q) where file and client are captured = %v, want %q", note, err, want)
		}
	}
}

// TestNoteFails: a note that can be written for some messages only keeps none back.
func TestNoteFails(t *testing.T) {
	c := composer(t, ComposeConfig{Note: "{{if .Subject}}{{slice .Subject 0 10}}{{end}}"})
	out := compose(t, c, parse(t, "Subject: short\r\n\r\n"), Style{Mode: Attach})
	got := octetsOf(t, out.Reader())
	if !strings.Contains(got, "Forwarded from office@firm.example") ||
		!strings.Contains(out.Remark, "forward.note fails") {
		t.Errorf("want the default note, and that said; the remark is %q:\n%s", out.Remark, got)
	}
}
