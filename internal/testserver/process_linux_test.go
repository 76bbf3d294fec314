package testserver

import (
	"os"
	"path/filepath"
	"testing"
)

// TestFreeze freezes a script whose children write all the time: once Freeze has returned, none of
// them writes any more.
func TestFreeze(t *testing.T) {
	dir := t.TempDir()
	written := filepath.Join(dir, "written")
	const script = `for i in 1 2 3 4; do while :; do echo >> "$0"; done & done; wait`
	proc, err := startProcess(filepath.Join(dir, "log"), nil, "/bin/sh", "-c", script, written)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(proc.kill)
	size := func() int64 {
		info, err := os.Stat(written)
		if err != nil {
			return 0
		}
		return info.Size()
	}
	b := &Broker{proc: proc}
	for range 50 {
		for before := size(); size() == before; {
			continue // until they write
		}
		b.Freeze()
		before := size()
		for range 1000 {
			if now := size(); now != before {
				t.Fatalf("%d octets were written after the script was frozen", now-before)
			}
		}
		b.Thaw()
	}
}
