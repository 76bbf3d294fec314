package demo

import (
	"context"
	"os"
	"os/exec"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"postrider/internal/testserver"
)

// play runs a demo and checks that it leaves no file, process, goroutine or listener.
func play(ctx context.Context, t *testing.T, binary string, args []string, say func(string)) (Outcome, error) {
	t.Helper()
	tmp := t.TempDir()
	t.Setenv("TMPDIR", tmp)
	t.Setenv("TMP", tmp)
	t.Setenv("POSTRIDER_DATABASE_DRIVER", "mysql") // the demo must ignore it
	before := goleak.IgnoreCurrent()
	var passes []*exec.Cmd
	out, err := Run(ctx, Options{
		Pass: func(ctx context.Context, config string) *exec.Cmd {
			passes = append(passes, exec.CommandContext(ctx, binary, append([]string{"-c", config}, args...)...))
			return passes[len(passes)-1]
		},
		Say: say,
	})
	goleak.VerifyNone(t, before)
	for i, p := range passes {
		if p.Process != nil && p.ProcessState == nil {
			t.Errorf("pass %d may still be running, want it ended", i+1)
		}
	}
	left, readErr := os.ReadDir(tmp)
	if readErr != nil || len(left) > 0 {
		t.Errorf("left in the temporary directory: %v (%v); want nothing", left, readErr)
	}
	return out, err
}

func TestRun(t *testing.T) {
	binary, err := testserver.BuildPostrider(t.TempDir()) // it runs the passes
	if err != nil {
		t.Fatal(err)
	}
	t.Run("to the end", func(t *testing.T) { toTheEnd(t, binary) })
	for _, after := range []string{"On 127.0.0.1", "Pass 1", "Pass 2"} {
		t.Run("interrupted after "+after, func(t *testing.T) { interrupted(t, binary, after) })
	}
	t.Run("a pass fails", func(t *testing.T) {
		_, err := play(t.Context(), t, binary, []string{"nonsense"}, func(string) {})
		if err == nil || !strings.Contains(err.Error(), "exit status 2") ||
			!strings.Contains(err.Error(), `unknown command "nonsense"`) {
			t.Errorf("error %v; want one with the pass's exit status and its output", err)
		}
	})
}

func toTheEnd(t *testing.T, binary string) {
	var lines []string
	out, err := play(t.Context(), t, binary, []string{"run", "--json"},
		func(line string) { lines = append(lines, line) })
	output := strings.Join(lines, "\n")
	if err != nil || len(out.Faults) > 0 {
		t.Fatalf("error %v, faults %q; want none; the output is:\n%s", err, out.Faults, output)
	}
	want := "It leaves 2 forwarded, 1 in progress (1 marked as being sent) and 3 waiting."
	if !strings.Contains(output, want) {
		t.Errorf("the output is:\n%s\nwant a line with: %s", output, want)
	}
	attempts := map[string]int{}
	for _, r := range out.Rows {
		attempts[r.Message] = r.Attempts
	}
	if got := attempts[scan().subject]; got != 2 {
		t.Errorf("attempts for the message that the killed pass was sending: %d; want 2", got)
	}
	if got := attempts[ticket().subject]; got != 2 {
		t.Errorf("attempts for the message that the relay deferred: %d; want 2", got)
	}
}

// interrupted cancels the demo's context at a step. The demo's error must be the cancellation, not
// an error caused by it.
func interrupted(t *testing.T, binary, after string) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	_, err := play(ctx, t, binary, []string{"run", "--json"}, func(line string) {
		if strings.HasPrefix(line, after) {
			cancel()
		}
	})
	if err == nil || err.Error() != context.Canceled.Error() {
		t.Errorf("error %v; want only %v", err, context.Canceled)
	}
}
