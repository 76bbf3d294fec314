package secret

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"postrider/internal/text"
)

// FixAccess is what to do when this user may not read or write files of one owner, after "; ".
func FixAccess(paths ...string) string {
	quoted := make([]string, len(paths))
	for i := range paths {
		quoted[i] = text.Arg(paths[i])
	}
	names := strings.Join(quoted, " ")
	info, err := os.Stat(paths[0])
	if err != nil {
		return "make sure that this user can enter the directory " + filepath.Dir(paths[0])
	}
	uid, ok := owner(info)
	if !ok {
		return "make sure that this user can read and write " + names
	}
	return fixAccess(names, uid, os.Geteuid())
}

// fixAccess never sends a user to root: what root creates, others cannot use.
func fixAccess(names string, uid, me int) string {
	switch uid {
	case me:
		return "run: chmod u+rw " + names
	case 0:
		return "as root, run: chown " + userName(me) + " " + names
	}
	return fmt.Sprintf("run postrider as %s (sudo -u %[1]s postrider ...), or: chown %s %s",
		userName(uid), userName(me), names)
}

// fixReaders is what to do when others may read a file, after "; ".
func fixReaders(path string, info fs.FileInfo) string {
	uid, ok := owner(info)
	if !ok {
		uid = os.Geteuid()
	}
	return fixMode(text.Arg(path), uid, os.Geteuid())
}

// fixMode gives another's file to this user first, who could not read it with mode 0600.
func fixMode(name string, uid, me int) string {
	if uid == me || me == 0 {
		return "run: chmod 600 " + name
	}
	return fixAccess(name, uid, me) + " && chmod 600 " + name
}
