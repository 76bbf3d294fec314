package text

import (
	"strings"
	"syscall"
)

// NoFiles is what to do if an error of the operating system says that this process can open no more
// files; empty for other errors. A connection is a file, too. It looks at the text, because a
// *net.DNSError does not wrap its cause.
func NoFiles(err error) string {
	if err == nil || !strings.Contains(err.Error(), syscall.EMFILE.Error()) {
		return ""
	}
	return RaiseFiles
}

// RaiseFiles is how a process can open more files.
const RaiseFiles = "raise the limit of open files (ulimit -n, or LimitNOFILE= in systemd)"
