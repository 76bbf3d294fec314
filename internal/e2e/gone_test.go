//go:build unix

package e2e

import (
	"fmt"
	"io"
	"net"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"postrider/internal/testserver/smtpsink"
)

// detour is a way to the database that can be closed.
type detour struct {
	listener net.Listener
	mu       sync.Mutex
	conns    []net.Conn
	closed   bool
	refused  int // connections
}

// newDetour forwards connections on a port of its own to another.
func newDetour(t *testing.T, to string) *detour {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	d := &detour{listener: listener}
	t.Cleanup(d.close)
	go func() {
		for {
			in, err := listener.Accept()
			if err != nil {
				return
			}
			out, err := net.Dial("tcp", to)
			if err != nil {
				_ = in.Close()
				continue
			}
			d.hold(in, out)
			go func() { _, _ = io.Copy(out, in); _ = out.Close() }()
			go func() { _, _ = io.Copy(in, out); _ = in.Close() }()
		}
	}()
	return d
}

func (d *detour) hold(conns ...net.Conn) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.conns = append(d.conns, conns...)
	if d.closed {
		d.refused++
		d.drop()
	}
}

func (d *detour) drop() {
	for _, c := range d.conns {
		_ = c.Close()
	}
}

func (d *detour) close() {
	_ = d.listener.Close()
	d.mu.Lock()
	defer d.mu.Unlock()
	d.closed = true
	d.drop()
}

// refuse drops all connections and refuses new ones, until it is called with false.
func (d *detour) refuse(all bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed = all; all {
		d.drop()
	}
}

// hasRefused reports whether so many new connections were refused.
func (d *detour) hasRefused(n int) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.refused >= n
}

// TestDatabaseGone: the database goes away for good while the relay has a message. The log names
// what could not be recorded, and the first SIGTERM ends the waiting.
func TestDatabaseGone(t *testing.T) {
	onEach(t, []string{"mariadb", "mysql"}, func(t *testing.T, w *world) {
		held, release := make(chan struct{}), make(chan struct{})
		var once atomic.Bool
		w.startSink(func(e smtpsink.Event) smtpsink.Action {
			if e.Stage == "dot" && once.CompareAndSwap(false, true) {
				close(held)
				return smtpsink.Action{Block: release}
			}
			return smtpsink.Action{}
		})
		w.configure()
		w.addInbox(desk, "--start", "all")
		msgs := mails(1, "letter")
		w.imap.Append(t, desk, "INBOX", msgs...)

		direct := w.database
		address := regexp.MustCompile(`127\.0\.0\.1:\d+`).FindString(direct)
		if address == "" {
			t.Fatalf("the configuration has no address of the database: %s", direct)
		}
		d := newDetour(t, address)
		w.database = strings.Replace(direct, address, d.listener.Addr().String(), 1)
		w.configure()
		p := w.start(nil, "run")
		<-held
		d.close()
		close(release)
		w.eventually(func() bool { return len(w.sink.Messages()) == 1 })
		began := time.Now()
		if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
		res := p.wait()
		if took := time.Since(began); res.code == 0 || took > 30*time.Second {
			t.Errorf("exit %d, %s after SIGTERM; want that the signal ends the waiting, and an error", res.code, took)
		}
		for _, want := range []string{"could not be recorded", "task=1", "recipient=intake@firm.example", "code=250"} {
			if !strings.Contains(res.stderr, want) {
				t.Errorf("the log has no %q:\n%s", want, res.stderr)
			}
		}
		w.database = direct
		w.configure()
		w.endLeases()
		w.pass(0)
		if n := len(w.sink.Messages()); n > 2 {
			t.Errorf("the message arrived %d times, want at most twice: %s", n, fmt.Sprint(w.tasks()))
		}
	})
}
