//go:build unix

package notify

import (
	"os/exec"
	"syscall"
)

// killGroup makes the end of the context kill the program and all processes that it started.
func killGroup(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
}
