package cmd

import (
	"bytes"
	"strings"
	"testing"

	"postrider/internal/pass"
)

// TestReportTableNote is an inbox whose server said something nasty: its row stays one line.
func TestReportTableNote(t *testing.T) {
	var out bytes.Buffer
	a := &app{out: &out}
	r := pass.Report{Inboxes: []pass.InboxReport{{Email: "desk@firm.example", Error: "log in: \x1b[2Jno\nand close: no"}}}
	if err := a.reportTable(r); err != nil {
		t.Fatal(err)
	}
	const want = "log in: [2Jno and close: no"
	if !strings.Contains(out.String(), want) || strings.Contains(out.String(), "\x1b") {
		t.Errorf("the table is\n%q\nwant the error in one printable line: %q", out.String(), want)
	}
}
