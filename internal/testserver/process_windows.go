package testserver

import "syscall"

// childAttr asks for nothing: none of the servers runs on Windows.
func childAttr(*account) *syscall.SysProcAttr {
	return nil
}

func (p *process) kill() {
	_ = p.cmd.Process.Kill()
	<-p.ended
}

func (p *process) freeze() {}

func (p *process) thaw() {}

func plainUmask() {}

func awaitStopped(int) {}
