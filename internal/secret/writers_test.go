//go:build unix

package secret

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestCheckWriters(t *testing.T) {
	path := filepath.Join(t.TempDir(), "postrider.yaml")
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for mode, want := range map[os.FileMode]string{
		0o600: "", 0o644: "", 0o755: "", 0o400: "",
		0o620: "mode 0620), and so could log in. To fix it: chmod go-w " + path,
		0o602: "mode 0602", 0o664: "mode 0664", 0o777: "mode 0777",
	} {
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
		info, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		err = CheckWriters(path, info, "log in")
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("mode %04o: got %v, want an error with %q, or none if that is empty", mode, err, want)
		}
	}
}

func TestCheckOwner(t *testing.T) {
	for _, tt := range []struct {
		name      string
		owner, me int
		want      string // in the error; empty for none
	}{
		{"one's own", 4711, 4711, ""},
		{"root's", 0, 4711, ""},
		{"root's, as root", 0, 0, ""},
		{
			"another's", 4712, 4711, "it belongs to 4712, but 4711 runs postrider. " +
				"Run it as 4712 (sudo -u 4712 postrider ...), or: chown 4711 FILE",
		},
		{
			"another's, as root", 4712, 0, "it belongs to 4712, but root runs postrider. " +
				"Run it as 4712 (sudo -u 4712 postrider ...), or: chown root FILE",
		},
	} {
		err := checkOwner("FILE", tt.owner, tt.me)
		if (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: got %v, want an error with %q, or none if that is empty", tt.name, err, tt.want)
		}
	}
}
