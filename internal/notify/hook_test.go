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

// script writes a program for /bin/sh, in a directory whose name has a space.
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

// hooked returns a bench with a hook and no addresses.
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
	b, dir := hooked(t, `cat > in; printf '%s|' "$@" > args; env > env; echo told; echo to ops >&2`, "--team",
		"a b", "$HOME; rm")
	b.Env = func(name string) (string, bool) {
		v, ok := map[string]string{
			"PATH": os.Getenv("PATH"), "TZ": "UTC", "POSTRIDER_SMTP_PASSWORD": "hunter2",
			"SMTP_PASSWORD": "hunter2",
		}[name]
		return v, ok
	}
	b.dies("one")
	b.Notify(b.ctx, true)
	var d Digest
	if err := json.Unmarshal([]byte(read(t, dir, "in")), &d); err != nil || len(d.Tasks) != 1 ||
		d.Tasks[0].Deliveries[0].Code != 550 {
		t.Errorf("the hook got %q (%v), want one dead task as JSON", read(t, dir, "in"), err)
	}
	if got, want := read(t, dir, "args"), "--team|a b|$HOME; rm|"; got != want {
		t.Errorf("its arguments are %q, want %q, not interpreted by a shell", got, want)
	}
	if env := read(t, dir, "env"); !strings.Contains(env, "TZ=UTC\n") || strings.Contains(env, "hunter2") {
		t.Errorf("its environment is\n%s\nwant TZ, and no password", env)
	}
	if log := b.logs.String(); !strings.Contains(log, "level=INFO") || !strings.Contains(log, `output="told to ops"`) {
		t.Errorf("the log is %q, want the output of the hook", log)
	}
	if err := os.Remove(filepath.Join(dir, "in")); err != nil {
		t.Fatal(err)
	}
	b.Notify(b.ctx, true)
	if _, err := os.Stat(filepath.Join(dir, "in")); err == nil {
		t.Error("the hook ran again, want it to run once")
	}
}

// TestHookAndMail checks that the hook runs without the relay, and that hook and address each get a
// notice once.
func TestHookAndMail(t *testing.T) {
	b, dir := hooked(t, `echo run >> runs`)
	b.Config.To = []string{operator}
	b.dies("one")
	b.Notify(b.ctx, false)
	if got := read(t, dir, "runs"); got != "run\n" || len(b.relay.subjects()) != 0 {
		t.Errorf("without the relay the hook ran %q and the mails %q were sent, want only the hook",
			got, b.relay.subjects())
	}
	b.wantSent("the relay is up", oneDead)
	if got := read(t, dir, "runs"); got != "run\n" {
		t.Errorf("the hook ran %q, want once", got)
	}
}

// delayed is a Tasks that calls a function before it answers.
type delayed struct {
	Tasks
	before func()
}

func (h delayed) Get(ctx context.Context, id int64) (tasks.Task, error) {
	h.before()
	return h.Tasks.Get(ctx, id)
}

// TestHookLeaseLost checks that a run does not start the hook after its lease expired and another
// run took it over.
func TestHookLeaseLost(t *testing.T) {
	b, dir := hooked(t, `echo run >> runs`)
	b.dies("one")
	other := *b.Notifier
	other.Config.Worker = "mail-b:1:y"
	b.Tasks = delayed{b.Tasks, func() {
		b.passes(time.Minute)
		other.Notify(b.ctx, true)
	}}
	b.Notify(b.ctx, true)
	if got := read(t, dir, "runs"); got != "run\n" {
		t.Errorf("the hooks ran %q, want one", got)
	}
	if log := b.logs.String(); !strings.Contains(log, "another run sends the failure notice") ||
		strings.Contains(log, "WARN") {
		t.Errorf("the log is\n%s\nwant the line about the other run, and no warning", log)
	}
}

func TestHookFails(t *testing.T) {
	for _, tt := range []struct {
		name, script string
		hook         []string
		want         []string // in the log, each time
	}{
		{
			"exit status", "echo run >> runs; echo oh no >&2; exit 7", nil,
			[]string{"level=WARN", "exit status 7", "oh no"},
		},
		{"killed", "echo run >> runs; kill -9 $$", nil, []string{"level=WARN", "signal: killed"}},
		{
			"not there", "",
			[]string{"/nowhere/hook"},
			[]string{"level=WARN", "/nowhere/hook cannot be run", "no such file", "correct the key hook"},
		},
		{
			"not in PATH", "",
			[]string{"postrider-no-such-hook"},
			[]string{"level=WARN", "cannot be run", "not found in $PATH"},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b, dir := hooked(t, tt.script)
			if tt.hook != nil {
				b.Config.Hook = tt.hook
			}
			b.dies("one")
			for range 4 { // the fourth time is within the pause
				b.Notify(b.ctx, true)
			}
			log := b.logs.String()
			for _, want := range tt.want {
				if strings.Count(log, want) < 3 {
					t.Errorf("the log is\n%s\nwant %q in it three times", log, want)
				}
			}
			if said := strings.Contains(tt.script, "echo oh no"); strings.Contains(log, "the hook failed") != said ||
				strings.Contains(log, "its output is in the log") != said {
				t.Errorf("the log is\n%s\nwant a line with the output only if there is one", log)
			}
			if tt.hook == nil {
				if got := read(t, dir, "runs"); got != "run\nrun\nrun\n" {
					t.Errorf("the hook ran %q, want it three times", got)
				}
			}
		})
	}
}

// TestHookHangs checks that runHook ends although the hook, or a process that it started, does not,
// and that nothing that the hook started outlives it, however it ends.
func TestHookHangs(t *testing.T) {
	const hangs = `cat > /dev/null; sleep 300 & echo $! > child; echo $$ > self; exec sleep 300`
	for _, tt := range []struct {
		name, script string
		stop         error  // why the context ends once the hook has started; nil: it does not
		want         string // in the error; empty for no error
	}{
		{"for too long", hangs, context.DeadlineExceeded, "did not end in time and was killed"},
		{"when the pass is stopped", hangs, context.Canceled, "killed"},
		{"it ends, and its output stays open", `sleep 300 & echo $! > child; echo done`, nil, ""},
		{"it ends", `sleep 300 > /dev/null 2>&1 & echo $! > child`, nil, ""},
		{"it fails", `sleep 300 > /dev/null 2>&1 & echo $! > child; exit 7`, nil, "exit status 7"},
		{"it is killed", `sleep 300 > /dev/null 2>&1 & echo $! > child; kill -9 $$`, nil, "signal: killed"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b, dir := hooked(t, tt.script)
			ctx, cancel := context.WithCancel(b.ctx)
			defer cancel()
			if tt.stop != nil {
				go func() {
					for ctx.Err() == nil {
						if _, err := os.Stat(filepath.Join(dir, "self")); err == nil {
							cancel()
						}
						time.Sleep(5 * time.Millisecond)
					}
				}()
			}
			start := time.Now()
			err := b.runHook(ended{ctx, tt.stop}, Digest{})
			if took := time.Since(start); took > 20*time.Second {
				t.Errorf("runHook took %s, want it to end at once", took)
			}
			if tt.want == "" && err != nil || tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)) {
				t.Errorf("the error is %v, want %q", err, tt.want)
			}
			child := pid(t, read(t, dir, "child"))
			defer func() { _ = syscall.Kill(child, syscall.SIGKILL) }()
			wait(t, fmt.Sprintf("process %d, which the hook started, to end", child),
				func() bool { return gone(child) })
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

// gone reports whether a process has ended, or is a zombie.
func gone(pid int) bool {
	stat, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return syscall.Kill(pid, 0) != nil || strings.Contains(string(stat), ") Z ")
}

// TestHookOfOthers checks that a program that other users can write is not run.
func TestHookOfOthers(t *testing.T) {
	b, dir := hooked(t, `echo run >> runs`)
	program := b.Config.Hook[0]
	if err := os.Chmod(program, 0o775); err != nil {
		t.Fatal(err)
	}
	b.dies("one")
	b.Notify(b.ctx, true)
	const why = "cannot be run: other users can write it (mode 0775), and so could run programs as this user. " +
		"To fix it: chmod go-w "
	if log := b.logs.String(); !strings.Contains(log, why) {
		t.Errorf("the log is\n%s\nwant the reason and the chmod", log)
	}
	if _, err := os.Stat(filepath.Join(dir, "runs")); err == nil {
		t.Error("the hook ran, want it refused")
	}
	if err := os.Chmod(program, 0o755); err != nil {
		t.Fatal(err)
	}
	if path, err := Program(program); path != program || err != nil {
		t.Errorf("Program(%q) = %q, %v; want the same path", program, path, err)
	}
	b.Notify(b.ctx, true)
	if got := read(t, dir, "runs"); got != "run\n" {
		t.Errorf("the hook ran %q, want once, after the mode was corrected", got)
	}
}

// TestHookWithoutPath: a name alone is looked up in PATH, so a file beside the configuration needs
// ./ before it.
func TestHookWithoutPath(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	const want = "executable file not found in $PATH; write ./hook.sh for a file beside the configuration"
	if _, err := Program("hook.sh"); err == nil || !strings.HasSuffix(err.Error(), want) {
		t.Errorf("the error is %v, want one that ends with %q", err, want)
	}
}

// TestHookDoesNotRead checks a hook that does not read its input, and writes more output than is
// logged.
func TestHookDoesNotRead(t *testing.T) {
	b, _ := hooked(t, `exec <&-; head -c 100000 /dev/zero | tr '\0' x`)
	kept := strings.Repeat("x", maxOutput)
	for range 60 {
		b.task(strings.Repeat("長", 400)) // together more than a pipe holds
	}
	b.ends(tasks.Dead, refused)
	b.Notify(b.ctx, true)
	if log := b.logs.String(); strings.Contains(log, "WARN") || !strings.Contains(log, kept) ||
		strings.Contains(log, kept+"x") {
		t.Errorf("the log has %d octets, and %q, want no warning, and %d octets of the output",
			len(log), log[:min(len(log), 200)], maxOutput)
	}
}
