package testserver

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// MySQL returns this test process's MySQL, a real one. Not every system packages it, so without it
// a test is skipped, whatever is required.
//
// It is looked for in the folder that scripts/test unpacks a Debian with MySQL into
// ($POSTRIDER_MYSQL_ROOT names another), and then on the PATH, where MariaDB's `mysqld` does not
// count.
func MySQL(t testing.TB) *SQL {
	t.Helper()
	mysqld := mysqlFromRoot()
	if mysqld == nil {
		mysqld = mysqlFromPath()
	}
	if mysqld == nil {
		t.Skip("MySQL is not installed: as root, run scripts/test, " +
			"or set POSTRIDER_MYSQL_ROOT to a folder that holds one")
	}
	mysqld = append(mysqld, "--innodb-redo-log-capacity=8M", "--mysqlx=OFF")
	return shared(t, "mysql", func(dir string) (*SQL, error) {
		install := append([]string(nil), mysqld...)
		return newSQL(dir, append(install, "--initialize-insecure"), mysqld)
	})
}

// mysqlFromRoot gives the command for the mysqld of a Debian unpacked into a folder: run by that
// Debian's own loader with its own libraries, it needs neither root's rights nor chroot.
func mysqlFromRoot() []string {
	root := os.Getenv("POSTRIDER_MYSQL_ROOT")
	if root == "" {
		root = filepath.Join(cacheDir(), "mysql-root")
	}
	loaders, _ := filepath.Glob(filepath.Join(root, "usr/lib*/ld-linux-*.so.*"))
	libraries, _ := filepath.Glob(filepath.Join(root, "usr/lib/*-linux-gnu"))
	mysqld := filepath.Join(root, "usr/sbin/mysqld")
	if _, err := exec.LookPath(mysqld); err != nil || len(loaders) == 0 {
		return nil
	}
	share := filepath.Join(root, "usr/share/mysql")
	return []string{
		loaders[0], "--library-path", strings.Join(libraries, ":"), mysqld, "--no-defaults",
		"--basedir=" + filepath.Join(root, "usr"),
		"--lc-messages-dir=" + share, "--character-sets-dir=" + filepath.Join(share, "charsets"),
	}
}

func mysqlFromPath() []string {
	mysqld := findBinary("mysqld")
	if mysqld == "" {
		return nil
	}
	version, err := exec.Command(mysqld, "--version").Output()
	if err != nil || strings.Contains(string(version), "MariaDB") {
		return nil
	}
	return []string{mysqld, "--no-defaults"}
}

// cacheDir is where scripts/test keeps what it fetched.
func cacheDir() string {
	cache := os.Getenv("XDG_CACHE_HOME")
	if cache == "" {
		home, err := os.UserHomeDir()
		if err != nil {
			return ""
		}
		cache = filepath.Join(home, ".cache")
	}
	return filepath.Join(cache, "postrider-test")
}
