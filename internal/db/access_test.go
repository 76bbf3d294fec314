//go:build unix

package db

import (
	"os"
	"testing"

	"gorm.io/gorm"
)

// TestFileWithoutWritePermission: the files that cannot be written are named with the command, also
// those that a reader left with the mode of the database.
func TestFileWithoutWritePermission(t *testing.T) {
	if os.Geteuid() == 0 {
		t.Skip("root can write every file")
	}
	cfg := freshSQLite(t)
	first, err := Open(testContext(t), cfg)
	if err != nil {
		t.Fatal(err)
	}
	_ = first.Close()
	for _, tt := range []struct {
		name   string
		mode   os.FileMode
		denied string // what has the wrong mode
	}{
		{"the file", 0o400, cfg.Path},
		{"what a reader left", 0o600, cfg.Path + "-"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if err := os.Chmod(cfg.Path, tt.mode); err != nil {
				t.Fatal(err)
			}
			_, err := Open(testContext(t), cfg)
			wantText(t, err, "cannot open the sqlite database",
				"this user cannot write "+tt.denied, "run: chmod u+rw "+tt.denied)
			existing := cfg
			existing.Existing = true
			db, err := Open(testContext(t), existing)
			if err != nil {
				t.Fatalf("%v, want it open for those that only read", err)
			}
			defer func() { _ = db.Close() }()
			var n int
			if err := db.View(testContext(t), func(tx *gorm.DB) error {
				return tx.Raw("SELECT COUNT(*) FROM monitored_emails").Scan(&n).Error
			}); err != nil {
				t.Errorf("%v, want that it can be read", err)
			}
			wantText(t, db.FileWritable(), "this user cannot write "+tt.denied, "run: chmod u+rw "+tt.denied)
			wantText(t, db.Tx(testContext(t), func(tx *gorm.DB) error {
				return Run(tx, "DELETE FROM monitored_emails")
			}), "attempt to write a readonly database", "run: chmod u+rw "+tt.denied)
		})
	}
}

// TestDirectoryWithoutWritePermission: the directory is named in full, with the command.
func TestDirectoryWithoutWritePermission(t *testing.T) {
	if os.Geteuid() == 0 {
		t.Skip("root can write in every directory")
	}
	dir := t.TempDir()
	t.Chdir(dir)
	for _, name := range []string{"there.db", "new.db"} {
		t.Run(name, func(t *testing.T) {
			if name == "there.db" {
				first, err := Open(testContext(t), Config{Driver: SQLite, Path: name})
				if err != nil {
					t.Fatal(err)
				}
				_ = first.Close()
			}
			if err := os.Chmod(dir, 0o500); err != nil {
				t.Fatal(err)
			}
			defer func() { _ = os.Chmod(dir, 0o700) }()
			_, err := Open(testContext(t), Config{Driver: SQLite, Path: name})
			wantText(t, err, name, "run: chmod u+rw "+dir)
		})
	}
}

// TestDirectoryOfOthers: no command gives root's directory with other files to this user.
func TestDirectoryOfOthers(t *testing.T) {
	if os.Geteuid() == 0 {
		t.Skip("root can write in every directory")
	}
	_, err := Open(testContext(t), Config{Driver: SQLite, Path: "/postrider-test.db"})
	wantText(t, err, "make sure that this user can write the file and the directory /, or change database.path")
}
