package cmd

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"text/tabwriter"
	"time"

	"postrider/internal/terminal"
	"postrider/internal/text"
	"postrider/internal/transcript"
)

// logger writes to standard error, and nothing below a warning unless asked: cron mails what is
// printed. A person at a terminal gets plain sentences, unless --log-format asks for a format.
func (a *app) logger() *slog.Logger {
	level := []slog.Level{slog.LevelWarn, slog.LevelInfo, slog.LevelDebug, transcript.Level}[min(a.verbose, 3)]
	opts := &slog.HandlerOptions{Level: level}
	switch {
	case a.logFormat == logJSON:
		return slog.New(slog.NewJSONHandler(a.err, opts))
	case a.logFormat == "" && isTerminal(a.err):
		return slog.New(terminal.NewLog(a.err, level, func() { a.bar.Clear() }))
	}
	return slog.New(slog.NewTextHandler(a.err, opts))
}

func isTerminal(w io.Writer) bool { return terminal.Is(w) }

// table is a table with these columns, for standard output.
func (a *app) table(header ...string) *terminal.Table {
	return &terminal.Table{Width: cmp.Or(a.width, terminal.Columns(a.out)), Header: header}
}

// print prints to standard output.
func (a *app) print(format string, args ...any) {
	_, err := fmt.Fprintf(a.out, format, args...)
	a.printed(err)
}

// printed keeps the error of what prints to standard output.
func (a *app) printed(err error) { a.unprinted = cmp.Or(a.unprinted, err) }

// tell prints what was done, on a terminal only.
func (a *app) tell(format string, args ...any) {
	if isTerminal(a.out) {
		a.print(format, args...)
	}
}

// show prints a table. An empty one on a terminal is the line next instead, which says what to do.
func (a *app) show(t *terminal.Table, next string) {
	if t.Len() == 0 && isTerminal(a.out) {
		_, _ = fmt.Fprintln(a.err, next)
		return
	}
	a.printed(t.Print(a.out))
}

// fields prints names and values side by side; those without a value are left out.
func (a *app) fields(pairs ...string) {
	w := tabwriter.NewWriter(a.out, 0, 0, 2, ' ', 0)
	for ; len(pairs) > 1; pairs = pairs[2:] {
		if pairs[1] == "" {
			continue
		}
		value := text.Line(pairs[1])
		if pairs[0] == "status" && a.colors() {
			value = paintState(value)
		}
		_, _ = fmt.Fprintf(w, "%s\t%s\n", pairs[0], value) // Flush returns the first error
	}
	a.printed(w.Flush())
}

func (a *app) printJSON(v any) { a.printed(printJSON(a.out, v)) }

// printJSON prints one line. encoding/json leaves DEL and the controls above it as they are, which
// terminals obey; they are escaped, too.
func printJSON(w io.Writer, v any) error {
	var b, out strings.Builder
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false) // Message-IDs are full of angle brackets
	if err := enc.Encode(v); err != nil {
		return err
	}
	for _, r := range b.String() {
		if r >= '\u007f' && r <= '\u009f' {
			fmt.Fprintf(&out, `\u%04x`, r)
		} else {
			out.WriteRune(r)
		}
	}
	_, err := io.WriteString(w, out.String())
	return err
}

// when is a time for people: relative and local on a terminal, RFC 3339 in UTC elsewhere.
func (a *app) when(t *time.Time) string {
	switch {
	case t == nil:
		return "never"
	case isTerminal(a.out):
		return text.Ago(time.Since(*t).Round(time.Second)) + t.Local().Format(" (2006-01-02 15:04:05)")
	}
	return t.UTC().Format(time.RFC3339)
}

// whenKnown is when, but empty without a time.
func (a *app) whenKnown(t *time.Time) string {
	if t == nil {
		return ""
	}
	return a.when(t)
}

func yesNo(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}
