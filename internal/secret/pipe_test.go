//go:build unix

package secret

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// TestPipe: what is read by a service does not wait for who writes to a pipe. What a person waits
// for does.
func TestPipe(t *testing.T) {
	path := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	for name, read := range map[string]func() error{
		"Resolve":         func() error { _, err := Resolve("file:" + path); return err },
		"Files.Resolve":   func() error { _, err := Files{filepath.Dir(path)}.Resolve("file:" + path); return err },
		"ReadPrivateFile": func() error { _, err := ReadPrivateFile(path); return err },
	} {
		want := path + " is a pipe or a device; name a regular file"
		if err := read(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want an error that says what it is", name, err)
		}
	}
	go func() { _ = os.WriteFile(path, []byte("hunter2\n"), 0) }()
	if got, err := FromPath(path); got != "hunter2" || err != nil {
		t.Errorf("FromPath = %q, %v; want what is written to the pipe", got, err)
	}
}
