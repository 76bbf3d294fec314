//go:build unix

package db

import "golang.org/x/sys/unix"

// mayWrite returns an error if this user cannot write a file or directory. It does not open it:
// closing it would drop the locks that this process holds on it through SQLite.
func mayWrite(path string) error { return unix.Access(path, unix.W_OK) }
