package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"postrider/cmd"
)

var someDay = time.Date(2026, 11, 23, 7, 0, 0, 0, time.UTC)

// TestManual: each command that the help shows has a page, and each page names all its flags.
func TestManual(t *testing.T) {
	dir := t.TempDir()
	if err := writeManual(dir, "1.2.3", someDay); err != nil {
		t.Fatal(err)
	}
	n := 0
	err := eachCommand(cmd.Commands(), func(c *cobra.Command) error {
		n++
		page := string(manualPage(c, "1.2.3", someDay))
		for line := range strings.Lines(c.Flags().FlagUsages()) {
			name := strings.Fields(line)[0]
			if !strings.Contains(page, roff(strings.TrimSuffix(name, ","))) {
				t.Errorf("the page %s does not have the flag %s", pageName(c), name)
			}
		}
		_, err := os.Stat(filepath.Join(dir, pageName(c)+".1.gz"))
		return err
	})
	if err != nil {
		t.Error(err)
	}
	if n < 40 {
		t.Errorf("there are pages for %d commands, want all of them", n)
	}
}

// TestManualPage: the parts of a page, and text that roff would take for commands.
func TestManualPage(t *testing.T) {
	c := &cobra.Command{
		Use: "demo [--as NAME]", Short: `Back\slash`, Run: func(*cobra.Command, []string) {},
		Long: ".dot begins `this` paragraph\n'quote, the next line\n\nExamples:\n  demo --as x\n  demo\n\n" +
			"A list:\n  one  1\n  two  2\n\n  demo --as y\n\n\tdemo --as z",
	}
	c.Flags().StringP("as", "a", "", "the `NAME` that is shown")
	c.Flags().Int("times", 3, "so many `N`")
	c.Flags().String("to", "all", "who sees it")
	c.Flags().Bool("hidden", false, "not for users")
	if err := c.Flags().MarkHidden("hidden"); err != nil {
		t.Fatal(err)
	}
	want := `.TH "DEMO" "1" "2026-11-23" "postrider 1.2.3" "postrider"
.nh
.ad l
.SH NAME
demo \- Back\eslash
.SH SYNOPSIS
.B demo [\-\-as NAME] [flags]
.SH DESCRIPTION
.PP
\&.dot begins \(gathis\(ga paragraph
\&'quote, the next line
.SH EXAMPLES
.nf
  demo \-\-as x
  demo
.fi
.PP
.nf
A list:
  one  1
  two  2
.fi
.PP
.nf
  demo \-\-as y
.fi
.PP
.nf
	demo \-\-as z
.fi
.SH OPTIONS
.TP
\fB\-a, \-\-as\fR \fINAME\fR
the NAME that is shown
.TP
\fB\-\-times\fR \fIN\fR
so many N (default 3)
.TP
\fB\-\-to\fR \fIstring\fR
who sees it (default "all")
`
	if got := string(manualPage(c, "1.2.3", someDay)); got != want {
		t.Errorf("the page is\n%s\nwant\n%s", got, want)
	}
}
