package testserver

import (
	"syscall"

	"golang.org/x/sys/unix"
)

// dieWithParent has the kernel stop the child when the test process dies without having stopped it.
// SIGTERM, because Dovecot takes its own children along only when it is asked to end.
func dieWithParent(attr *syscall.SysProcAttr) {
	attr.Pdeathsig = syscall.SIGTERM
}

// awaitStopped returns once all threads of a frozen child have stopped.
func awaitStopped(pid int) {
	for unix.Waitid(unix.P_PID, pid, nil, unix.WSTOPPED, nil) == unix.EINTR {
		continue
	}
}
