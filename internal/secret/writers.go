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
// change a file: its mode lets them write, or one of them owns it. could is what they could do,
// such as "log in". The error has the command that fixes it, and says of path only "it". On
// Windows, which has no such modes and owners, there is no error.
func CheckWriters(path string, info fs.FileInfo, could string) error {
	if err := CheckMode(path, info, could); err != nil {
		return err
	}
	uid, ok := owner(info)
	if !ok {
		return nil
	}
	return checkOwner(path, uid, os.Geteuid())
}

// CheckMode is the part of CheckWriters about the mode.
func CheckMode(path string, info fs.FileInfo, could string) error {
	if _, ok := owner(info); ok && info.Mode().Perm()&0o022 != 0 {
		return fmt.Errorf("other users can write it (mode %04o), and so could %s. To fix it: chmod go-w %s",
			info.Mode().Perm(), could, text.Arg(path))
	}
	return nil
}

func checkOwner(path string, uid, me int) error {
	if uid == 0 || uid == me {
		return nil
	}
	return fmt.Errorf("it belongs to %s, but %s runs postrider. "+
		"Run it as %[1]s (sudo -u %[1]s postrider ...), or: chown %[2]s %s",
		userName(uid), userName(me), text.Arg(path))
}

// userName is the number of a user without a name.
func userName(uid int) string {
	id := strconv.Itoa(uid)
	if u, err := user.LookupId(id); err == nil {
		return u.Username
	}
	return id
}
