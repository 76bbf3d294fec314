//go:build unix

package secret

import (
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
