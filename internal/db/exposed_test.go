//go:build unix

package db

import (
	"os"
	"path/filepath"
	"testing"
)

func TestExposed(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "p.db")
	db := openMigrated(t, Config{Driver: SQLite, Path: path}) // with -wal and -shm, as long as it is open
	chmod := func(name string, mode os.FileMode) {
		t.Helper()
		if err := os.Chmod(name, mode); err != nil {
			t.Fatal(err)
		}
	}
	for _, tt := range []struct {
		name           string
		dir, file, wal os.FileMode
		want           string // empty for no error
	}{
		{"as it was made", 0o755, 0o600, 0o600, ""},
		{"all can read", 0o755, 0o644, 0o600, path + " has mode 0644; run: chmod 600 " + path},
		{"the group can read", 0o750, 0o640, 0o600, path + " has mode 0640; run: chmod 600 " + path},
		{"the group can write", 0o755, 0o620, 0o600, path + " has mode 0620; run: chmod 600 " + path},
		{"its log", 0o755, 0o600, 0o644, path + "-wal has mode 0644; run: chmod 600 " + path + "-wal"},
		{"both", 0o755, 0o644, 0o644, path + " has mode 0644; run: chmod 600 " + path},
		{"behind a directory", 0o700, 0o644, 0o644, ""},
		{"behind a directory of the group", 0o710, 0o604, 0o600, ""},
		{"and the group may read", 0o710, 0o640, 0o600, path + " has mode 0640; run: chmod 600 " + path},
	} {
		chmod(dir, tt.dir)
		chmod(path, tt.file)
		chmod(path+"-wal", tt.wal)
		got := ""
		if err := db.Exposed(); err != nil {
			got = err.Error()
		}
		if got != tt.want {
			t.Errorf("%s: got %q, want %q", tt.name, got, tt.want)
		}
	}
}

func TestServerIsNotExposed(t *testing.T) {
	if err := (&DB{dialect: MySQL, where: "/"}).Exposed(); err != nil {
		t.Errorf("a server: %v, want no error about files", err)
	}
}
