//go:build unix

package forward

import (
	"net"
	"syscall"
)

// quiet reports that nothing is there to be read from a connection, not even its end. It does not
// wait. It returns true for a connection without a file descriptor.
func quiet(conn net.Conn) bool {
	system, ok := conn.(syscall.Conn)
	if !ok {
		return true
	}
	raw, err := system.SyscallConn()
	if err != nil {
		return true
	}
	nothing := true
	_ = raw.Read(func(fd uintptr) bool {
		_, _, err := syscall.Recvfrom(int(fd), make([]byte, 1), syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
		nothing = err == syscall.EAGAIN || err == syscall.EWOULDBLOCK || err == syscall.EINTR
		return true
	})
	return nothing
}
