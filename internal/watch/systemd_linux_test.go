package watch

import (
	"net"
	"os"
	"path/filepath"
	"regexp"
	"testing"
	"time"

	"postrider/internal/testserver"
)

// TestSystemd: the manager's socket gets what is sent, and its watchdog is heeded.
func TestSystemd(t *testing.T) {
	dir, err := os.MkdirTemp(testserver.TempDir(), "notify")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	path := filepath.Join(dir, "socket")
	for name, listen := range map[string]string{path: path, "@" + path: "\x00" + path} {
		conn, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: listen, Net: "unixgram"})
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = conn.Close() }()
		env := map[string]string{"NOTIFY_SOCKET": name, "WATCHDOG_USEC": "30000000", "WATCHDOG_PID": "7"}
		getenv := func(key string) (string, bool) { v, ok := env[key]; return v, ok }
		s := NewSystemd(getenv, 7)
		if s.Watchdog() != 30*time.Second {
			t.Errorf("the watchdog is %s, want 30s", s.Watchdog())
		}
		s.Send("READY=1", "STATUS=ok")
		s.Reloading()
		for _, want := range []string{`^READY=1\nSTATUS=ok$`, `^RELOADING=1\nMONOTONIC_USEC=[1-9]\d+$`} {
			buffer := make([]byte, 100)
			n, err := conn.Read(buffer)
			if err != nil || !regexp.MustCompile(want).Match(buffer[:n]) {
				t.Errorf("the manager was sent %q, %v; want a match of %s", buffer[:n], err, want)
			}
		}
		if other := NewSystemd(getenv, 8); other.Watchdog() != 0 {
			t.Error("the watchdog of another process is heeded")
		}
	}
	NewSystemd(func(string) (string, bool) { return "", false }, 7).Send("READY=1") // no manager
}
