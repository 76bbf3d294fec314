package testserver

import (
	"fmt"
	"net"
	"runtime"
	"sync"
	"syscall"
)

// Ports come in blocks, so that tests of several packages, which run at the same time, never get
// the same one. A process owns a block while it listens on its first port, which nothing else uses:
// a port that is only looked at is taken by the other process before the server listens on it.
//
// A process also never gives a port to a second server, even when nothing listens there: the first
// one may be restarting, or need the port seldom, as a Galera node does to copy the data of
// another. It takes more blocks instead, and gives ports again only when no block is left.
//
// They are below the range that the system gives to outgoing connections (32768 and up on Linux),
// so that none of those takes one while a server restarts.
const (
	firstBlock = 20000
	lastBlock  = 32400
	blockSize  = 200
)

// ports are those of this process. They outlive the single test, as its blocks do.
var ports portBlocks

// portBlocks are the ports of a process.
type portBlocks struct {
	mu     sync.Mutex
	guards []net.Listener // of the blocks that are owned
	next   int            // how many ports were looked at, since they were given again
}

// free finds different ports for a server to listen on.
func (p *portBlocks) free(n int) ([]int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	var free []int
	var full error // why there are no more blocks
	for tried := 0; len(free) < n; tried++ {
		if p.next == p.owned() {
			if full = p.ownBlock(); full != nil {
				p.next = 0
			}
		}
		if full != nil && tried >= p.owned() {
			return nil, fmt.Errorf("find %d free ports on %s: %w", n, loopback, full)
		}
		port := p.nextPort()
		if nothingListens(port) {
			free = append(free, port)
		}
	}
	return free, nil
}

// nothingListens reports whether the port can be listened on. Whoever listens there to find out may
// hold the port after Close: a process that is being started has its descriptors until its exec. On
// Linux ForkLock keeps processes from being started meanwhile.
func nothingListens(port int) bool {
	conn, err := net.Dial("tcp", address(port))
	if err == nil {
		_ = conn.Close()
		return false
	}
	if runtime.GOOS != "linux" {
		return true
	}
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	ln, err := net.Listen("tcp", address(port))
	if err != nil {
		return false // an outgoing connection has it: the system may be set up to give them these, too
	}
	return ln.Close() == nil
}

// owned is how many ports there are.
func (p *portBlocks) owned() int { return len(p.guards) * (blockSize - 1) }

// nextPort is the next one that was not looked at yet.
func (p *portBlocks) nextPort() int {
	block, i := p.next/(blockSize-1), p.next%(blockSize-1)
	p.next++
	return p.guards[block].Addr().(*net.TCPAddr).Port + 1 + i
}

func (p *portBlocks) ownBlock() error {
	for guard := firstBlock; guard <= lastBlock; guard += blockSize {
		if ln, err := net.Listen("tcp", address(guard)); err == nil {
			p.guards = append(p.guards, ln)
			return nil
		}
	}
	return fmt.Errorf("no block of ports is left from %d to %d; this process owns %d",
		firstBlock, lastBlock+blockSize-1, len(p.guards))
}

func freePorts(n int) ([]int, error) { return ports.free(n) }

func freePort() (int, error) {
	found, err := freePorts(1)
	if err != nil {
		return 0, err
	}
	return found[0], nil
}
