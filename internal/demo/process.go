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

// somethingLeft is the exit code of a pass that left something to be retried, or to be looked at by a person.
const somethingLeft = 75

// process is one pass, running.
type process struct {
	cmd      *exec.Cmd
	out, log bytes.Buffer
	ended    chan struct{} // closed when it is gone
}

func (s *stage) start(ctx context.Context) (*process, error) {
	p := &process{cmd: s.opts.Pass(ctx, s.config), ended: make(chan struct{})}
	p.cmd.Stdout, p.cmd.Stderr, p.cmd.Env = &p.out, &p.log, environment(s.dir)
	if err := p.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start a pass: %w", err)
	}
	go func() {
		defer close(p.ended)
		_ = p.cmd.Wait() // how it ended is in ProcessState
	}()
	return p, nil
}

// environment is ours without the settings that it may hold for postrider, and with the demo's directory for what a
// killed pass does not clear away.
func environment(dir string) []string {
	var env []string
	for _, v := range os.Environ() {
		if !strings.HasPrefix(strings.ToUpper(v), "POSTRIDER_") {
			env = append(env, v)
		}
	}
	return append(env, "TMPDIR="+dir, "TMP="+dir, "TEMP="+dir)
}

// kill ends it at once (SIGKILL, TerminateProcess) and returns when it is gone.
func (p *process) kill() {
	_ = p.cmd.Process.Kill() // or it is gone already
	<-p.ended
}

// unexpected is the error of a process that was to do something else than to end, or than to end like this.
func (p *process) unexpected() error {
	return fmt.Errorf("a pass of the demo ended too early (%v); it said:\n%s%s", p.cmd.ProcessState, p.out.String(), p.log.String())
}

// pass does one pass and returns its report, that of a pass that stepped aside included.
func (s *stage) pass(ctx context.Context) (report pass.Report, err error) {
	p, err := s.start(ctx)
	if err != nil {
		return report, err
	}
	<-p.ended
	if code := p.cmd.ProcessState.ExitCode(); code != 0 && code != somethingLeft {
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
