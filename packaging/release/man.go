package main

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"postrider/cmd"
)

// writeManual writes a manual page for each command, such as postrider-inbox-add.1.gz.
func writeManual(dir, version string, at time.Time) error {
	return eachCommand(cmd.Commands(), func(c *cobra.Command) error {
		var packed bytes.Buffer
		w, err := gzip.NewWriterLevel(&packed, gzip.BestCompression)
		if err != nil {
			return err
		}
		if _, err := w.Write(manualPage(c, version, at)); err != nil {
			return err
		}
		if err := w.Close(); err != nil {
			return err
		}
		return os.WriteFile(filepath.Join(dir, pageName(c)+".1.gz"), packed.Bytes(), 0o644)
	})
}

// eachCommand calls f for c and for all commands below it that are shown.
func eachCommand(c *cobra.Command, f func(*cobra.Command) error) error {
	if err := f(c); err != nil {
		return err
	}
	for _, sub := range shownBelow(c) {
		if err := eachCommand(sub, f); err != nil {
			return err
		}
	}
	return nil
}

func shownBelow(c *cobra.Command) []*cobra.Command {
	var out []*cobra.Command
	for _, sub := range c.Commands() {
		if sub.IsAvailableCommand() && sub.Name() != "help" {
			out = append(out, sub)
		}
	}
	return out
}

func pageName(c *cobra.Command) string { return strings.ReplaceAll(c.CommandPath(), " ", "-") }

// manualPage is the page of a command in man(7).
func manualPage(c *cobra.Command, version string, at time.Time) []byte {
	var b bytes.Buffer
	line := func(format string, args ...any) { _, _ = fmt.Fprintf(&b, format+"\n", args...) }
	title, day := strings.ToUpper(pageName(c)), at.Format(time.DateOnly)
	line(`.TH "%s" "1" "%s" "postrider %s" "postrider"`, title, day, roff(version))
	line(".nh\n.ad l\n.SH NAME\n%s \\- %s", roff(pageName(c)), roff(c.Short))
	line(".SH SYNOPSIS\n.B %s", roff(c.UseLine()))
	line(".SH DESCRIPTION")
	b.WriteString(sections(c.Long))
	writeFlags(&b, "OPTIONS", c.NonInheritedFlags())
	writeFlags(&b, "OPTIONS OF ALL COMMANDS", c.InheritedFlags())
	writeCommands(&b, c)
	return b.Bytes()
}

// title is a line of a help text that begins a section of a page.
var title = regexp.MustCompile(`^(Examples|Exit codes):$`)

var indented = regexp.MustCompile(`(?m)^[ \t]`)

// sections is a help text as man(7). A paragraph with an indented line stays as it is.
func sections(text string) string {
	var b strings.Builder
	for _, paragraph := range strings.Split(strings.TrimSpace(text), "\n\n") {
		lines := strings.Split(paragraph, "\n")
		if m := title.FindStringSubmatch(lines[0]); m != nil {
			b.WriteString(".SH " + strings.ToUpper(m[1]) + "\n")
			lines = lines[1:]
		} else {
			b.WriteString(".PP\n")
		}
		body := roffLines(lines)
		if indented.MatchString(paragraph) || strings.Contains(paragraph, ":  ") {
			body = ".nf\n" + body + ".fi\n"
		}
		b.WriteString(body)
	}
	return b.String()
}

func roffLines(lines []string) string {
	var b strings.Builder
	for _, l := range lines {
		b.WriteString(roff(l) + "\n")
	}
	return b.String()
}

// roff escapes text: a backslash, a dash that is to be copied, and what a line must not begin with.
func roff(s string) string {
	s = strings.NewReplacer(`\`, `\e`, "-", `\-`, "`", `\(ga`).Replace(s)
	if strings.HasPrefix(s, ".") || strings.HasPrefix(s, "'") {
		s = `\&` + s
	}
	return s
}

func writeFlags(b *bytes.Buffer, heading string, flags *pflag.FlagSet) {
	if !flags.HasAvailableFlags() {
		return
	}
	b.WriteString(".SH " + heading + "\n")
	flags.VisitAll(func(f *pflag.Flag) {
		if f.Hidden {
			return
		}
		value, text := pflag.UnquoteUsage(f)
		text += inHelpAfter(text, f)
		name := "--" + f.Name
		if f.Shorthand != "" {
			name = "-" + f.Shorthand + ", " + name
		}
		_, _ = fmt.Fprintf(b, ".TP\n\\fB%s\\fR", roff(name))
		if value != "" && f.NoOptDefVal == "" {
			_, _ = fmt.Fprintf(b, " \\fI%s\\fR", roff(value))
		}
		_, _ = fmt.Fprintf(b, "\n%s\n", roff(text))
	})
}

// inHelpAfter is what --help prints behind the text of a flag, such as ` (default "30d")`.
func inHelpAfter(text string, f *pflag.Flag) string {
	var one pflag.FlagSet
	one.AddFlag(f)
	_, after, _ := strings.Cut(one.FlagUsages(), text)
	return strings.TrimRight(after, "\n")
}

func writeCommands(b *bytes.Buffer, c *cobra.Command) {
	var also []string
	if c.HasParent() {
		also = append(also, pageName(c.Parent()))
	}
	if below := shownBelow(c); len(below) > 0 {
		b.WriteString(".SH COMMANDS\n")
		for _, sub := range below {
			_, _ = fmt.Fprintf(b, ".TP\n\\fB%s\\fR(1)\n%s\n", roff(pageName(sub)), roff(sub.Short))
		}
	}
	for i, name := range also {
		also[i] = ".BR " + roff(name) + " (1)\n"
	}
	if len(also) > 0 {
		b.WriteString(".SH SEE ALSO\n" + strings.Join(also, ""))
	}
}
