//go:build unix

package e2e

import (
	"fmt"
	"io"
	"net"
	"sync"
	"testing"

	"postrider/internal/testserver"
)

// TestWatchDeadConnection: the network swallows what is sent. It is noticed when IDLE is renewed,
// at the second time at the latest.
func TestWatchDeadConnection(t *testing.T) {
	w := &watching{world: newWorld(t, "sqlite")}
	n := &network{server: fmt.Sprintf("127.0.0.1:%d", w.imap.Port)}
	w.imapPort = testserver.Listen(t, n.forward)
	w.extra = "watch: {idle: 1s}\nimap: {idle_timeout: 2s}"
	w.configure()
	w.addInbox(desk, "--start", "now")
	w.restart()
	one := w.arrive(1, "heard")
	w.came(1)
	w.await("IDLE", n.deafen)
	two := w.arrive(1, "after the silence")
	w.came(2)
	n.mu.Lock()
	if len(n.swallowed) < 1 || len(n.swallowed) > 2 {
		t.Errorf("on the dead connection came %q, want one or two commands", n.swallowed)
	}
	n.mu.Unlock()
	w.end(w.p, 0)
	w.wantOnce(one, two)
}

// network forwards connections to a server. Those that are open when it becomes deaf stay open, and
// nothing comes through any more.
type network struct {
	server string

	mu        sync.Mutex
	deaf      bool
	idles     bool     // what came through last is the server's continuation: the client is in IDLE
	swallowed []string // by the client, what did not come through
}

// deafen makes the network deaf if the client is in IDLE.
func (n *network) deafen() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.deaf = n.idles
	return n.deaf
}

func (n *network) forward(client net.Conn) {
	server, err := net.Dial("tcp", n.server)
	if err != nil {
		return
	}
	defer func() { _ = server.Close() }()
	n.mu.Lock()
	born := n.deaf
	n.mu.Unlock()
	pass := func(to, from net.Conn) {
		buffer := make([]byte, 4096)
		for {
			size, err := from.Read(buffer)
			if err != nil {
				return
			}
			n.mu.Lock()
			if n.deaf == born {
				n.idles = from == server && buffer[0] == '+'
				_, _ = to.Write(buffer[:size])
			} else if from == client {
				n.swallowed = append(n.swallowed, string(buffer[:size]))
			}
			n.mu.Unlock()
		}
	}
	go pass(client, server)
	pass(server, client)
	_, _ = io.Copy(io.Discard, client)
}
