package e2e

import (
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"postrider/internal/testserver"
	"postrider/internal/testserver/smtpsink"
)

// quiet compares passes with nothing new over a small and a large mailbox, by what they send and
// receive.
func (b *bench) quiet() {
	measure := func(n int) (int64, int64) {
		w := filled(b, "sqlite", n, 200)
		wire := countWire(b.T, w.imap.Port)
		w.must(0, "inbox", "set", "desk@firm.example", "--port", strconv.Itoa(wire.port))
		w.pass(0)
		wire.conns.Store(0)
		wire.octets.Store(0)
		w.pass(0)
		return wire.conns.Load(), wire.octets.Load()
	}
	_, small := measure(300)
	conns, large := measure(b.messages * 5)
	b.row(fmt.Sprintf("a quiet pass over 300 and %d messages", b.messages*5),
		fmt.Sprintf("%d connection, %d and %d octets from the server", conns, small, large),
		"one, and no more octets", conns == 1 && large < small+1000) // longer numbers of 200 messages
}

// wire is a proxy that counts the octets it passes on.
type wire struct {
	port          int
	conns, octets atomic.Int64
}

func countWire(t *testing.T, backend int) *wire {
	t.Helper()
	w := &wire{}
	w.port = testserver.Listen(t, func(client net.Conn) {
		w.conns.Add(1)
		server, err := net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", backend))
		if err != nil {
			return
		}
		go func() { _, _ = io.Copy(server, client); _ = server.Close() }()
		_, _ = io.Copy(client, io.TeeReader(server, w))
	})
	return w
}

// Write counts octets.
func (w *wire) Write(p []byte) (int, error) {
	w.octets.Add(int64(len(p)))
	return len(p), nil
}

// farIMAP is how far away a server is from an inbox in the benchmarks.
const farIMAP = 100 * time.Millisecond

// thousand measures a pass over a thousand idle inboxes.
func (b *bench) thousand() {
	const n = 1000
	w := newWorld(b.T, "sqlite")
	w.imapPort = testserver.NewDelayProxy(b.T, fmt.Sprintf("127.0.0.1:%d", w.imap.Port), farIMAP).Port
	for i := range n {
		w.addInbox(fmt.Sprintf("box%d@firm.example", i), "--start", "now")
	}
	b.pass(w) // each folder gets its cursor
	got := b.pass(w)
	b.row(fmt.Sprintf("a pass over %d idle inboxes, %s of round trip away", n, farIMAP),
		fmt.Sprintf("%.1f s, %.1f CPU s, peak %d MiB", got.took.Seconds(), got.cpu.Seconds(), got.peak>>20),
		"<= 30 s", got.took <= 30*time.Second)
	for _, command := range []string{"status", "inbox list"} {
		args := append([]string{"-c", w.path("postrider.yaml")}, strings.Fields(command)...)
		took := fmt.Sprintf("%.2f s", b.timed(exec.Command(binary, args...)).took.Seconds())
		b.table.AppendRow([]any{fmt.Sprintf("%s of %d inboxes", command, n), took, "", ""})
	}
}

// imports measures an import of a thousand inboxes, with passwords to encrypt.
func (b *bench) imports() {
	for _, kind := range []string{"sqlite", "mariadb"} {
		w := newWorld(b.T, kind)
		var file strings.Builder
		file.WriteString("address,host,password,folders,labels\n")
		for i := range 1000 {
			fmt.Fprintf(&file, "box%d@firm.example,imap.firm.example,secret%d,INBOX;Junk,tenant=t%d\n", i, i, i%10)
		}
		if err := os.WriteFile(w.path("inboxes.csv"), []byte(file.String()), 0o600); err != nil {
			b.Fatal(err)
		}
		args := []string{"-c", w.path("postrider.yaml"), "inbox", "import", w.path("inboxes.csv"), "--yes"}
		took := b.timed(exec.Command(binary, args...)).took
		b.row("an import of 1,000 inboxes, "+kind, fmt.Sprintf("%.2f s", took.Seconds()), "< 5 s", took < 5*time.Second)
		if n := strings.Count(w.must(0, "inbox", "list", "--json").stdout, "\n"); n != 1000 {
			b.Errorf("there are %d inboxes, want 1,000", n)
		}
	}
}

// silent measures how much later the mail of five inboxes goes out beside 24 inboxes on a host that
// accepts connections and says nothing.
func (b *bench) silent() {
	deaf := testserver.Listen(b.T, func(conn net.Conn) { _, _ = io.Copy(io.Discard, conn) })
	w := newWorld(b.T, "sqlite")
	var left atomic.Int64
	arrived := make(chan struct{})
	w.startSink(func(e smtpsink.Event) smtpsink.Action {
		if e.Stage == "dot" && left.Add(-1) == 0 {
			close(arrived)
		}
		return smtpsink.Action{}
	})
	w.configure()
	healthy := w.imapPort
	w.imapPort = deaf
	for i := range 24 {
		w.addInbox(fmt.Sprintf("deaf%d@firm.example", i), "--start", "all")
	}
	w.imapPort = healthy
	for i := range 5 {
		w.addInbox(fmt.Sprintf("well%d@firm.example", i), "--start", "all")
		w.put(fmt.Sprintf("well%d@firm.example", i), "hello")
	}
	left.Store(5)
	start := time.Now()
	p := w.start(nil, "run")
	select {
	case <-arrived:
	case <-p.ended():
	}
	took := time.Since(start)
	_ = p.cmd.Process.Kill()
	<-p.ended()
	b.row("mail of five inboxes beside 24 on a silent host", fmt.Sprintf("after %.2f s", took.Seconds()),
		"< 5 s", took < 5*time.Second && left.Load() == 0)
}
