//go:build unix

package db

import (
	"os"

	"golang.org/x/sys/unix"
)

// mayWrite returns an error if this user cannot write a file or directory. It does not open it:
// closing it would drop the locks that this process holds on it through SQLite.
func mayWrite(path string) error { return unix.Access(path, unix.W_OK) }

// isMine reports whether this user owns it.
func isMine(path string) bool {
	var st unix.Stat_t
	return unix.Stat(path, &st) == nil && int(st.Uid) == os.Geteuid()
}
