package cmd

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"testing"

	"golang.org/x/sys/unix"
)

// pty is a terminal, and what a person types there.
func pty(t *testing.T) (tty, person *os.File) {
	t.Helper()
	tty, person, err := openPTY()
	if errors.Is(err, errNoPTY) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = tty.Close(), person.Close() })
	return tty, person
}

var errNoPTY = errors.New("there are no pseudo-terminals here")

func openPTY() (tty, person *os.File, err error) {
	person, err = os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	if err != nil {
		return nil, nil, fmt.Errorf("%w: %w", errNoPTY, err)
	}
	n, err := unix.IoctlGetInt(int(person.Fd()), unix.TIOCGPTN)
	if err == nil {
		err = unix.IoctlSetPointerInt(int(person.Fd()), unix.TIOCSPTLCK, 0)
	}
	if err == nil {
		tty, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY, 0)
	}
	if err != nil {
		_ = person.Close()
	}
	return tty, person, err
}

// atPTY is the program "terminal" of scripts. It runs another one whose standard output is a
// terminal, and prints all of what that shows.
func atPTY(args []string) int {
	tty, person, err := openPTY()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	c := exec.Command(args[0], args[1:]...)
	c.Stdin, c.Stdout, c.Stderr = os.Stdin, tty, os.Stderr
	if err := c.Start(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	_ = tty.Close()
	_, _ = io.Copy(os.Stdout, person) // until the program has closed the terminal, which is an error
	_ = c.Wait()
	return c.ProcessState.ExitCode()
}

// answering types once it is asked.
type answering struct {
	bytes.Buffer
	person *os.File
	types  string
}

func (a *answering) Write(p []byte) (int, error) {
	if _, err := a.person.WriteString(a.types); err != nil {
		return 0, err
	}
	a.types = ""
	return a.Buffer.Write(p)
}

// TestAskPassword: what is typed is not shown, Ctrl-D and Ctrl-C end the question, and the terminal
// is as it was.
func TestAskPassword(t *testing.T) {
	const none = "no password was given; nothing was changed"
	for _, tt := range []struct{ name, types, password, fault string }{
		{"a password", "pass wörd\r", "pass wörd", ""},
		{"edited", "pasta\x7f\x7fs\r", "pass", ""},
		{"nothing", "\r", "", ""},
		{"Ctrl-D", "\x04", "", none},
		{"Ctrl-C", "sesa\x03", "", none},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tty, person := pty(t)
			before, err := unix.IoctlGetTermios(int(tty.Fd()), unix.TCGETS)
			if err != nil {
				t.Fatal(err)
			}
			out := &answering{person: person, types: tt.types}
			password, err := (&app{err: out}).askPassword(tty, deskUser)
			if password != tt.password || (err == nil) != (tt.fault == "") ||
				err != nil && (err.Error() != tt.fault || exitCode(err) != exitUsage) {
				t.Errorf("askPassword = %q, %v; want %q, %q", password, err, tt.password, tt.fault)
			}
			got := bytes.ReplaceAll(out.Bytes(), []byte("\r\n"), []byte("\n"))
			if string(got) != "Password of desk@firm.example: \n" {
				t.Errorf("the terminal shows %q, want the question alone", got)
			}
			after, err := unix.IoctlGetTermios(int(tty.Fd()), unix.TCGETS)
			if err != nil || *after != *before {
				t.Errorf("the terminal is %+v, %v; want it as before, %+v", after, err, before)
			}
		})
	}
}

// TestColumns: a table takes the width that the terminal has, and 80 columns where it does not say.
func TestColumns(t *testing.T) {
	tty, person := pty(t)
	if got := (&app{out: tty}).table("a").Width; got != 80 {
		t.Errorf("a terminal without a size has %d columns, want 80", got)
	}
	if err := unix.IoctlSetWinsize(int(person.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: 24, Col: 132}); err != nil {
		t.Fatal(err)
	}
	if got := (&app{out: tty}).table("a").Width; got != 132 {
		t.Errorf("a terminal with 132 columns has %d", got)
	}
}
