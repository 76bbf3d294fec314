package imapsrc

import (
	"net"
	"os"
	"strings"
	"syscall"
	"testing"
)

// TestNoMoreFiles: a connection that this process may not open says nothing about the server.
func TestNoMoreFiles(t *testing.T) {
	err := (&Conn{}).failure(t.Context(), opConnect,
		&net.OpError{Op: "dial", Net: "tcp", Err: os.NewSyscallError("socket", syscall.EMFILE)})
	got := err.Error()
	if !strings.Contains(got, "raise the limit of open files") || strings.Contains(got, "check host") {
		t.Errorf("the error is %q, want the limit of open files, and not the host", got)
	}
}
