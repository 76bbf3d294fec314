// Package testserver starts the servers that tests need, on loopback: a real Dovecot, MariaDB, MySQL and Postfix as
// children of the test process, a name server and a proxy that cuts connections. Its subpackages are servers inside the process.
//
// Everything lives in temporary folders and on free ports, and is gone when the tests are over; when they are killed,
// so are the servers (on Linux; see dieWithParent), but not the folders. Dovecot and Postfix are one server per call. A
// database is slower to start, so it is shared by all tests of a process and every test makes databases of its own in it; a
// package that uses one calls Main from its TestMain.
//
// A server, or the verifier dkimpy, that is not installed skips the test and says how to get it. With POSTRIDER_REQUIRE_SERVERS set, as in CI,
// it fails instead, except for MySQL, which not every machine can have, and Postfix, which wants root besides.
package testserver

import (
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"testing"
)

const loopback = "127.0.0.1"

// missing ends a test whose server is not there.
func missing(t testing.TB, what string) {
	t.Helper()
	if required := os.Getenv("POSTRIDER_REQUIRE_SERVERS"); required != "" && required != "0" {
		t.Fatal(what)
	}
	t.Skip(what)
}

// freePorts finds different ports that a server can be told to listen on. They stay below the range that the system gives to
// outgoing connections (32768 and up on Linux), so that none of those takes one meanwhile or while a server restarts.
func freePorts(n int) ([]int, error) {
	const first, last, tries = 20000, 31999, 200
	var ports []int
	for range tries {
		if len(ports) == n {
			return ports, nil
		}
		port := first + rand.IntN(last-first+1)
		if ln, err := net.Listen("tcp", address(port)); err == nil {
			defer func() { _ = ln.Close() }() // only when all are found: none is found twice
			ports = append(ports, port)
		}
	}
	return nil, fmt.Errorf("find %d free ports on %s: only %d in %d tries", n, loopback, len(ports), tries)
}

func freePort() (int, error) {
	ports, err := freePorts(1)
	if err != nil {
		return 0, err
	}
	return ports[0], nil
}

func address(port int) string {
	return fmt.Sprintf("%s:%d", loopback, port)
}
