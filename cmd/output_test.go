package cmd

import (
	"bytes"
	"strings"
	"testing"

	"postrider/internal/pass"
)

// TestReportTableNote is an inbox that failed, and one that another run with a nasty name scans.
// The log has the error; the row has where it is.
func TestReportTableNote(t *testing.T) {
	var out bytes.Buffer
	a := &app{out: &out}
	r := pass.Report{Inboxes: []pass.InboxReport{
		{Email: "desk@firm.example", Error: "log in: \x1b[2Jno\nand close: no"},
		{Email: "team@firm.example", Busy: "other\x1b[2J\nhost scans it"},
	}}
	if err := a.reportTable(r); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"\tfailed, see above\n", "\tother [2J host scans it\n"} {
		if !strings.Contains(out.String(), want) || strings.Contains(out.String(), "\x1b") {
			t.Errorf("the table is\n%q\nwant in it, and printable: %q", out.String(), want)
		}
	}
}
