//go:build unix

package config

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestWritableByOthers: whoever can write the configuration can run programs as its user (hook).
func TestWritableByOthers(t *testing.T) {
	path := write(t, minimal)
	for mode, refused := range map[os.FileMode]bool{0o600: false, 0o644: false, 0o660: true, 0o602: true, 0o666: true} {
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
		want := fmt.Sprintf("%s is not used: other users can write it (mode %04o), "+
			"and so could run programs as this user (hook, command:). To fix it: chmod go-w %[1]s", path, mode)
		_, err := loadFile(path, variables())
		if refused && (err == nil || !strings.Contains(err.Error(), want)) || !refused && err != nil {
			t.Errorf("mode %04o: got %v; want %q: %v", mode, err, want, refused)
		}
	}
	if os.Geteuid() != 0 {
		return // only root can give a file away
	}
	if err := os.Chmod(path, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chown(path, 4711, -1); err != nil {
		t.Fatal(err)
	}
	const refused = " is not used: it belongs to 4711, but root runs postrider. "
	_, err := loadFile(path, variables())
	if err == nil || !strings.Contains(err.Error(), path+refused) ||
		!strings.Contains(err.Error(), "chown root "+path) {
		t.Errorf("owned by 4711: got %v, want an error with the chown", err)
	}
}

// TestFindAsRoot: root does not search a directory in which others can put a configuration.
func TestFindAsRoot(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can give a file away; everybody else searches the current directory")
	}
	for _, tt := range []struct {
		name      string
		dir, file int // the owners
		dirMode   os.FileMode
		says      string // why it is not searched; empty if it is
	}{
		{"both root's", 0, 0, 0o755, ""},
		{
			"another's file", 0, 4711, 0o755,
			"postrider.yaml is not used: it belongs to 4711, but root runs postrider. " +
				"Run it as 4711 (sudo -u 4711 postrider ...)",
		},
		{"another's file and directory", 4711, 4711, 0o755, "Run it as 4711 (sudo -u 4711 postrider ...)"},
		{"another's directory", 4711, 0, 0o755, "name it with -c postrider.yaml"},
		{"a directory that all can write", 0, 0, 0o777 | os.ModeSticky, "name it with -c postrider.yaml"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			t.Chdir(dir)
			file := filepath.Join(dir, "postrider.yaml")
			if err := os.WriteFile(file, []byte(minimal), 0o600); err != nil {
				t.Fatal(err)
			}
			for _, err := range []error{
				os.Chown(file, tt.file, -1), os.Chown(dir, tt.dir, -1), os.Chmod(dir, tt.dirMode),
			} {
				if err != nil {
					t.Fatal(err)
				}
			}
			got, err := Find("", variables())
			if tt.says == "" && (got != "postrider.yaml" || err != nil) {
				t.Errorf("Find = %q, %v; want postrider.yaml", got, err)
			}
			if tt.says != "" && (got == "postrider.yaml" ||
				err != nil && (!strings.Contains(err.Error(), tt.says) || strings.Contains(err.Error(), "init"))) {
				t.Errorf("Find = %q, %v; want it not searched, no word of init, and %q", got, err, tt.says)
			}
			if got, err := Find("postrider.yaml", variables()); got != "postrider.yaml" || err != nil {
				t.Errorf("Find of a file that is named = %q, %v; want that file", got, err)
			}
		})
	}
}
