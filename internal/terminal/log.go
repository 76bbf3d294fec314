package terminal

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"sync"

	"postrider/internal/text"
)

// Log is a log for a person: INBOX: MESSAGE (KEY VALUE): ERROR. The error of an inbox that failed
// stands by itself.
type Log struct {
	out   io.Writer
	level slog.Level
	clear func() // makes room for a line
	attrs []slog.Attr
	mu    *sync.Mutex
}

// NewLog logs to out what is at least of the level; clear is called before each line.
func NewLog(out io.Writer, level slog.Level, clear func()) *Log {
	return &Log{out: out, level: level, clear: clear, mu: new(sync.Mutex)}
}

// Enabled implements slog.Handler.
func (l *Log) Enabled(_ context.Context, level slog.Level) bool { return level >= l.level }

// WithAttrs implements slog.Handler.
func (l *Log) WithAttrs(attrs []slog.Attr) slog.Handler {
	with := *l
	with.attrs = append(append([]slog.Attr{}, l.attrs...), attrs...)
	return &with
}

// WithGroup implements slog.Handler. No group is used.
func (l *Log) WithGroup(string) slog.Handler { return l }

// Handle implements slog.Handler.
func (l *Log) Handle(_ context.Context, r slog.Record) error {
	attrs := append([]slog.Attr{}, l.attrs...)
	r.Attrs(func(attr slog.Attr) bool { attrs = append(attrs, attr); return true })
	line := sentence(r.Level, r.Message, attrs)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.clear()
	_, err := fmt.Fprintln(l.out, line)
	return err
}

// sentence is a record for a person.
func sentence(level slog.Level, message string, attrs []slog.Attr) string {
	who, fault := "postrider", ""
	var details []string
	for _, attr := range attrs {
		switch attr.Key {
		case "inbox":
			who = attr.Value.String()
		case "error":
			fault = attr.Value.String()
			if err, ok := attr.Value.Any().(error); ok {
				fault = text.Brief(err)
			}
		default:
			details = append(details, attr.Key+" "+attr.Value.String())
		}
	}
	if fault != "" && who != "postrider" && level >= slog.LevelError {
		return who + ": " + text.Line(fault)
	}
	if len(details) > 0 {
		message += " (" + strings.Join(details, ", ") + ")"
	}
	if fault != "" {
		message += ": " + fault
	}
	return who + ": " + text.Line(message)
}
