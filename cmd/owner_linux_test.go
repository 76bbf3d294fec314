package cmd

import (
	"maps"
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// TestFilesOfRoot: what root's commands create belongs to the user of the service, who owns the
// directory.
func TestFilesOfRoot(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can give files away")
	}
	const service = 65534
	dir := t.TempDir()
	if err := os.Chown(dir, service, service); err != nil {
		t.Fatal(err)
	}
	env := map[string]string{
		"POSTRIDER_DATABASE_PATH":    filepath.Join(dir, "postrider.db"),
		"POSTRIDER_SECRETS_KEY_FILE": filepath.Join(dir, "postrider.key"),
	}
	if err := os.WriteFile(filepath.Join(dir, "password"), []byte("sesame"), 0o600); err != nil {
		t.Fatal(err)
	}
	code, stderr := runIn(t.Context(), t, env, "inbox", "add", "desk@firm.example",
		"--host", "imap.firm.example", "--no-check", "--password-file", filepath.Join(dir, "password"))
	if code != exitOK {
		t.Fatalf("exit code %d, %s", code, stderr)
	}
	files, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	owners := map[string]uint32{}
	for _, f := range files {
		info, err := f.Info()
		if err != nil {
			t.Fatal(err)
		}
		owners[f.Name()] = info.Sys().(*syscall.Stat_t).Uid
	}
	want := map[string]uint32{
		"password": 0, "postrider.db": service, "postrider.db.migrate-lock": service, "postrider.key": service,
	}
	if !maps.Equal(owners, want) {
		t.Errorf("the owners are %v, want %v", owners, want)
	}
}
