package text

import (
	"errors"
	"fmt"
	"net"
	"os"
	"syscall"
	"testing"
)

func TestNoFiles(t *testing.T) {
	dial := &net.OpError{Op: "dial", Net: "tcp", Err: os.NewSyscallError("socket", syscall.EMFILE)}
	for _, tt := range []struct {
		err  error
		want string
	}{
		{dial, RaiseFiles},
		{&os.PathError{Op: "open", Path: "x", Err: syscall.ENFILE}, RaiseFiles},
		{&net.DNSError{Err: fmt.Sprint(dial), Name: "x.example"}, RaiseFiles},
		{errors.New("no such file"), ""},
	} {
		if got := NoFiles(tt.err); got != tt.want {
			t.Errorf("NoFiles(%v) is %q, want %q", tt.err, got, tt.want)
		}
	}
}
