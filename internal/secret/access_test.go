//go:build unix

package secret

import (
	"io/fs"
	"os"
	"path/filepath"
	"testing"
)

func TestFixAccess(t *testing.T) {
	for _, tt := range []struct {
		name      string
		owner, me int
		want      string
	}{
		{"one's own", 4711, 4711, "run: chmod u+rw FILE"},
		{"another's", 4712, 4711, "run postrider as 4712 (sudo -u 4712 postrider ...), or: chown 4711 FILE"},
		{"root's", 0, 4711, "as root, run: chown 4711 FILE"},
	} {
		if got := fixAccess("FILE", tt.owner, tt.me); got != tt.want {
			t.Errorf("%s: got %q, want %q", tt.name, got, tt.want)
		}
	}
}

// TestFixMode: the mode 0600 alone would take a file of another from the one who reads it.
func TestFixMode(t *testing.T) {
	for _, tt := range []struct {
		name      string
		owner, me int
		want      string
	}{
		{"one's own", 4711, 4711, "run: chmod 600 FILE"},
		{"root's", 0, 4711, "as root, run: chown 4711 FILE && chmod 600 FILE"},
		{
			"another's", 4712, 4711,
			"run postrider as 4712 (sudo -u 4712 postrider ...), or: chown 4711 FILE && chmod 600 FILE",
		},
		{"the service's, read by root", 4711, 0, "run: chmod 600 FILE"},
	} {
		if got := fixMode("FILE", tt.owner, tt.me); got != tt.want {
			t.Errorf("%s: got %q, want %q", tt.name, got, tt.want)
		}
	}
}

func TestUnreadableFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(path, []byte("s3cret"), 0o200); err != nil {
		t.Fatal(err)
	}
	_, err := readPrivate(path, func() (*os.File, error) {
		return nil, &fs.PathError{Op: "openat", Path: "secret", Err: fs.ErrPermission}
	})
	if want := "this user may not read " + path + "; run: chmod u+rw " + path; err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}
