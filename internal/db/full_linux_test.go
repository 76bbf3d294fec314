package db

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// TestWritableOnAFullDisk: a transaction that is rolled back does not show that the disk is full.
func TestWritableOnAFullDisk(t *testing.T) {
	disk := t.TempDir()
	if err := syscall.Mount("tmpfs", disk, "tmpfs", 0, "size=4m"); err != nil {
		t.Skipf("a small disk cannot be mounted: %v", err)
	}
	t.Cleanup(func() { _ = syscall.Unmount(disk, syscall.MNT_DETACH) })
	// The file is a link: its disk is that of what it leads to.
	linked := Config{Driver: SQLite, Path: filepath.Join(t.TempDir(), "linked.db")}
	if err := os.Symlink(filepath.Join(disk, "postrider.db"), linked.Path); err != nil {
		t.Fatal(err)
	}
	checkMigrated(t, Config{Driver: SQLite, Path: filepath.Join(disk, "postrider.db")})
	db := openMigrated(t, linked)
	if err := db.Writable(testContext(t)); err != nil {
		t.Fatalf("with room: %v, want no error", err)
	}
	filler := filepath.Join(disk, "filler")
	if err := os.WriteFile(filler, make([]byte, 4<<20), 0o600); err == nil {
		t.Fatal("there is room on a full disk")
	}
	wantText(t, db.Writable(testContext(t)), "no space left on device", "check whether its disk is full")
	left, err := filepath.Glob(filepath.Join(disk, "*.check-*"))
	if err != nil || len(left) > 0 {
		t.Errorf("left behind: %v (%v), want nothing", left, err)
	}
}
