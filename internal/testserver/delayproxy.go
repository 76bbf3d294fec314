package testserver

import (
	"bytes"
	"errors"
	"io"
	"net"
	"sync"
	"testing"
	"time"
)

// DelayProxy forwards connections to a backend that then seems to be a round trip away. Half of
// that time is added to each direction, and a whole round trip to the opening of a connection, as
// TCP needs one. The end of a connection is as late as its data.
//
// It does not limit throughput: what is on its way waits in a queue, each piece with the time when
// it is due, and pieces keep their order. A queue holds at most maxOnTheWay pieces.
type DelayProxy struct {
	Port int

	backend   string
	roundTrip time.Duration
	listener  net.Listener
	running   sync.WaitGroup

	mu    sync.Mutex
	over  bool // the test is
	conns map[*net.TCPConn]struct{}
}

// maxOnTheWay is how many pieces one direction of a connection holds, each of at most 64 KiB. At
// 30 ms of round trip that is 4 GiB a second.
const maxOnTheWay = 1024

// NewDelayProxy listens on a free port for connections to backend ("host:port") until the test is
// over.
func NewDelayProxy(t testing.TB, backend string, roundTrip time.Duration) *DelayProxy {
	t.Helper()
	ln, err := net.Listen("tcp", address(0))
	if err != nil {
		t.Fatalf("listen for a test: %v", err)
	}
	p := &DelayProxy{
		Port: ln.Addr().(*net.TCPAddr).Port, backend: backend, roundTrip: roundTrip, listener: ln,
		conns: map[*net.TCPConn]struct{}{},
	}
	p.running.Go(p.accept)
	t.Cleanup(p.close)
	return p
}

// Addr is where to connect to, "host:port".
func (p *DelayProxy) Addr() string { return address(p.Port) }

func (p *DelayProxy) close() {
	_ = p.listener.Close()
	p.mu.Lock()
	p.over = true
	for conn := range p.conns {
		_ = conn.Close()
	}
	p.mu.Unlock()
	p.running.Wait()
}

func (p *DelayProxy) accept() {
	for {
		conn, err := p.listener.Accept()
		if err != nil {
			return // the test is over
		}
		opened := time.Now().Add(p.roundTrip) // when the client would know that it is connected
		p.running.Go(func() { p.serve(conn.(*net.TCPConn), opened) })
	}
}

func (p *DelayProxy) serve(client *net.TCPConn, opened time.Time) {
	defer p.keep(client)()
	// The client may speak at once, so its data is read before the backend knows of it.
	said := p.read(client, opened)
	defer drain(said)
	time.Sleep(time.Until(opened.Add(p.roundTrip / 2)))
	conn, err := net.Dial("tcp", p.backend)
	if err != nil {
		reset(client)
		return
	}
	backend := conn.(*net.TCPConn)
	defer p.keep(backend)()
	answered := p.read(backend, opened)
	defer drain(answered)
	var both sync.WaitGroup
	both.Go(func() { write(backend, client, said) })
	both.Go(func() { write(client, backend, answered) })
	both.Wait()
}

// keep has the end of the test close a connection. It returns what closes it before that.
func (p *DelayProxy) keep(conn *net.TCPConn) (closeIt func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.conns[conn] = struct{}{}
	if p.over {
		_ = conn.Close()
	}
	return func() {
		_ = conn.Close()
		p.mu.Lock()
		defer p.mu.Unlock()
		delete(p.conns, conn)
	}
}

// delayed is what one read returned, and when the other side gets it.
type delayed struct {
	due  time.Time
	data []byte
	err  error // the last piece has one
}

// read reads from one side until it ends. Nothing was said before the connection was open.
func (p *DelayProxy) read(from *net.TCPConn, opened time.Time) <-chan delayed {
	queue := make(chan delayed, maxOnTheWay)
	p.running.Go(func() {
		defer close(queue)
		for {
			buf := make([]byte, 64<<10)
			n, err := from.Read(buf)
			at := time.Now()
			if at.Before(opened) {
				at = opened
			}
			queue <- delayed{due: at.Add(p.roundTrip / 2), data: bytes.Clone(buf[:n]), err: err}
			if err != nil {
				return
			}
		}
	})
	return queue
}

// write writes each piece when it is due, and then ends the connection as the other side did.
func write(to, from *net.TCPConn, queue <-chan delayed) {
	for piece := range queue {
		time.Sleep(time.Until(piece.due))
		if _, err := to.Write(piece.data); err != nil {
			reset(from)
			return
		}
		switch {
		case piece.err == nil:
		case errors.Is(piece.err, io.EOF):
			_ = to.CloseWrite()
		default:
			reset(to)
		}
	}
}

func reset(conn *net.TCPConn) {
	_ = conn.SetLinger(0)
	_ = conn.Close()
}

// drain ends a reader that waits for room.
func drain(queue <-chan delayed) {
	for range queue {
		continue
	}
}
