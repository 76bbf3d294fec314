package testserver

import (
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"testing"
)

// End is how a connection ends.
type End int

// The two ends that a TCP connection can come to.
const (
	FIN End = iota // in good order: the client reads the end of the data
	RST            // reset: the client reads an error, and may not get to see what came before it
)

// CutProxy forwards connections to a backend until a test cuts them.
type CutProxy struct {
	Port int

	backend  string
	mu       sync.Mutex
	listener net.Listener // nil while it refuses
	conns    map[*proxied]struct{}
	count    int
	budget   *budget // what the next connection gets
	over     bool    // the test is
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
		_, _ = io.Copy(c.backend, c.client)
		_ = c.backend.CloseWrite()
		_, _ = io.Copy(io.Discard, c.client) // what it still says after a cut
	})
	if cut == nil {
		_, _ = io.Copy(c.client, c.backend)
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
