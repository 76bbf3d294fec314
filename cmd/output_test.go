package cmd

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"testing"

	"postrider/internal/pass"
)

// TestReportTableNote is an inbox that failed, one that another run with a nasty name scans, and
// one whose server other inboxes could not reach. The log has the error; the row has where it is.
func TestReportTableNote(t *testing.T) {
	var out bytes.Buffer
	a := &app{out: &out}
	r := pass.Report{Inboxes: []pass.InboxReport{
		{Email: "desk@firm.example", Error: "log in: \x1b[2Jno\nand close: no"},
		{Email: "team@firm.example", Busy: "other\x1b[2J\nhost scans it"},
		{
			Email: "club@firm.example",
			Error: "not tried: imap.example:993 could not be reached", Left: "imap.example:993",
		},
	}}
	a.reportTable(r)
	for _, want := range []string{
		"\tfailed, see above\n", "\tcannot reach imap.example:993\n", "\tother [2J host scans it\n",
	} {
		if !strings.Contains(out.String(), want) || strings.Contains(out.String(), "\x1b") {
			t.Errorf("the table is\n%q\nwant in it, and printable: %q", out.String(), want)
		}
	}
}

// TestUnprinted: a command whose output cannot be written fails, and says why.
func TestUnprinted(t *testing.T) {
	full, stopped := io.Pipe()
	_ = full.CloseWithError(errors.New("no space left on device"))
	var errs bytes.Buffer
	a := &app{out: stopped, err: &errs, env: noEnv}
	code := a.run(t.Context(), []string{"version"})
	if code != exitFailed || errs.String() != "postrider: no space left on device\n" {
		t.Errorf("exit code %d, standard error %q; want %d, and the reason", code, errs.String(), exitFailed)
	}
}

// TestUnprintedWithError: what a command could not print is its failure, also if it ends with
// another error and exit code.
func TestUnprintedWithError(t *testing.T) {
	full := errors.New("no space left on device")
	for _, other := range []error{nil, errRetry, &exitError{exitRetry, errors.New("not all of it")}} {
		want := "postrider: no space left on device"
		if errorText(other) != "" {
			want += "\nnot all of it"
		}
		err := (&app{unprinted: full}).orUnprinted(other)
		if code, text := exitCode(err), errorText(err); code != exitFailed || text != want {
			t.Errorf("with the error %v: exit code %d, %q; want %d, %q", other, code, text, exitFailed, want)
		}
	}
}

// TestConfirmUnprinted: no question is asked about what could not be printed.
func TestConfirmUnprinted(t *testing.T) {
	var errs bytes.Buffer
	a := &app{in: strings.NewReader("y\n"), err: &errs, unprinted: errors.New("no space left on device")}
	err := a.confirm(false, "Make these changes?")
	if err == nil || !strings.HasPrefix(err.Error(), "nothing was changed") || errs.Len() > 0 {
		t.Errorf("confirm returns %v and prints %q, want an error, and no question", err, &errs)
	}
	if err := a.confirm(true, "Make these changes?"); err != nil {
		t.Errorf("with --yes confirm returns %v, want nil", err)
	}
}

// TestJSONControls: no control by a stranger reaches a terminal in JSON, and the text stays the
// same.
func TestJSONControls(t *testing.T) {
	const odd = "<a\x7f\u0080\u0085\u009b31m\u009f\x1b\u00a0é@b.example>"
	var out bytes.Buffer
	(&app{out: &out}).printJSON(odd)
	if want := `"<a\u007f\u0080\u0085\u009b31m\u009f\u001b` + "\u00a0é@b.example>\"\n"; out.String() != want {
		t.Errorf("it prints %q, want %q", out.String(), want)
	}
	var got string
	if err := json.Unmarshal(out.Bytes(), &got); err != nil || got != odd {
		t.Errorf("it is read as %q, %v; want %q", got, err, odd)
	}
}
