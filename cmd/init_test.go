package cmd

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"postrider/internal/config"
)

// TestInitLosesARace: a configuration that another process makes while init asks stays as it is,
// and the password is not left behind.
func TestInitLosesARace(t *testing.T) {
	path := filepath.Join(t.TempDir(), "postrider.yaml")
	if err := os.WriteFile(path, []byte("theirs"), 0o600); err != nil {
		t.Fatal(err)
	}
	d := &draft{
		app: &app{out: io.Discard, env: noEnv}, path: path, password: "s3cret",
		first: config.First{
			Host: "h", Username: "ann", Password: "file:" + relayPasswordFile,
			From: "a@firm.example", To: "b@firm.example",
		},
	}
	if err := d.write(); exitCode(err) != exitUsage || !strings.Contains(err.Error(), "init never replaces a file") {
		t.Errorf("write = %v; want exit code %d, and why", err, exitUsage)
	}
	if got, err := os.ReadFile(path); err != nil || string(got) != "theirs" {
		t.Errorf("the file holds %q, %v; want what it had", got, err)
	}
	if all, err := os.ReadDir(filepath.Dir(path)); err != nil || len(all) != 1 {
		t.Errorf("the directory has %v, %v; want the configuration alone", all, err)
	}
}
