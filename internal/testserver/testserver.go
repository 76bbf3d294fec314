// Package testserver starts the servers that tests need, on loopback: a real Dovecot, MariaDB,
// MySQL, Postfix and a Galera cluster as children of the test process, a name server, a proxy that
// cuts connections and one that delays them. Its subpackages are servers inside the process.
//
// Everything lives in temporary folders and on free ports, and is gone when the tests are over. On
// Linux the folders are in memory, if there is room (see inMemory). When the tests are killed, so
// are the servers (on Linux; see dieWithParent), but not the folders; the next tests remove those
// in memory. Dovecot and Postfix are one server per call. A database is slower to start: all tests
// of a process share it, and every test makes databases of its own in it. A package that uses one
// calls Main from its TestMain.
//
// When a server or the verifier dkimpy is not installed, the test is skipped and says how to get
// it. With POSTRIDER_REQUIRE_SERVERS set, as in CI, it fails instead. MySQL and Galera, which not
// every machine can have, and Postfix, Exim and OpenSMTPD, which also need root, are never required.
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

// freePorts finds different ports for a server to listen on. They stay below the range
// that the system gives to outgoing connections (32768 and up on Linux), so that none of those
// takes one meanwhile or while a server restarts.
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
