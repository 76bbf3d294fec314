//go:build unix

package notify

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"postrider/internal/tasks"
)

// script is a program of /bin/sh, in a folder whose name has a space.
func script(t *testing.T, text string) (program, dir string) {
	t.Helper()
	dir = filepath.Join(t.TempDir(), "my hooks")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	program = filepath.Join(dir, "hook")
	if err := os.WriteFile(program, []byte("#!/bin/sh\ncd '"+dir+"'\n"+text), 0o700); err != nil {
		t.Fatal(err)
	}
	return program, dir
}

// hooked is a bench that tells a hook, and nobody else.
func hooked(t *testing.T, text string, args ...string) (b *bench, dir string) {
	b = newBench(t, config(t, "sqlite"))
	program, dir := script(t, text)
	b.Config.To, b.Config.Hook, b.Config.AtMost = nil, append([]string{program}, args...), 0
	return b, dir
}

func read(t *testing.T, dir, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(dir, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestHook(t *testing.T) {
	b, dir := hooked(t, `cat > in; printf '%s|' "$@" > args; env > env; echo told; echo to ops >&2`, "--team", "a b", "$HOME; rm")
	b.Env = func(name string) (string, bool) {
		v, ok := map[string]string{"PATH": os.Getenv("PATH"), "TZ": "UTC", "POSTRIDER_SMTP_PASSWORD": "hunter2", "SMTP_PASSWORD": "hunter2"}[name]
		return v, ok
	}
	b.dies("one")
	b.Tell(b.ctx, true)
	var d Digest
	if err := json.Unmarshal([]byte(read(t, dir, "in")), &d); err != nil || len(d.Tasks) != 1 || d.Tasks[0].Deliveries[0].Code != 550 {
		t.Errorf("the hook got %q (%v), want one dead task as JSON", read(t, dir, "in"), err)
	}
	if got, want := read(t, dir, "args"), "--team|a b|$HOME; rm|"; got != want {
		t.Errorf("its arguments are %q, want %q: no shell reads them", got, want)
	}
	if env := read(t, dir, "env"); !strings.Contains(env, "TZ=UTC\n") || strings.Contains(env, "hunter2") {
		t.Errorf("its environment is\n%s\nwant TZ, and none of our passwords", env)
	}
	if log := b.logs.String(); !strings.Contains(log, "level=INFO") || !strings.Contains(log, `output="told to ops"`) {
		t.Errorf("the log is %q, want the output of the hook", log)
	}
	if err := os.Remove(filepath.Join(dir, "in")); err != nil {
		t.Fatal(err)
	}
	b.Tell(b.ctx, true)
	if _, err := os.Stat(filepath.Join(dir, "in")); err == nil {
		t.Error("the hook was told twice")
	}
}

// TestHookAndMail: the hook is told without the relay; each is told on its own, and once.
func TestHookAndMail(t *testing.T) {
	b, dir := hooked(t, `echo run >> runs`)
	b.Config.To = []string{operator}
	b.dies("one")
	b.Tell(b.ctx, false)
	if got := read(t, dir, "runs"); got != "run\n" || len(b.relay.subjects()) != 0 {
		t.Errorf("without the relay the hook ran %q and the mails %q went out, want the hook alone", got, b.relay.subjects())
	}
	b.wantTold("the relay is up", oneDead)
	if got := read(t, dir, "runs"); got != "run\n" {
		t.Errorf("the hook ran %q, want once", got)
	}
}

// heldUp is a Tasks that stands still before it answers.
type heldUp struct {
	Tasks
	still func()
}

func (h heldUp) Get(ctx context.Context, id int64) (tasks.Task, error) {
	h.still()
	return h.Tasks.Get(ctx, id)
}

// TestHookHeldUp: a run that stands still for longer than its lease starts no hook beside that of the run in its place.
func TestHookHeldUp(t *testing.T) {
	b, dir := hooked(t, `echo run >> runs`)
	b.dies("one")
	other := *b.Notifier
	other.Config.Worker = "mail-b:1:y"
	b.Tasks = heldUp{b.Tasks, func() {
		b.passes(time.Minute)
		other.Tell(b.ctx, true)
	}}
	b.Tell(b.ctx, true)
	if got := read(t, dir, "runs"); got != "run\n" {
		t.Errorf("the hooks ran %q, want one", got)
	}
	if log := b.logs.String(); !strings.Contains(log, "another run tells what failed") || strings.Contains(log, "WARN") {
		t.Errorf("the log is\n%s\nwant it said, and no warning", log)
	}
}

func TestHookFails(t *testing.T) {
	for _, tt := range []struct {
		name, script string
		hook         []string
		want         []string // in the log, each time
	}{
		{"exit status", "echo run >> runs; echo oh no >&2; exit 7", nil, []string{"level=WARN", "exit status 7", "oh no"}},
		{"killed", "echo run >> runs; kill -9 $$", nil, []string{"level=WARN", "signal: killed"}},
		{"not there", "", []string{"/nowhere/hook"}, []string{"level=WARN", "/nowhere/hook cannot be run", "no such file", "correct the key hook"}},
		{"not in PATH", "", []string{"postrider-no-such-hook"}, []string{"level=WARN", "cannot be run", "not found in $PATH"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b, dir := hooked(t, tt.script)
			if tt.hook != nil {
				b.Config.Hook = tt.hook
			}
			b.dies("one")
			for range 4 { // after the third time it pauses
				b.Tell(b.ctx, true)
			}
			log := b.logs.String()
			for _, want := range tt.want {
				if strings.Count(log, want) < 3 {
					t.Errorf("the log is\n%s\nwant %q in it three times", log, want)
				}
			}
			if tt.hook == nil {
				if got := read(t, dir, "runs"); got != "run\nrun\nrun\n" {
					t.Errorf("the hook ran %q, want it three times", got)
				}
			}
		})
	}
}

// TestHookHangs: neither a hook that does not end, nor what it has started, keeps a pass from ending.
func TestHookHangs(t *testing.T) {
	const hangs = `cat > /dev/null; sleep 300 & echo $! > child; echo $$ > self; exec sleep 300`
	for _, tt := range []struct {
		name, script string
		stop         func(ctx context.Context, started func() bool) (context.Context, context.CancelFunc)
		want         string // the error
	}{
		{"for too long", hangs, func(ctx context.Context, _ func() bool) (context.Context, context.CancelFunc) {
			return context.WithTimeout(ctx, 500*time.Millisecond)
		}, "did not end within 1m0s and was killed"},
		{"when the pass is stopped", hangs, func(ctx context.Context, started func() bool) (context.Context, context.CancelFunc) {
			ctx, cancel := context.WithCancel(ctx)
			go func() {
				for !started() {
					time.Sleep(5 * time.Millisecond)
				}
				cancel()
			}()
			return ctx, cancel
		}, "killed"},
		{"with its output alone", `sleep 300 & echo $! > child; echo done`, func(ctx context.Context, _ func() bool) (context.Context, context.CancelFunc) {
			return context.WithCancel(ctx)
		}, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b, dir := hooked(t, tt.script)
			ctx, cancel := tt.stop(b.ctx, func() bool {
				_, err := os.Stat(filepath.Join(dir, "self"))
				return err == nil
			})
			defer cancel()
			start := time.Now()
			err := b.runHook(ctx, Digest{})
			if took := time.Since(start); took > 20*time.Second {
				t.Errorf("it took %s, want it to end at once", took)
			}
			if tt.want == "" && err != nil || tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)) {
				t.Errorf("the error is %v, want %q", err, tt.want)
			}
			child := pid(t, read(t, dir, "child"))
			if tt.want == "" { // it was left behind on purpose
				_ = syscall.Kill(child, syscall.SIGKILL)
				return
			}
			wait(t, fmt.Sprintf("process %d, which the hook has started, to be gone", child), func() bool { return gone(child) })
		})
	}
}

func pid(t *testing.T, text string) int {
	t.Helper()
	n, err := strconv.Atoi(strings.TrimSpace(text))
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// gone reports whether a process has ended; one that nobody has waited for is a zombie.
func gone(pid int) bool {
	stat, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return syscall.Kill(pid, 0) != nil || strings.Contains(string(stat), ") Z ")
}

// TestHookDoesNotRead: a hook may leave its input unread, and write more than is kept.
func TestHookDoesNotRead(t *testing.T) {
	b, _ := hooked(t, `exec <&-; head -c 100000 /dev/zero | tr '\0' x`)
	kept := strings.Repeat("x", maxOutput)
	for range 60 {
		b.task(strings.Repeat("長", 400)) // so that all are more than a pipe holds
	}
	b.ends(tasks.Dead, refused)
	b.Tell(b.ctx, true)
	if log := b.logs.String(); strings.Contains(log, "WARN") || !strings.Contains(log, kept) || strings.Contains(log, kept+"x") {
		t.Errorf("the log has %d octets, and %q, want no warning, and %d octets of the output", len(log), log[:min(len(log), 200)], maxOutput)
	}
}
