//go:build linux

package e2e

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestHookMisbehaves: whatever the hook does, a pass ends soon, and its exit code and its mail are
// the same as without a hook. A digest that the hook did not take is sent to it again later.
func TestHookMisbehaves(t *testing.T) {
	const failed, later = `msg="the hook failed"`, "could not send the failure notice; a later pass tries again"
	for _, tt := range []struct {
		name, script string
		told         bool
		want         []string // on standard error
	}{
		{"it is not there", "", false, []string{
			later, "/hook cannot be run: ",
			"no such file or directory; correct the key hook, or make the file executable",
		}},
		{"its interpreter is not there", "#!/nowhere/sh\n", false, []string{later, "/hook cannot be run: "}},
		{"it is no program", "hello\n", false, []string{later, "/hook cannot be run: ", "exec format error"}},
		{"it fails", "#!/bin/sh\necho no such team >&2\nexit 1\n", false, []string{
			failed, "no such team", later, "exit status 1",
		}},
		{"it is killed", "#!/bin/sh\nkill -9 $$\n", false, []string{later, "signal: killed"}},
		{"it reads nothing", "#!/bin/sh\nexec <&-\necho >> told.early\n", true, nil},
		{"it writes a gigabyte", "#!/bin/sh\nhead -c 1000000000 /dev/zero\n", true, nil},
		{
			"it writes a gigabyte and fails",
			"#!/bin/sh\nhead -c 1000000000 /dev/zero | tr '\\0' x >&2\nexit 1\n", false,
			[]string{failed, "xxxx", later},
		},
		{"it leaves something behind", "#!/bin/sh\nsleep 300 &\necho $! > child\n", true, nil},
		{"it forks and fails", "#!/bin/sh\nsleep 300 &\necho $! > child\nexit 3\n", false, []string{
			later, "exit status 3",
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld(t, "sqlite").noticing(nil)
			w.hook(tt.script)
			if tt.script == "" {
				_ = os.Remove(w.path("hook"))
			}
			w.addInbox(desk, "--start", "all")
			w.imap.Append(t, desk, "INBOX", mails(1, "letter")...)
			start := time.Now()
			p := w.start(nil, "run")
			used := peakUntil(p.ended(), p.cmd.Process.Pid)
			res := p.wait()
			if took := time.Since(start); res.code != 75 || took > 40*time.Second {
				t.Errorf("exit %d after %s, want 75 (for the message that is dead) soon\n%.2000s",
					res.code, took, res.stderr)
			}
			if used == 0 || used > 100<<20 {
				t.Errorf("it took %d octets of memory, want some, and the output not to be kept", used)
			}
			for _, want := range tt.want {
				if !strings.Contains(res.stderr, want) {
					t.Errorf("it says %.2000s\nwant %q in it", res.stderr, want)
				}
			}
			if tt.want == nil && strings.Contains(res.stderr, "level=WARN") || len(res.stderr) > 10_000 {
				t.Errorf("it says %.2000s\nwant less", res.stderr)
			}
			w.endChild()
			w.hook(hookScript)
			w.must(0, "run")
			if n := len(w.digests()); (n == 0) != tt.told {
				t.Errorf("the next pass sent it %d digests, want that it took one before: %v", n, tt.told)
			}
			w.wantNotices("the operator", len(w.digests()), "1 message is dead")
		})
	}
}

// endChild ends the process that the hook left behind.
func (w *world) endChild() {
	text, err := os.ReadFile(w.path("child"))
	if err != nil { // it left none behind
		return
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		w.t.Fatal(err)
	}
	_ = syscall.Kill(pid, syscall.SIGKILL)
}

// TestHookTellsASecret: the output of a hook is in the log, and is kept nowhere else.
func TestHookTellsASecret(t *testing.T) {
	const secret = "token-of-the-pager"
	w := newWorld(t, "sqlite").noticing(nil)
	w.hook("#!/bin/sh\necho 'POST ?key=" + secret + " 500' >&2\nexit 22\n")
	w.addInbox(desk, "--start", "all")
	w.imap.Append(t, desk, "INBOX", mails(1, "letter")...)
	if res := w.must(75, "run"); !strings.Contains(res.stderr, secret) {
		t.Errorf("the log is %q, want what the hook said", res.stderr)
	}
	const failed = "exit status 22; its output is in the log"
	res := w.must(0, "status")
	if strings.Contains(res.stdout, secret) || !strings.Contains(res.stdout, failed) {
		t.Errorf("status prints\n%s\nwant that the hook failed, and not what it said", res.stdout)
	}
	files, err := filepath.Glob(w.path("postrider.db*"))
	if err != nil || len(files) == 0 {
		t.Fatal("there is no database: ", err)
	}
	for _, name := range files {
		if b, err := os.ReadFile(name); err != nil || bytes.Contains(b, []byte(secret)) {
			t.Errorf("%s has what the hook said in it (%v), want it kept nowhere", name, err)
		}
	}
}
