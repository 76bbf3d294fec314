//go:build unix

package testserver

import (
	"os"
	"syscall"
)

// childAttr puts the child at the head of a process group of its own, for kill, and has it run as
// the account if one is given.
func childAttr(as *account) *syscall.SysProcAttr {
	attr := &syscall.SysProcAttr{Setpgid: true}
	if as != nil && os.Getuid() == 0 { // otherwise it is who we are
		attr.Credential = &syscall.Credential{Uid: as.uid, Gid: as.gid}
	}
	dieWithParent(attr)
	return attr
}

// kill ends the child and its own children at once, and returns when it is gone.
func (p *process) kill() {
	select {
	case <-p.ended: // its id may be somebody else's by now
		return
	default:
	}
	_ = syscall.Kill(-p.cmd.Process.Pid, syscall.SIGKILL)
	<-p.ended
}

// freeze stops the child and its own children where they are.
func (p *process) freeze() { _ = syscall.Kill(-p.cmd.Process.Pid, syscall.SIGSTOP) }

// thaw lets them go on.
func (p *process) thaw() { _ = syscall.Kill(-p.cmd.Process.Pid, syscall.SIGCONT) }

// plainUmask is what most systems have: with another, files that a test writes may be writable by
// the group, which is refused for a configuration.
func plainUmask() { syscall.Umask(0o022) }
