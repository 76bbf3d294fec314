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
	next   int            // how many were looked at; they are used again when all were
}

// freePorts finds different ports for a server to listen on.
func freePorts(n int) ([]int, error) {
	ports.Lock()
	defer ports.Unlock()
	var free []int
	for tried := 0; len(free) < n; tried++ {
		if len(ports.guards) == 0 || tried == len(ports.guards)*(blockSize-1) {
			if err := ownBlock(); err != nil {
				return nil, fmt.Errorf("find %d free ports on %s: %w", n, loopback, err)
			}
			tried, free = 0, nil
			ports.next = (len(ports.guards) - 1) * (blockSize - 1)
		}
		port := nextPort()
		if ln, err := net.Listen("tcp", address(port)); err == nil {
			_ = ln.Close()
			free = append(free, port)
		}
	}
	return free, nil
}

// nextPort goes round the ports of this process.
func nextPort() int {
	block, i := ports.next/(blockSize-1)%len(ports.guards), ports.next%(blockSize-1)
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
