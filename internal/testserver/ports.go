package testserver

import (
	"fmt"
	"net"
	"sync"
)

// Ports come in blocks, so that tests of several packages, which run at the same time, never get
// the same one. A process owns a block while it listens on its first port, which nothing else uses:
// a port that is only looked at is taken by the other process before the server listens on it.
//
// Nor does a process give a port to a second server, even when nothing listens there: the first one
// may be restarting, or need the port seldom, as a Galera node does to copy the data of another. It
// owns more blocks for that; only when there are no more do its ports go round.
//
// They are below the range that the system gives to outgoing connections (32768 and up on Linux),
// so that none of those takes one while a server restarts.
const (
	firstBlock = 20000
	lastBlock  = 32400
	blockSize  = 200
)

// ports are those of this process. They outlive the single test, as its blocks do.
var ports struct {
	sync.Mutex
	guards []net.Listener // of the blocks that this process owns
	next   int            // how many were looked at, since they went round
}

// freePorts finds different ports for a server to listen on.
func freePorts(n int) ([]int, error) {
	ports.Lock()
	defer ports.Unlock()
	var free []int
	var full error // why there are no more blocks
	for tried := 0; len(free) < n; tried++ {
		if ports.next == owned() {
			if full = ownBlock(); full != nil {
				ports.next = 0
			}
		}
		if full != nil && tried >= owned() {
			return nil, fmt.Errorf("find %d free ports on %s: %w", n, loopback, full)
		}
		port := nextPort()
		if ln, err := net.Listen("tcp", address(port)); err == nil {
			_ = ln.Close()
			free = append(free, port)
		}
	}
	return free, nil
}

// owned is how many ports this process has.
func owned() int { return len(ports.guards) * (blockSize - 1) }

// nextPort is the next one of this process that was not looked at yet.
func nextPort() int {
	block, i := ports.next/(blockSize-1), ports.next%(blockSize-1)
	ports.next++
	return ports.guards[block].Addr().(*net.TCPAddr).Port + 1 + i
}

func ownBlock() error {
	for guard := firstBlock; guard <= lastBlock; guard += blockSize {
		if ln, err := net.Listen("tcp", address(guard)); err == nil {
			ports.guards = append(ports.guards, ln)
			return nil
		}
	}
	return fmt.Errorf("other processes own all of them, from %d to %d", firstBlock, lastBlock+blockSize-1)
}

func freePort() (int, error) {
	found, err := freePorts(1)
	if err != nil {
		return 0, err
	}
	return found[0], nil
}
