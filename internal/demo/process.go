package demo

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"strings"

	"postrider/internal/pass"
)

// exitIncomplete is the exit code of a pass after which something is to be retried, or needs an
// operator.
const exitIncomplete = 75

// process is a running pass.
type process struct {
	cmd      *exec.Cmd
	out, log bytes.Buffer
	ended    chan struct{} // closed when the process has ended
}

func (s *stage) start(ctx context.Context) (*process, error) {
	p := &process{cmd: s.opts.Pass(ctx, s.config), ended: make(chan struct{})}
	p.cmd.Stdout, p.cmd.Stderr, p.cmd.Env = &p.out, &p.log, environment(s.dir)
	if err := p.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start a pass: %w", err)
	}
	go func() {
		defer close(p.ended)
		_ = p.cmd.Wait() // ProcessState has the result
	}()
	return p, nil
}

// environment returns our environment without settings for postrider. Temporary files go to the
// demo's directory, because a killed pass does not remove its own.
func environment(dir string) []string {
	var env []string
	for _, v := range os.Environ() {
		if !strings.HasPrefix(strings.ToUpper(v), "POSTRIDER_") {
			env = append(env, v)
		}
	}
	return append(env, "TMPDIR="+dir, "TMP="+dir, "TEMP="+dir)
}

// kill kills the process (SIGKILL, TerminateProcess) and waits until it has ended.
func (p *process) kill() {
	_ = p.cmd.Process.Kill() // fails when it has already ended
	<-p.ended
}

// unexpected is the error of a process that ended too early, or with a failure.
func (p *process) unexpected() error {
	return fmt.Errorf("a pass of the demo ended unexpectedly (%v); its output is:\n%s%s",
		p.cmd.ProcessState, p.out.String(), p.log.String())
}

// pass does one pass and returns its report, also that of a pass that found the inbox busy.
func (s *stage) pass(ctx context.Context) (report pass.Report, err error) {
	p, err := s.start(ctx)
	if err != nil {
		return report, err
	}
	<-p.ended
	if code := p.cmd.ProcessState.ExitCode(); code != 0 && code != exitIncomplete {
		return report, p.unexpected()
	}
	if err := json.Unmarshal(p.out.Bytes(), &report); err != nil {
		return report, fmt.Errorf("read the report of a pass: %w", err)
	}
	for _, in := range report.Inboxes {
		if in.Error != "" || report.RelayError != "" {
			return report, p.unexpected()
		}
	}
	return report, nil
}
