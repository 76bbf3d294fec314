//go:build !unix

package forward

import "net"

// quiet cannot look without waiting on this system.
func quiet(net.Conn) bool { return true }
