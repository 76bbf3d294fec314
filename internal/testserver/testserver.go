// Package testserver starts the servers that tests need, on loopback: a real Dovecot, MariaDB,
// MySQL, Postfix, a Galera cluster and a receiver that judges mail as children of the test process,
// a name server, a proxy that cuts connections and one that delays them. Its subpackages are
// servers inside the process.
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
// every machine can have, and Postfix, Exim and OpenSMTPD, which also need root, are never
// required.
package testserver

import (
	"fmt"
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

// TempDir is the folder for what has UNIX sockets in it: /tmp where TMPDIR is long, because the
// name of a socket has at most 104 octets.
func TempDir() string {
	const most = 55 // with the longest name of a socket behind it
	if dir := os.TempDir(); len(dir) <= most {
		return dir
	}
	return "/tmp"
}

// newDir makes a folder for the files of a server. It is not t.TempDir, whose names are long.
func newDir(name string) (string, error) { return os.MkdirTemp(TempDir(), name) }

func address(port int) string {
	return fmt.Sprintf("%s:%d", loopback, port)
}
