package cmd

import (
	"bytes"
	"encoding/json"
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
		{Email: "club@firm.example", Error: "not tried: imap.example:993 could not be reached", Left: "imap.example:993"},
	}}
	if err := a.reportTable(r); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"\tfailed, see above\n", "\tcannot reach imap.example:993\n", "\tother [2J host scans it\n"} {
		if !strings.Contains(out.String(), want) || strings.Contains(out.String(), "\x1b") {
			t.Errorf("the table is\n%q\nwant in it, and printable: %q", out.String(), want)
		}
	}
}

// TestJSONControls: no control by a stranger reaches a terminal in JSON, and the text stays the
// same.
func TestJSONControls(t *testing.T) {
	const odd = "<a\x7f\u0080\u0085\u009b31m\u009f\x1b\u00a0é@b.example>"
	var out bytes.Buffer
	if err := (&app{out: &out}).printJSON(odd); err != nil {
		t.Fatal(err)
	}
	if want := `"<a\u007f\u0080\u0085\u009b31m\u009f\u001b` + "\u00a0é@b.example>\"\n"; out.String() != want {
		t.Errorf("it prints %q, want %q", out.String(), want)
	}
	var got string
	if err := json.Unmarshal(out.Bytes(), &got); err != nil || got != odd {
		t.Errorf("it is read as %q, %v; want %q", got, err, odd)
	}
}
