// Package smtpsink is an SMTP server (RFC 5321) on loopback that records what it accepts and
// delivers nothing.
//
// It is strict where a relay may be: a parameter of an extension that it did not offer is refused,
// commands out of order are refused, and where it offers AUTH nobody sends mail without. For
// everything else that a relay may do, there is Reply: it sees every command and may answer it
// otherwise, drop the connection, or make it wait.
package smtpsink

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"sync"
)

// Server is a running server.
type Server struct {
	opts    Options
	maxSize int64 // 0: no limit
	ln      net.Listener
	closing chan struct{}
	running sync.WaitGroup

	mu       sync.Mutex
	conns    map[net.Conn]struct{}
	messages []Message
	changed  chan struct{} // closed and replaced with every message
	lastConn int           // the number of the latest connection
	accepted int
	highest  int
	events   map[string]int // by stage
}

// Start listens on a free port of 127.0.0.1.
func Start(opts Options) (*Server, error) {
	s := &Server{
		opts: opts, closing: make(chan struct{}), changed: make(chan struct{}),
		conns: map[net.Conn]struct{}{}, events: map[string]int{},
	}
	if opts.ImplicitTLS && opts.TLS == nil {
		return nil, errors.New("start an SMTP sink: ImplicitTLS needs TLS")
	}
	for _, ext := range opts.Extensions {
		if size, ok := strings.CutPrefix(ext, "SIZE "); ok {
			var err error
			if s.maxSize, err = strconv.ParseInt(size, 10, 64); err != nil {
				return nil, fmt.Errorf("start an SMTP sink: extension %q: %w", ext, err)
			}
		}
	}
	var err error
	if s.ln, err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
		return nil, fmt.Errorf("start an SMTP sink: %w", err)
	}
	s.running.Go(s.accept)
	return s, nil
}

// Addr is where the server listens, "127.0.0.1:port".
func (s *Server) Addr() string {
	return s.ln.Addr().String()
}

// Port is the port of Addr.
func (s *Server) Port() int {
	return s.ln.Addr().(*net.TCPAddr).Port
}

// Close ends all connections, stops the server, and returns when nothing of it runs any more. It
// may be called twice.
func (s *Server) Close() {
	s.mu.Lock()
	select {
	case <-s.closing:
	default:
		close(s.closing)
	}
	_ = s.ln.Close()
	for conn := range s.conns {
		_ = conn.Close()
	}
	s.mu.Unlock()
	s.running.Wait()
}

// Messages returns what was accepted so far, in that order.
func (s *Server) Messages() []Message {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]Message(nil), s.messages...)
}

// Wait waits until there are n messages.
func (s *Server) Wait(ctx context.Context, n int) error {
	for {
		s.mu.Lock()
		have, changed := len(s.messages), s.changed
		s.mu.Unlock()
		if have >= n {
			return nil
		}
		select {
		case <-changed:
		case <-s.closing:
			return fmt.Errorf("wait for %d messages: the sink closed with %d", n, have)
		case <-ctx.Done():
			return fmt.Errorf("wait for %d messages: have %d: %w", n, have, ctx.Err())
		}
	}
}

// Connections is how many connections there were.
func (s *Server) Connections() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.accepted
}

// MaxConcurrent is how many connections there were at most at one time.
func (s *Server) MaxConcurrent() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.highest
}

// Reset forgets the messages and starts all counts again. Open connections stay, and count.
func (s *Server) Reset() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.messages, s.events = nil, map[string]int{}
	s.accepted, s.highest = len(s.conns), len(s.conns)
}

func (s *Server) accept() {
	for {
		conn, err := s.ln.Accept()
		if err != nil {
			return // Close
		}
		s.mu.Lock()
		select {
		case <-s.closing:
			_ = conn.Close()
		default:
			s.conns[conn] = struct{}{}
			s.accepted++
			s.lastConn++
			s.highest = max(s.highest, len(s.conns))
			number := s.lastConn
			s.running.Go(func() { s.serve(conn, number) })
		}
		s.mu.Unlock()
	}
}

func (s *Server) serve(conn net.Conn, number int) {
	defer func() {
		_ = conn.Close()
		s.mu.Lock()
		delete(s.conns, conn)
		s.mu.Unlock()
	}()
	newSession(s, conn, number).run()
}

// ask has Reply decide on an event.
func (s *Server) ask(event Event) Action {
	s.mu.Lock()
	s.events[event.Stage]++
	event.N = s.events[event.Stage]
	s.mu.Unlock()
	if s.opts.Reply == nil {
		return Action{}
	}
	action := s.opts.Reply(event)
	if action.Block != nil {
		select {
		case <-action.Block:
		case <-s.closing:
			return Action{Drop: true}
		}
	}
	return action
}

func (s *Server) record(msg Message) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.messages = append(s.messages, msg)
	close(s.changed)
	s.changed = make(chan struct{})
}
