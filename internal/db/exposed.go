package db

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"

	"postrider/internal/text"
)

// Exposed returns an error that names a file of an SQLite database that other users can read or
// write, and the command that changes that. postrider creates these files with mode 0600, but a
// restored copy may have another mode. Files in a directory that others cannot enter are not
// exposed. The directories above are not checked.
func (db *DB) Exposed() error {
	if db.dialect != SQLite || runtime.GOOS == "windows" {
		return nil
	}
	dir, err := os.Stat(filepath.Dir(db.where))
	if err != nil {
		return nil // cannot be checked
	}
	var entered os.FileMode // the bits of those who can enter the directory
	if dir.Mode()&0o010 != 0 {
		entered |= 0o060
	}
	if dir.Mode()&0o001 != 0 {
		entered |= 0o006
	}
	for _, end := range []string{"", "-wal", "-shm"} { // SQLite gives the last two the mode of the first
		path := db.where + end
		info, err := os.Stat(path)
		if err == nil && info.Mode()&entered != 0 {
			return fmt.Errorf("%s has mode %04o; run: chmod 600 %s", path, info.Mode().Perm(), text.Arg(path))
		}
	}
	return nil
}
