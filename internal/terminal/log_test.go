package terminal

import (
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
)

// briefly is an error with a short form.
type briefly struct{ long, short string }

func (e briefly) Error() string { return e.long }
func (e briefly) Brief() string { return e.short }

func TestLog(t *testing.T) {
	folder := briefly{`imap host:143: open folder "A": no`, `folder "A" does not exist`}
	other := briefly{`imap host:143: open folder "B": no`, `folder "B" does not exist`}
	for _, tt := range []struct {
		name string
		log  func(*slog.Logger)
		want string
	}{
		{"an inbox that failed", func(l *slog.Logger) {
			l.With("inbox", "desk@firm.example").Error("the inbox could not be worked through", "error", folder)
		}, "desk@firm.example: folder \"A\" does not exist\n"},
		{"several folders, deep down", func(l *slog.Logger) {
			both := errors.Join(folder, fmt.Errorf("again: %w", other))
			l.Error("failed", "inbox", "desk@firm.example", "error", fmt.Errorf("open: %w", both))
		}, "desk@firm.example: open: folder \"A\" does not exist; again: folder \"B\" does not exist\n"},
		{"a warning of an inbox", func(l *slog.Logger) {
			full := errors.New("the disk\nis \x1b[2Jfull")
			l.Warn("a lease could not be renewed", "inbox", "desk@firm.example", "error", full)
		}, "desk@firm.example: a lease could not be renewed: the disk; is [2Jfull\n"},
		{"details", func(l *slog.Logger) {
			l.Warn("leases could not be renewed", "tasks", 3, "error", "no")
		}, "postrider: leases could not be renewed (tasks 3): no\n"},
		{"no details", func(l *slog.Logger) {
			l.Warn("there is no active inbox")
		}, "postrider: there is no active inbox\n"},
		{"below the level", func(l *slog.Logger) { l.Info("connected") }, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var out strings.Builder
			cleared := 0
			tt.log(slog.New(NewLog(&out, slog.LevelWarn, func() { cleared++ })))
			if out.String() != tt.want || cleared != strings.Count(tt.want, "\n") {
				t.Errorf("it prints %q and makes room %d times; want %q, and once a line",
					out.String(), cleared, tt.want)
			}
		})
	}
}
