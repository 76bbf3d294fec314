//go:build unix

package secret

import (
	"io/fs"
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
