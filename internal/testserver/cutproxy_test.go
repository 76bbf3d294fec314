package testserver

import (
	"errors"
	"io"
	"net"
	"strings"
	"syscall"
	"testing"
	"time"
)

// speaker is a backend that says what it is given, and then reads until its client ends.
func speaker(t *testing.T, text string) string {
	t.Helper()
	return address(Listen(t, func(conn net.Conn) {
		_, _ = io.WriteString(conn, text)
		_, _ = io.Copy(io.Discard, conn)
	}))
}

func dialProxy(t *testing.T, p *CutProxy) net.Conn {
	t.Helper()
	conn, err := net.Dial("tcp", p.Addr())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	if err := conn.SetDeadline(time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	return conn
}

func TestCutAfter(t *testing.T) {
	text := strings.Repeat("0123456789", 1000)
	for _, tt := range []struct {
		name string
		n    int64
		end  End
	}{
		{"at once", 0, FIN},
		{"in order", 4321, FIN},
		{"by reset", 4321, RST},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := NewCutProxy(t, speaker(t, text))
			p.CutAfter(tt.n, tt.end)
			got, err := talk(p.Addr())
			if tt.end == FIN && (err != nil || string(got) != text[:tt.n]) {
				t.Errorf("read %d octets, %v; want the first %d and the end", len(got), err, tt.n)
			}
			if tt.end == RST && !errors.Is(err, syscall.ECONNRESET) {
				t.Errorf("talk = %v; want a connection reset", err)
			}
			whole, err := io.ReadAll(io.LimitReader(dialProxy(t, p), int64(len(text))))
			if err != nil || string(whole) != text {
				t.Errorf("the connection after it read %d octets, %v; want all %d", len(whole), err, len(text))
			}
			if p.Connections() != 2 {
				t.Errorf("Connections() = %d; want 2", p.Connections())
			}
		})
	}
}

// talk says something and reads all there is. A reset may already show in the dial or in the write.
func talk(addr string) ([]byte, error) {
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		return nil, err
	}
	defer func() { _ = conn.Close() }()
	_, writeErr := io.WriteString(conn, "something that the proxy may never read")
	got, readErr := io.ReadAll(conn)
	if readErr != nil || writeErr != nil {
		return got, errors.Join(writeErr, readErr)
	}
	// after an end in order one may go on talking, and still reads the end
	_, writeErr = conn.Write(make([]byte, 4<<20))
	_, readErr = io.Copy(io.Discard, conn)
	return got, errors.Join(writeErr, readErr)
}

func TestCut(t *testing.T) {
	for name, end := range map[string]End{"in order": FIN, "by reset": RST} {
		t.Run(name, func(t *testing.T) {
			p := NewCutProxy(t, speaker(t, "hello"))
			conns := []net.Conn{dialProxy(t, p), dialProxy(t, p)}
			for _, conn := range conns {
				if _, err := io.ReadFull(conn, make([]byte, 5)); err != nil {
					t.Fatal(err)
				}
			}
			p.Cut(end)
			for _, conn := range conns {
				_, err := conn.Read(make([]byte, 1))
				if end == FIN && !errors.Is(err, io.EOF) || end == RST && !errors.Is(err, syscall.ECONNRESET) {
					t.Errorf("after the cut a read returns %v", err)
				}
			}
		})
	}
}

// TestWatch holds an answer back in its middle, and then lets it go on, or ends the connection.
func TestWatch(t *testing.T) {
	for name, end := range map[string]End{"goes on": NoEnd, "in order": FIN, "by reset": RST} {
		t.Run(name, func(t *testing.T) {
			p := NewCutProxy(t, address(Listen(t, func(conn net.Conn) {
				question := make([]byte, 8)
				if _, err := io.ReadFull(conn, question); err == nil {
					_, _ = io.WriteString(conn, "an answer")
				}
			})))
			held, release := make(chan struct{}), make(chan struct{})
			p.Watch(func() Look {
				return func(piece Piece) (int, func() End) {
					if !piece.FromServer || string(piece.Before) != "question" {
						return 0, nil
					}
					return 3, func() End { close(held); <-release; return end }
				}
			})
			conn := dialProxy(t, p)
			if _, err := io.WriteString(conn, "question"); err != nil {
				t.Fatal(err)
			}
			got := make([]byte, 3)
			if _, err := io.ReadFull(conn, got); err != nil || string(got) != "an " {
				t.Errorf("read %q, %v; want the octets before the hold", got, err)
			}
			<-held
			close(release)
			rest, err := io.ReadAll(conn)
			switch want := map[bool]string{true: "answer"}[end == NoEnd]; {
			case end == RST && !errors.Is(err, syscall.ECONNRESET):
				t.Errorf("the rest is %q, %v; want a connection reset", rest, err)
			case end != RST && (err != nil || string(rest) != want):
				t.Errorf("the rest is %q, %v; want %q", rest, err, want)
			}
		})
	}
}

func TestRefuse(t *testing.T) {
	p := NewCutProxy(t, speaker(t, "hello"))
	p.Refuse(t, true)
	if conn, err := net.Dial("tcp", p.Addr()); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("dial = %v, %v; want connection refused", conn, err)
	}
	p.Refuse(t, false)
	if _, err := io.ReadFull(dialProxy(t, p), make([]byte, 5)); err != nil {
		t.Errorf("after it is let in again: %v", err)
	}
}

func TestProxyToNowhere(t *testing.T) {
	port, err := freePort()
	if err != nil {
		t.Fatal(err)
	}
	p := NewCutProxy(t, address(port))
	_, err = talk(p.Addr())
	if !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("talk = %v; want a connection reset: the backend does not listen", err)
	}
}
