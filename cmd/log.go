package cmd

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"

	"postrider/internal/imapsrc"
	"postrider/internal/text"
)

// logger writes to standard error, and nothing below a warning unless asked: cron mails what is printed. A person at a
// terminal gets plain sentences, unless --log-format asks for a format.
func (a *app) logger() (*slog.Logger, error) {
	level := map[int]slog.Level{0: slog.LevelWarn, 1: slog.LevelInfo}[min(a.verbose, 2)]
	if a.verbose > 1 {
		level = slog.LevelDebug
	}
	opts := &slog.HandlerOptions{Level: level}
	switch a.logFormat {
	case "":
		if isTerminal(a.err) {
			return slog.New(&sentences{app: a, level: level, mu: new(sync.Mutex)}), nil
		}
		return slog.New(slog.NewTextHandler(a.err, opts)), nil
	case "text":
		return slog.New(slog.NewTextHandler(a.err, opts)), nil
	case "json":
		return slog.New(slog.NewJSONHandler(a.err, opts)), nil
	}
	return nil, usage(fmt.Errorf("--log-format is %q; use text or json", a.logFormat))
}

// sentences is a log for a person: INBOX: MESSAGE (KEY VALUE): ERROR.
type sentences struct {
	app   *app
	level slog.Level
	attrs []slog.Attr
	mu    *sync.Mutex
}

// Enabled implements slog.Handler.
func (s *sentences) Enabled(_ context.Context, l slog.Level) bool { return l >= s.level }

// WithAttrs implements slog.Handler.
func (s *sentences) WithAttrs(attrs []slog.Attr) slog.Handler {
	with := *s
	with.attrs = append(append([]slog.Attr{}, s.attrs...), attrs...)
	return &with
}

// WithGroup implements slog.Handler. No group is used.
func (s *sentences) WithGroup(string) slog.Handler { return s }

// Handle implements slog.Handler.
func (s *sentences) Handle(_ context.Context, r slog.Record) error {
	attrs := append([]slog.Attr{}, s.attrs...)
	r.Attrs(func(attr slog.Attr) bool { attrs = append(attrs, attr); return true })
	line := sentence(r.Level, r.Message, attrs)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.app.progress.clear()
	_, err := fmt.Fprintln(s.app.err, line)
	return err
}

// sentence is a record for a person. The error of an inbox that failed says all by itself.
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
				fault = brief(err)
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

// brief is an error without the IMAP server's address, which its inbox has.
func brief(err error) string {
	if several, ok := err.(interface{ Unwrap() []error }); ok { //nolint:errorlint // this very error, and not one in it
		var out []string
		for _, e := range several.Unwrap() {
			out = append(out, brief(e))
		}
		return strings.Join(out, "; ")
	}
	if e, ok := err.(*imapsrc.Error); ok { //nolint:errorlint // see above
		return e.Brief()
	}
	if inner := errors.Unwrap(err); inner != nil {
		if before, ok := strings.CutSuffix(err.Error(), inner.Error()); ok {
			return before + brief(inner)
		}
	}
	return text.Error(err)
}
