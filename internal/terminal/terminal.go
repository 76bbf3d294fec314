// Package terminal is what an operator sees and types at a terminal: tables that fit it, a log in
// sentences, a progress bar, and questions.
//
// Where there is no terminal, a table is text between tabs, and the rest is not used. Nothing in it
// knows what it shows.
package terminal

import (
	"errors"
	"fmt"
	"io"
	"os"

	"golang.org/x/term"
)

// Is reports whether w is a terminal.
func Is(w any) bool {
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// Columns is the width of a terminal, 0 of anything else.
func Columns(w io.Writer) int {
	if !Is(w) {
		return 0
	}
	if width, _, err := term.GetSize(int(w.(*os.File).Fd())); err == nil && width > 0 {
		return width
	}
	return 80
}

// ErrNoAnswer is the end of the input in place of an answer: Ctrl-D or Ctrl-C.
var ErrNoAnswer = errors.New("there is no answer")

// Password asks for a password on tty and does not show it. The library's own term.ReadPassword
// ignores Ctrl-D, and leaves the terminal without echo after Ctrl-C.
func Password(tty *os.File, out io.Writer, question string) (string, error) {
	fd := int(tty.Fd())
	before, err := term.MakeRaw(fd)
	if err != nil {
		return "", fmt.Errorf("read the password from the terminal: %w", err)
	}
	line, err := term.NewTerminal(readWriter{tty, out}, "").ReadPassword(question)
	_ = term.Restore(fd, before)
	if errors.Is(err, io.EOF) {
		_, _ = fmt.Fprintln(out)
		return "", ErrNoAnswer
	}
	if err != nil {
		return "", fmt.Errorf("read the password from the terminal: %w", err)
	}
	return line, nil
}

type readWriter struct {
	io.Reader
	io.Writer
}
