package testserver

import (
	"net"
	"testing"
)

// Listen gives each connection to serve, in a goroutine of its own, and closes it after that. It
// listens until the test is over.
func Listen(t testing.TB, serve func(net.Conn)) (port int) {
	t.Helper()
	ln, err := net.Listen("tcp", address(0))
	if err != nil {
		t.Fatalf("listen for a test: %v", err)
	}
	t.Cleanup(func() { _ = ln.Close() })
	go func() {
		for {
			conn, err := ln.Accept()
			if err != nil {
				return // the test is over
			}
			go func() {
				defer func() { _ = conn.Close() }()
				serve(conn)
			}()
		}
	}()
	return ln.Addr().(*net.TCPAddr).Port
}
