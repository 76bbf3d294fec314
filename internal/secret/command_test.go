//go:build unix

package secret

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// shell is a reference to a script for /bin/sh.
func shell(script string) string {
	return "command:/bin/sh -c '" + strings.ReplaceAll(script, "'", `'\''`) + "'"
}

func TestCommand(t *testing.T) {
	open := filepath.Join(t.TempDir(), "open")
	if err := errors.Join(os.WriteFile(open, []byte("#!/bin/sh\necho x\n"), 0o700), os.Chmod(open, 0o722)); err != nil {
		t.Fatal(err)
	}
	tests := []struct{ name, ref, want, wantErr string }{
		{"one line", shell("echo hunter2"), "hunter2", ""},
		{"a program in PATH", "command:printf '%s' hunter2", "hunter2", ""},
		{"one line end is cut, spaces stay", shell(`printf ' x \n\r\n'`), " x \n", ""},
		{"no shell", `command:echo $HOME ~ 'a | b' "c  d" \"e`, `$HOME ~ a | b c  d "e`, ""},
		{"standard input is empty", shell("cat; echo end"), "end", ""},
		{"standard error is not a part of it", shell("echo warning >&2; echo hunter2"), "hunter2", ""},
		{
			"fails", shell(`printf 'no such\033[1m entry\nat all' >&2; exit 3`),
			"", "the command /bin/sh failed: exit status 3 (it says: no such [1m entry at all)",
		},
		{
			"fails and prints the secret", shell("echo s3cret-1; echo bad s3cret-1 >&2; exit 1"),
			"", "(it says: bad [redacted])",
		},
		{
			"says too much", shell(`head -c 100000 /dev/zero | tr '\0' x >&2; exit 1`),
			"", strings.Repeat("x", maxShown-1) + "…)",
		},
		{
			"prints nothing", shell("echo; echo no entry >&2"),
			"", "the command /bin/sh printed nothing to standard output (it says: no entry)",
		},
		{"prints too much", shell("yes s3cret"), "", "printed more than 64 KiB"},
		{
			"as much as fits", shell(fmt.Sprintf(`head -c %d /dev/zero | tr '\0' x`, maxSize)),
			strings.Repeat("x", maxSize), "",
		},
		{
			"no such program", "command:postrider-no-such-program s3cret",
			"", `"postrider-no-such-program": executable file not found in $PATH; write the whole path`,
		},
		{
			"a program that others can write", "command:" + open,
			"", "is not run: other users can write it (mode 0722), and so could run programs as this user. " +
				"To fix it: chmod go-w " + open,
		},
		{"a relative path", "command:./get s3cret", "", "write the whole path"},
		{"no program", "command: ", "", "names no program"},
		{"no program in quotes", "command:'' s3cret", "", "names no program"},
		{"an open quote", "command:echo 's3cret", "", "a quote or a backslash at its end"},
		{"a NUL", "command:echo s3cret\x00", "", "NUL"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := new(Commands).Resolve(t.Context(), tt.ref)
			if got != tt.want || (err != nil) != (tt.wantErr != "") {
				t.Fatalf("got %.200q, %v; want %.200q, error %q", got, err, tt.want, tt.wantErr)
			}
			if err != nil && (!strings.Contains(err.Error(), tt.wantErr) || strings.Contains(err.Error(), "s3cret")) {
				t.Errorf("the error is %q, want it to say %q, without the secret", err, tt.wantErr)
			}
		})
	}
	if _, err := Resolve(shell("echo hunter2")); err == nil {
		t.Error("Resolve runs a command, want an error: only Commands runs programs")
	}
}

// TestCommandHangs: the limit and the end of the context both kill the program with its children.
func TestCommandHangs(t *testing.T) {
	for _, tt := range []struct {
		name     string
		patience time.Duration
		stop     bool // the context ends
		wantErr  string
	}{
		{
			"the limit", time.Second, false,
			"the command /bin/sh did not end within 1s and was killed (it says: begun); it must not ask",
		},
		{"the context", time.Minute, true, "the command /bin/sh was stopped: context canceled"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			pipe, path := fifo(t)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			if tt.stop {
				go func() {
					firstOctet(t, pipe)
					cancel()
				}()
			}
			c := &Commands{Patience: tt.patience}
			_, err := c.Resolve(ctx, shell("echo begun >&2; (echo x; exec sleep 1000) > "+path+" & wait"))
			if err == nil || !strings.Contains(err.Error(), tt.wantErr) {
				t.Errorf("got %v, want an error with %q", err, tt.wantErr)
			}
			wantNoWriter(t, pipe)
		})
	}
}

// TestCommandWithBackgroundChild: a process that the program leaves behind neither delays the
// answer for long nor survives.
func TestCommandWithBackgroundChild(t *testing.T) {
	pipe, path := fifo(t)
	got, err := new(Commands).Resolve(t.Context(), shell("exec 3> "+path+"; sleep 1000 & echo hunter2"))
	if got != "hunter2" || err != nil {
		t.Errorf("got %q, %v; want hunter2", got, err)
	}
	wantNoWriter(t, pipe)
}

// TestCommandIsAskedOnce: those who ask meanwhile get the same answer, a success is kept, and after
// a failure the next one asks again.
func TestCommandIsAskedOnce(t *testing.T) {
	for _, tt := range []struct {
		name, end   string
		first, then string // the runs so far: one x each
	}{
		{"works", "echo hunter2", "x", "x"},
		{"fails", "exit 1", "x", "xx"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			runs := filepath.Join(t.TempDir(), "runs")
			pipe, path := fifo(t)
			var c Commands
			script := "printf x >> " + runs + "; echo x > " + path + "; read go < " + runs + ".go; " + tt.end
			ask := func(ctx context.Context) {
				got, err := c.Resolve(ctx, shell(script))
				if err == nil && got != "hunter2" || (err == nil) != (tt.name == "works") {
					t.Errorf("got %q, %v", got, err)
				}
			}
			if err := syscall.Mkfifo(runs+".go", 0o600); err != nil {
				t.Fatal(err)
			}
			gate, err := os.OpenFile(runs+".go", os.O_RDWR, 0)
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = gate.Close() }()
			var asking sync.WaitGroup
			asking.Go(func() { ask(t.Context()) })
			firstOctet(t, pipe) // it runs, and waits
			for range 31 {
				ctx := newWaiter(t.Context())
				asking.Go(func() { ask(ctx) })
				<-ctx.waits
			}
			want := func(n string) {
				t.Helper()
				if got, err := os.ReadFile(runs); string(got) != n {
					t.Errorf("the runs are %q (%v), want %q", got, err, n)
				}
			}
			_, _ = gate.WriteString("go\n")
			asking.Wait()
			want(tt.first)
			_, _ = gate.WriteString("go\n")
			ask(t.Context())
			want(tt.then)
		})
	}
}

// TestCommandOfAnotherRun: when the one who asked first gives up, the others ask again.
func TestCommandOfAnotherRun(t *testing.T) {
	pipe, path := fifo(t)
	marker := filepath.Join(t.TempDir(), "marker")
	ref := shell("test -e " + marker + " && echo hunter2 && exit; " +
		"touch " + marker + "; echo x > " + path + "; exec sleep 1000")
	var c Commands
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() {
		if _, err := c.Resolve(ctx, ref); !errors.Is(err, context.Canceled) {
			t.Errorf("the first got %v, want %v", err, context.Canceled)
		}
	})
	firstOctet(t, pipe)
	waiter := newWaiter(t.Context())
	wg.Go(func() {
		if got, err := c.Resolve(waiter, ref); got != "hunter2" || err != nil {
			t.Errorf("the second got %q, %v; want hunter2", got, err)
		}
	})
	<-waiter.waits
	cancel()
	wg.Wait()
}

// waiter is a context that reports when somebody begins to wait for its end.
type waiter struct {
	context.Context
	waits chan struct{}
	once  *sync.Once
}

func newWaiter(ctx context.Context) waiter {
	return waiter{ctx, make(chan struct{}), new(sync.Once)}
}

// Done is called by those who wait.
func (w waiter) Done() <-chan struct{} {
	w.once.Do(func() { close(w.waits) })
	return w.Context.Done()
}

// fifo makes a named pipe and opens it for reading. It reads nothing while there is no writer.
func fifo(t *testing.T) (pipe *os.File, path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "pipe")
	err := syscall.Mkfifo(path, 0o600)
	if err == nil {
		pipe, err = os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = pipe.Close() })
	return pipe, path
}

func firstOctet(t *testing.T, pipe *os.File) {
	t.Helper()
	_ = pipe.SetReadDeadline(time.Now().Add(time.Minute))
	for {
		switch _, err := pipe.Read(make([]byte, 1)); {
		case err == nil:
			return
		case !errors.Is(err, io.EOF): // which is that there is no writer yet
			t.Errorf("the program writes nothing to the pipe: %v", err)
			return
		}
		runtime.Gosched()
	}
}

// wantNoWriter checks that no process has the pipe open.
func wantNoWriter(t *testing.T, pipe *os.File) {
	t.Helper()
	_ = pipe.SetReadDeadline(time.Now().Add(time.Minute))
	if _, err := io.Copy(io.Discard, pipe); err != nil {
		t.Errorf("read the pipe: %v; want its end, because no process is left", err)
	}
}
