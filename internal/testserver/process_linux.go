package testserver

import "syscall"

// dieWithParent has the kernel stop the child when the test process dies without having stopped it.
// SIGTERM, because Dovecot takes its own children along only when it is asked to end.
func dieWithParent(attr *syscall.SysProcAttr) {
	attr.Pdeathsig = syscall.SIGTERM
}
