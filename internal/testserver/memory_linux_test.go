package testserver

import (
	"os"
	"testing"
)

// TestMemoryDir: a folder whose process was killed is removed, one whose process runs is not.
func TestMemoryDir(t *testing.T) {
	base := t.TempDir()
	killed, unlock, err := newMemoryDir(base)
	if err != nil {
		t.Fatal(err)
	}
	unlock() // as the end of the process does
	first, unlock, err := newMemoryDir(base)
	if err != nil {
		t.Fatal(err)
	}
	defer unlock()
	second, unlock, err := newMemoryDir(base)
	if err != nil {
		t.Fatal(err)
	}
	defer unlock()
	for dir, want := range map[string]bool{killed: false, first: true, second: true} {
		if _, err := os.Stat(dir); (err == nil) != want {
			t.Errorf("%s: %v; want that it is there: %v", dir, err, want)
		}
	}
}
