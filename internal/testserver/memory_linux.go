package testserver

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
)

const (
	memory       = "/dev/shm"
	memoryNeeded = 4 << 30 // octets free: a database of a test has up to a million tasks
)

// inMemory has the temporary folders of this test process lie in memory, if there is room:
// databases in tests mostly wait for the disk. They sync as they do on a disk, and what they wrote
// survives their death. TMPDIR names another place; benchmarks stay on the disk.
func inMemory() (remove func()) {
	if !flag.Parsed() {
		flag.Parse()
	}
	bench := flag.Lookup("test.bench")
	var fs syscall.Statfs_t
	if os.Getenv("TMPDIR") != "" || os.Getenv("POSTRIDER_BENCH") != "" || bench != nil && bench.Value.String() != "" ||
		syscall.Statfs(memory, &fs) != nil || fs.Bavail*uint64(fs.Bsize) < memoryNeeded {
		return func() {}
	}
	dir, unlock, err := newMemoryDir(memory)
	if err == nil {
		err = os.Setenv("TMPDIR", dir)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "temporary folders stay on the disk:", err)
		return func() {}
	}
	return func() {
		_ = os.RemoveAll(dir)
		unlock()
	}
}

const memoryDirs = "postrider-test-"

// newMemoryDir makes a folder in base that is locked until unlock is called or the process ends,
// and removes the folders of processes that were killed.
func newMemoryDir(base string) (dir string, unlock func(), err error) {
	old, _ := filepath.Glob(filepath.Join(base, memoryDirs+"*"))
	for _, dir := range old {
		if f, err := lockDir(dir, syscall.LOCK_NB); err == nil {
			_ = os.RemoveAll(dir)
			_ = f.Close()
		}
	}
	for {
		if dir, err = os.MkdirTemp(base, memoryDirs); err != nil {
			return "", nil, err
		}
		f, err := lockDir(dir, 0)
		if err == nil {
			err = os.Chmod(dir, 0o755) // servers run as other users
		}
		if err == nil {
			return dir, func() { _ = f.Close() }, nil
		}
		if !errors.Is(err, os.ErrNotExist) { // else another process removed it before it was locked
			return "", nil, err
		}
	}
}

func lockDir(dir string, how int) (*os.File, error) {
	f, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|how); err != nil {
		_ = f.Close()
		return nil, fmt.Errorf("lock %s: %w", dir, err)
	}
	return f, nil
}
