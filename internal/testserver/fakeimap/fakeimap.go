// Package fakeimap is an IMAP server on loopback, or on a pipe, that says what a test wrote down,
// for what a real server will not do on demand: it lies, falls silent in mid-literal, or hangs up.
package fakeimap

import (
	"bufio"
	"io"
	"net"
	"regexp"
	"strings"
	"sync"
	"testing"
)

// Step is one thing that the server does on a connection.
type Step struct {
	Expect string // a regular expression for the client's next line; empty: do not wait for a line
	Reply  string // sent as it stands, {tag} being the tag of the latest command; mind the \r\n
	Close  bool   // then hang up
}

// Server is a running server.
type Server struct {
	t        testing.TB
	ln       net.Listener
	handlers []func(*Conn)
	running  sync.WaitGroup

	mu     sync.Mutex
	open   map[net.Conn]struct{}
	count  int
	closed bool
}

// Conn is one connection, as a handler sees it.
type Conn struct {
	net.Conn

	T   testing.TB
	N   int    // the number of the connection, from 1
	Tag string // of the latest command

	r *bufio.Reader
}

// Start listens on a free port of 127.0.0.1 until the test is over. The first connection gets the
// first handler and so on; when they run out, the last one goes on. A connection is closed when its
// handler returns.
func Start(t testing.TB, handlers ...func(*Conn)) *Server {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &Server{t: t, ln: ln, handlers: handlers, open: map[net.Conn]struct{}{}}
	s.running.Go(s.accept)
	t.Cleanup(s.close)
	return s
}

// Pipe runs handler at one end of a net.Pipe and returns the other end, for a client. A test in a
// bubble of testing/synctest has a server with the bubble's clock this way: time passes only while
// both ends wait. The end of the test closes the server's end and waits for handler.
func Pipe(t testing.TB, handler func(*Conn)) net.Conn {
	client, server := net.Pipe()
	var running sync.WaitGroup
	running.Go(func() {
		defer func() { _ = server.Close() }()
		handler(&Conn{Conn: server, T: t, N: 1, r: bufio.NewReader(server)})
	})
	t.Cleanup(func() {
		_ = server.Close()
		running.Wait()
	})
	return client
}

// Addr is where the server listens, "127.0.0.1:port".
func (s *Server) Addr() string {
	return s.ln.Addr().String()
}

// Port is the port of Addr.
func (s *Server) Port() int {
	return s.ln.Addr().(*net.TCPAddr).Port
}

// Connections is how many connections there were.
func (s *Server) Connections() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.count
}

func (s *Server) accept() {
	for {
		conn, err := s.ln.Accept()
		if err != nil {
			return // close
		}
		s.running.Go(func() { s.serve(conn) })
	}
}

func (s *Server) serve(conn net.Conn) {
	defer func() { _ = conn.Close() }()
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return
	}
	s.open[conn] = struct{}{}
	s.count++
	c := &Conn{Conn: conn, T: s.t, N: s.count, r: bufio.NewReader(conn)}
	handle := s.handlers[min(s.count, len(s.handlers))-1]
	s.mu.Unlock()
	handle(c)
}

func (s *Server) close() {
	_ = s.ln.Close()
	s.mu.Lock()
	s.closed = true
	for conn := range s.open {
		_ = conn.Close()
	}
	s.mu.Unlock()
	s.running.Wait()
}

// ReadLine returns the client's next line without its end, and keeps its tag, if it has one: DONE
// (RFC 2177) has none. It reports false when the client is gone.
func (c *Conn) ReadLine() (string, bool) {
	line, err := c.r.ReadString('\n')
	if err != nil {
		return "", false
	}
	line = strings.TrimRight(line, "\r\n")
	if line != "DONE" {
		c.Tag, _, _ = strings.Cut(line, " ")
	}
	return line, true
}

// Send sends text with {tag} filled in. An error does not matter: a client may hang up when it has
// heard enough.
func (c *Conn) Send(text string) {
	if text == "" {
		return // on a pipe, even a write of nothing waits for the reader
	}
	_, _ = io.WriteString(c, strings.ReplaceAll(text, "{tag}", c.Tag))
}

// hangUp ends the connection in such a way that the client gets all that was sent: with lines of
// the client unread, close would reset it.
func (c *Conn) hangUp() {
	half, ok := c.Conn.(interface{ CloseWrite() error })
	if ok && half.CloseWrite() == nil {
		_, _ = io.Copy(io.Discard, c.r)
	}
}

// Script makes a handler of steps. A line that does not match fails the test and ends the
// connection. After the last step the server stays connected, reads, and says nothing any more.
func Script(steps ...Step) func(*Conn) {
	return func(c *Conn) {
		for i, step := range steps {
			if step.Expect != "" {
				line, ok := c.ReadLine()
				if !ok {
					return
				}
				if matched, err := regexp.MatchString(step.Expect, line); err != nil || !matched {
					c.T.Errorf("connection %d, step %d: the client sent %q; want a match of %q (%v)",
						c.N, i+1, line, step.Expect, err)
					return
				}
			}
			c.Send(step.Reply)
			if step.Close {
				c.hangUp()
				return
			}
		}
		_, _ = io.Copy(io.Discard, c.r)
	}
}
