//go:build !unix

package secret

import (
	"io/fs"
	"os"
)

// owner is never known: there are no user IDs.
func owner(fs.FileInfo) (uid int, ok bool) { return 0, false }

// GiveToDirectoryOwner does nothing: there are no user IDs.
func GiveToDirectoryOwner(*os.File) {}
