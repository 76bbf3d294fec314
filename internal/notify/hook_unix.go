//go:build unix

package notify

import (
	"os/exec"
	"syscall"
)

// inGroup has the end of the context kill what the program has started, too.
func inGroup(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
}
