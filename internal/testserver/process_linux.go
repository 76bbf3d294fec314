package testserver

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// dieWithParent has the kernel stop the child when the test process dies without having stopped it.
// SIGTERM, because Dovecot takes its own children along only when it is asked to end.
func dieWithParent(attr *syscall.SysProcAttr) {
	attr.Pdeathsig = syscall.SIGTERM
}

// awaitStopped returns once all threads of a frozen child and of its own children have stopped: a
// server may be the child of a script.
func awaitStopped(pid int) {
	for deadline := time.Now().Add(stopTimeout); running(pid) && time.Now().Before(deadline); {
		time.Sleep(time.Millisecond)
	}
}

// running says whether a thread of the process group is not stopped. /proc/PID/task/TID/stat is
// `TID (NAME) STATE PARENT GROUP ...`.
func running(group int) bool {
	threads, _ := filepath.Glob("/proc/[0-9]*/task/[0-9]*/stat")
	for _, file := range threads {
		text, _ := os.ReadFile(file) // gone, when it fails
		fields := strings.Fields(string(text)[strings.LastIndex(string(text), ")")+1:])
		if len(fields) > 2 && fields[2] == strconv.Itoa(group) && !strings.Contains("TZX", fields[0]) {
			return true
		}
	}
	return false
}
