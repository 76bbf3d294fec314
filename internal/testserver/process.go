package testserver

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"time"
)

const (
	startTimeout = 3 * time.Minute // generous: a loaded machine is not a failure
	stopTimeout  = 20 * time.Second
)

// process is a server that runs as a child of the test process, its output in a file.
type process struct {
	cmd     *exec.Cmd
	logFile string
	ended   chan struct{} // closed when the child is gone
	err     error         // how it ended; read after ended
}

// startProcess starts argv with its output appended to logFile, as the given account or, when that
// is nil, as who we are.
func startProcess(logFile string, as *account, argv ...string) (*process, error) {
	log, err := os.OpenFile(logFile, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open the log of %s: %w", argv[0], err)
	}
	p := &process{cmd: exec.Command(argv[0], argv[1:]...), logFile: logFile, ended: make(chan struct{})}
	p.cmd.Stdout, p.cmd.Stderr = log, log
	p.cmd.SysProcAttr = childAttr(as)
	started := make(chan error)
	go func() {
		// The kernel takes the end of the thread that forked for the end of the parent: this one
		// stays until the child is gone.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		defer close(p.ended)
		defer func() { _ = log.Close() }()
		err := p.cmd.Start()
		started <- err
		if err == nil {
			p.err = p.cmd.Wait()
		}
	}()
	if err := <-started; err != nil {
		return nil, fmt.Errorf("start %s: %w", argv[0], err)
	}
	return p, nil
}

// ownClock is the command line of a program that runs without libfaketime, which scripts/clocks
// preloads: with that and jemalloc, it would wait for itself for ever.
func ownClock(argv ...string) []string {
	return append([]string{"env", "-u", "LD_PRELOAD"}, argv...)
}

func commandWithOwnClock(argv ...string) *exec.Cmd {
	argv = ownClock(argv...)
	return exec.Command(argv[0], argv[1:]...)
}

// waitListening waits until the child listens on port, and says what it logged if it ends instead.
func (p *process) waitListening(port int) error {
	deadline := time.Now().Add(startTimeout)
	for {
		conn, err := net.DialTimeout("tcp", address(port), time.Second)
		if err == nil {
			return conn.Close()
		}
		select {
		case <-p.ended:
			return fmt.Errorf("start %s: it ended (%w); its last words:\n%s", p.cmd.Path, p.err, p.lastWords())
		case <-time.After(10 * time.Millisecond):
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("start %s: not listening on port %d after %v; its last words:\n%s",
				p.cmd.Path, port, startTimeout, p.lastWords())
		}
	}
}

// stop asks the child to end, kills it when it does not, and returns when it is gone.
func (p *process) stop() {
	if p.cmd.Process.Signal(syscall.SIGTERM) == nil {
		select {
		case <-p.ended:
			return
		case <-time.After(stopTimeout):
		}
	}
	p.kill()
}

func (p *process) lastWords() string {
	const most = 2000
	text, err := os.ReadFile(p.logFile)
	if err != nil {
		return err.Error()
	}
	return string(text[max(0, len(text)-most):])
}
