package db

import (
	"path/filepath"
	"syscall"
	"testing"
)

// TestReadOnlyFileSystem: a sandbox of systemd makes all that it does not name read-only.
func TestReadOnlyFileSystem(t *testing.T) {
	disk := t.TempDir()
	if err := syscall.Mount("tmpfs", disk, "tmpfs", 0, "size=4m"); err != nil {
		t.Skipf("a file system cannot be mounted: %v", err)
	}
	t.Cleanup(func() { _ = syscall.Unmount(disk, syscall.MNT_DETACH) })
	cfg := Config{Driver: SQLite, Path: filepath.Join(disk, "postrider.db")}
	first, err := Open(testContext(t), cfg)
	if err != nil {
		t.Fatal(err)
	}
	_ = first.Close()
	if err := syscall.Mount("", disk, "", syscall.MS_REMOUNT|syscall.MS_RDONLY, ""); err != nil {
		t.Fatal(err)
	}
	_, err = Open(testContext(t), cfg)
	wantText(t, err, cfg.Path+" is on a read-only file system", "ReadWritePaths="+disk)
}
