package testserver

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"testing"
)

// End is how a connection ends.
type End int

// The two ends that a TCP connection can come to, and none.
const (
	FIN   End = iota // in good order: the client reads the end of the data
	RST              // reset: the client reads an error, and may not get to see what came before it
	NoEnd            // the connection goes on
)

// Piece is what one side of a connection said, as it was read.
type Piece struct {
	FromServer bool
	Data       []byte
	Before     []byte // what the other side said last
}

// Look sees each piece of one connection before it is passed on. It returns how many octets of the
// piece are passed on at once, and what is called after them, with the rest still held. The
// connection goes on or ends as that says. Without it the whole piece is passed on.
type Look func(Piece) (n int, then func() End)

// CutProxy forwards connections to a backend until a test cuts them.
type CutProxy struct {
	Port int

	backend  string
	mu       sync.Mutex
	listener net.Listener // nil while it refuses
	conns    map[*proxied]struct{}
	count    int
	budget   *budget     // what the next connection gets
	watch    func() Look // nil: nothing looks
	over     bool        // the test is
	running  sync.WaitGroup
}

// budget is how much a connection may hear from the server, and its end then.
type budget struct {
	left int64
	end  End
}

// proxied is one connection: the client's and ours to the backend.
type proxied struct {
	client, backend *net.TCPConn
	look            Look // may be nil

	mu   sync.Mutex
	said [2][]byte // the last piece of the client, and of the server
}

// NewCutProxy listens on a free port for connections to backend ("host:port") until the test is
// over.
func NewCutProxy(t testing.TB, backend string) *CutProxy {
	t.Helper()
	port, err := freePort()
	if err != nil {
		t.Fatal(err)
	}
	p := &CutProxy{Port: port, backend: backend, conns: map[*proxied]struct{}{}}
	p.Refuse(t, false)
	t.Cleanup(func() {
		p.Refuse(t, true)
		p.mu.Lock()
		p.over = true
		p.mu.Unlock()
		p.Cut(RST)
		p.running.Wait()
	})
	return p
}

// Addr is where to connect to, "host:port".
func (p *CutProxy) Addr() string {
	return address(p.Port)
}

// Connections is how many connections were accepted so far.
func (p *CutProxy) Connections() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.count
}

// Cut ends all connections that are open now.
func (p *CutProxy) Cut(end End) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.conns {
		c.end(end)
	}
}

// CutAfter lets the next connection hear n octets from the server and then ends it. Those after it
// are not cut.
func (p *CutProxy) CutAfter(n int64, end End) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.budget = &budget{left: n, end: end}
}

// Watch asks watch for a Look for each new connection.
func (p *CutProxy) Watch(watch func() Look) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.watch = watch
}

// Refuse closes the port to new connections, or opens it again. Open connections stay.
func (p *CutProxy) Refuse(t testing.TB, refuse bool) {
	t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case refuse && p.listener != nil:
		_ = p.listener.Close()
		p.listener = nil
	case !refuse && p.listener == nil:
		ln, err := net.Listen("tcp", p.Addr())
		if err != nil {
			t.Fatalf("open the port of a proxy: %v", err)
		}
		p.listener = ln
		p.running.Go(func() { p.accept(ln) })
	}
}

func (p *CutProxy) accept(ln net.Listener) {
	for {
		client, err := ln.Accept()
		if err != nil {
			return // Refuse closed it
		}
		p.running.Go(func() { p.serve(client.(*net.TCPConn)) })
	}
}

func (p *CutProxy) serve(client *net.TCPConn) {
	c := &proxied{client: client}
	cut, err := p.open(c)
	if err != nil {
		c.end(RST)
		return
	}
	defer p.forget(c)
	clientDone := make(chan struct{})
	p.running.Go(func() {
		defer close(clientDone)
		c.forward(c.backend, c.client, false)
		_ = c.backend.CloseWrite()
		_, _ = io.Copy(io.Discard, c.client) // what it still says after a cut
	})
	if cut == nil {
		c.forward(c.client, c.backend, true)
		c.end(FIN)
	} else {
		_, _ = io.CopyN(c.client, c.backend, cut.left)
		c.end(cut.end)
	}
	<-clientDone
	_ = c.client.Close()
}

// open dials the backend and enters the connection.
func (p *CutProxy) open(c *proxied) (*budget, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.over {
		return nil, errors.New("the test is over")
	}
	p.count++
	conn, err := net.Dial("tcp", p.backend)
	if err != nil {
		return nil, fmt.Errorf("connect to %s: %w", p.backend, err)
	}
	c.backend = conn.(*net.TCPConn)
	if p.watch != nil {
		c.look = p.watch()
	}
	p.conns[c] = struct{}{}
	cut := p.budget
	p.budget = nil
	return cut, nil
}

func (p *CutProxy) forget(c *proxied) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.conns, c)
}

// forward passes on what one side says, until it ends.
func (c *proxied) forward(to, from *net.TCPConn, fromServer bool) {
	if c.look == nil {
		_, _ = io.Copy(to, from)
		return
	}
	buf := make([]byte, 64<<10)
	for {
		n, err := from.Read(buf)
		if n > 0 && c.pass(to, Piece{FromServer: fromServer, Data: buf[:n]}) != nil || err != nil {
			return
		}
	}
}

// pass passes a piece on, as far as the Look lets it.
func (c *proxied) pass(to *net.TCPConn, piece Piece) error {
	mine, other := 0, 1
	if piece.FromServer {
		mine, other = 1, 0
	}
	c.mu.Lock()
	piece.Before = c.said[other]
	c.said[mine] = bytes.Clone(piece.Data)
	c.mu.Unlock()
	n, then := c.look(piece)
	if then == nil {
		n = len(piece.Data)
	}
	_, err := to.Write(piece.Data[:n])
	if then != nil {
		if end := then(); end != NoEnd {
			c.end(end)
			return net.ErrClosed
		}
	}
	if err == nil {
		_, err = to.Write(piece.Data[n:])
	}
	return err
}

// end ends the connection on both sides; on the client's first, which serve would end in good order
// once the backend is gone.
func (c *proxied) end(how End) {
	if how == RST {
		_ = c.client.SetLinger(0)
		_ = c.client.Close()
	} else {
		// Not Close: with something of the client's unread, that would be sent as a reset.
		_ = c.client.CloseWrite()
	}
	if c.backend != nil {
		_ = c.backend.Close()
	}
}
