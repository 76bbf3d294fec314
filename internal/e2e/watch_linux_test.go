package e2e

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
)

// TestWatchWithoutDatabase: the database goes away for a while. What arrives meanwhile goes out
// when it is back.
func TestWatchWithoutDatabase(t *testing.T) {
	w := &watching{world: newWorld(t, "mariadb")}
	address := regexp.MustCompile(`127\.0\.0\.1:\d+`).FindString(w.database)
	d := newDetour(t, address)
	w.database = strings.Replace(w.database, address, d.listener.Addr().String(), 1)
	w.survives(func() {
		d.refuse(true)
	}, func() {
		w.await("the database is asked for again", func() bool { return d.hasRefused(5) })
		d.refuse(false)
	})
}

// TestWatchFullDisk: the disk of the database is full for a while. That it began and that it is
// over is said once each.
func TestWatchFullDisk(t *testing.T) {
	disk := t.TempDir()
	if err := syscall.Mount("tmpfs", disk, "tmpfs", 0, "size=4m"); err != nil {
		t.Skipf("a small disk cannot be mounted: %v", err)
	}
	t.Cleanup(func() { _ = syscall.Unmount(disk, syscall.MNT_DETACH) })
	filler := filepath.Join(disk, "filler")
	w := &watching{world: newWorld(t, "sqlite")}
	w.database = "driver: sqlite, path: '" + filepath.Join(disk, "postrider.db") + "'"
	w.survives(func() {
		if err := os.WriteFile(filler, make([]byte, 4<<20), 0o600); err == nil {
			t.Error("there is room on a full disk")
		}
	}, func() {
		w.says("the database cannot be used")
		if err := os.Remove(filler); err != nil {
			t.Fatal(err)
		}
	})
	w.saysOnce("the database cannot be used")
	w.saysOnce("the database can be used again")
}

// survives checks that watch stays up while the database cannot be used, from begin until end, and
// that nothing is lost or comes twice.
func (w *watching) survives(begin, end func()) {
	w.t.Helper()
	w.configure()
	w.must(0, "migrate")
	w.addInbox(desk, "--start", "now")
	w.restart()
	one := w.arrive(2, "before")
	w.came(2)
	begin()
	two := w.arrive(20, "meanwhile")
	end()
	w.came(22)
	three := w.arrive(2, "after")
	w.came(24)
	w.end(w.p, 0)
	w.wantOnce(one, two, three)
}

func (w *watching) saysOnce(text string) {
	w.t.Helper()
	if n := strings.Count(w.p.stderr.String(), text); n != 1 {
		w.t.Errorf("the log says %d times %q, want once:\n%s", n, text, w.p.stderr.String())
	}
}

// TestWatchdog: the watchdog of systemd ends `watch` with SIGABRT. Without GOTRACEBACK=crash, Go
// exits with status 2, after which the units do not start it again.
func TestWatchdog(t *testing.T) {
	ofGo := regexp.MustCompile(`(?m)^ *Environment=(GO\w+)=(.*)$`)
	for _, unit := range []string{"packaging/postrider-watch.service", "docs/operations.md"} {
		t.Run(unit, func(t *testing.T) {
			text, err := os.ReadFile(filepath.Join("..", "..", unit))
			if err != nil {
				t.Fatal(err)
			}
			for _, set := range ofGo.FindAllStringSubmatch(string(text), -1) {
				t.Setenv(set[1], set[2])
			}
			w := watch(t, "sqlite")
			if err := w.p.cmd.Process.Signal(syscall.SIGABRT); err != nil {
				t.Fatal(err)
			}
			w.p.wait()
			if state := w.p.cmd.ProcessState; !state.Sys().(syscall.WaitStatus).Signaled() {
				t.Errorf("SIGABRT ends watch with %v; want a signal", state)
			}
		})
	}
}
