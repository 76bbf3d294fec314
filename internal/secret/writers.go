package secret

import (
	"fmt"
	"io/fs"
	"os"
	"os/user"
	"strconv"

	"postrider/internal/text"
)

// CheckWriters returns an error when users other than root and the one who runs this process can
// change a file: its mode lets them write, or one of them owns it. It is for files that say what is
// executed. The error has the command that fixes it, and says of path only "it". On Windows, which
// has no such modes and owners, there is no error.
func CheckWriters(path string, info fs.FileInfo) error {
	if err := CheckMode(path, info); err != nil {
		return err
	}
	uid, ok := owner(info)
	if !ok {
		return nil
	}
	return checkOwner(path, uid, os.Geteuid())
}

// CheckMode is the part of CheckWriters about the mode.
func CheckMode(path string, info fs.FileInfo) error {
	if _, ok := owner(info); ok && info.Mode().Perm()&0o022 != 0 {
		return fmt.Errorf("other users can write it (mode %04o); run: chmod go-w %s", info.Mode().Perm(), text.Arg(path))
	}
	return nil
}

func checkOwner(path string, uid, me int) error {
	if uid == 0 || uid == me {
		return nil
	}
	return fmt.Errorf("it belongs to the user %s, and not to %s, who runs postrider; %s", userName(uid), userName(me), fixAccess(text.Arg(path), uid, me))
}

// userName is the number of a user without a name.
func userName(uid int) string {
	id := strconv.Itoa(uid)
	if u, err := user.LookupId(id); err == nil {
		return u.Username
	}
	return id
}
