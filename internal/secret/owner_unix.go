//go:build unix

package secret

import (
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// owner is the user ID of a file's owner.
func owner(info fs.FileInfo) (uid int, ok bool) {
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return 0, false
	}
	return int(stat.Uid), true
}

// GiveToDirectoryOwner gives a file that root has just created to the user who owns its directory,
// as SQLite does with the files beside a database: the service, which runs as that user, could not
// open it. It does nothing for others than root. A failure leaves the file to root, who can use it.
func GiveToDirectoryOwner(f *os.File) {
	dir, err := os.Stat(filepath.Dir(f.Name()))
	if err != nil || os.Geteuid() != 0 {
		return
	}
	if stat, ok := dir.Sys().(*syscall.Stat_t); ok {
		_ = f.Chown(int(stat.Uid), int(stat.Gid))
	}
}
