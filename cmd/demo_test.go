package cmd

import (
	"bufio"
	"bytes"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"postrider/internal/demo"
	"postrider/internal/testserver"
)

// demoProcess is `postrider demo`, with a temporary directory of its own and no configuration
// anywhere.
func demoProcess(t *testing.T, binary string) (p *exec.Cmd, stderr *bytes.Buffer, tmp string) {
	t.Helper()
	tmp, stderr = t.TempDir(), &bytes.Buffer{}
	p = exec.CommandContext(t.Context(), binary, "demo")
	p.Dir, p.Stderr = t.TempDir(), stderr
	p.Env = append(os.Environ(), "TMPDIR="+tmp, "TMP="+tmp, "TEMP="+tmp)
	return p, stderr, tmp
}

func nothingLeft(t *testing.T, tmp string) {
	t.Helper()
	left, err := os.ReadDir(tmp)
	if err != nil || len(left) > 0 {
		t.Errorf("left in the temporary directory: %v (%v); want nothing", left, err)
	}
}

func TestDemo(t *testing.T) {
	binary, err := testserver.BuildPostrider(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Run("to the end", func(t *testing.T) {
		p, stderr, tmp := demoProcess(t, binary)
		out, err := p.Output()
		if err != nil || stderr.Len() > 0 {
			t.Errorf("error %v, standard error %q; want none", err, stderr)
		}
		const verdict = "\n7 messages: 5 forwarded once each, 1 without a route, 1 refused; 0 lost, 0 twice\n"
		if !strings.HasSuffix(string(out), verdict) {
			t.Errorf("it printed:\n%s\nwant as the last line:%s", out, verdict)
		}
		nothingLeft(t, tmp)
	})
	if runtime.GOOS == "windows" {
		return // no signals to send there
	}
	t.Run("interrupted", func(t *testing.T) {
		demoEnds(t, binary, func(p *exec.Cmd, _ io.Closer) error { return p.Process.Signal(syscall.SIGINT) })
	})
	t.Run("terminated", func(t *testing.T) {
		demoEnds(t, binary, func(p *exec.Cmd, _ io.Closer) error { return p.Process.Signal(syscall.SIGTERM) })
	})
	t.Run("the output is closed", func(t *testing.T) {
		demoEnds(t, binary, func(_ *exec.Cmd, out io.Closer) error { return out.Close() })
	})
}

// demoEnds disturbs a demo as soon as its first pass was killed.
func demoEnds(t *testing.T, binary string, disturb func(*exec.Cmd, io.Closer) error) {
	p, stderr, tmp := demoProcess(t, binary)
	out, err := p.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Start(); err != nil {
		t.Fatal(err)
	}
	for lines := bufio.NewScanner(out); lines.Scan(); {
		if strings.HasPrefix(lines.Text(), "Pass 1") {
			if err := disturb(p, out); err != nil {
				t.Fatal(err)
			}
		}
	}
	_ = p.Wait() // how it ended is in its state
	if code := p.ProcessState.ExitCode(); code != exitFailed || !strings.HasPrefix(stderr.String(), "postrider: ") {
		t.Errorf("exit code %d, standard error %q; want %d, and the reason", code, stderr, exitFailed)
	}
	nothingLeft(t, tmp)
}

// TestDemoNotAsPromised: the exit code follows from the facts.
func TestDemoNotAsPromised(t *testing.T) {
	var out bytes.Buffer
	outcome := demo.Outcome{Verdict: "1 message: 1 twice", Faults: []string{`"Hello" came twice`}}
	err := (&app{out: &out}).demoOutcome(outcome)
	if exitCode(err) != exitFailed || !strings.Contains(errorText(err), `"Hello" came twice`) {
		t.Errorf("error %v, exit code %d; want the fault named and exit code %d", err, exitCode(err), exitFailed)
	}
	if !strings.Contains(out.String(), "1 message: 1 twice") {
		t.Errorf("printed %q; want the verdict in it", out.String())
	}
}
