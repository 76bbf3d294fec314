package testserver

import (
	"bufio"
	"encoding/base64"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
)

// Gateway is a proxy on loopback that forwards everything to one backend, whatever the client asks
// for.
type Gateway struct {
	Addr string

	mu      sync.Mutex
	targets []string // that clients asked for
}

// Handshake reads what a client asks a proxy for: the target, and what is answered. An error closes
// the connection after that.
type Handshake func(net.Conn) (target, answer string, err error)

// ServeGateway starts a gateway on a listener, see StartGateway.
func ServeGateway(t testing.TB, ln net.Listener, backend string, handshake Handshake) *Gateway {
	t.Helper()
	g := &Gateway{Addr: ln.Addr().String()}
	var running sync.WaitGroup
	running.Go(func() {
		for {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			running.Go(func() { g.serve(conn, backend, handshake) })
		}
	})
	t.Cleanup(func() {
		_ = ln.Close()
		running.Wait()
	})
	return g
}

func (g *Gateway) serve(conn net.Conn, backend string, handshake Handshake) {
	defer func() { _ = conn.Close() }()
	target, answer, err := handshake(conn)
	g.mu.Lock()
	g.targets = append(g.targets, target)
	g.mu.Unlock()
	_, _ = io.WriteString(conn, answer)
	if err != nil {
		return
	}
	server, err := net.Dial("tcp", backend)
	if err != nil {
		return
	}
	defer func() { _ = server.Close() }()
	var back sync.WaitGroup
	back.Go(func() {
		_, _ = io.Copy(conn, server)
		_ = conn.Close()
	})
	_, _ = io.Copy(server, conn)
	_ = server.Close()
	back.Wait()
}

// LastTarget is the target of the last connection.
func (g *Gateway) LastTarget() string {
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.targets) == 0 {
		return ""
	}
	return g.targets[len(g.targets)-1]
}

// HTTPProxy takes CONNECT from user bob with the password p:w.
func HTTPProxy(conn net.Conn) (target, answer string, err error) {
	r := bufio.NewReader(conn)
	request, err := r.ReadString('\n')
	if err != nil {
		return "", "", err
	}
	target = strings.TrimSuffix(strings.TrimPrefix(request, "CONNECT "), " HTTP/1.1\r\n")
	allowed := false
	for line := ""; line != "\r\n"; {
		if line, err = r.ReadString('\n'); err != nil {
			return target, "", err
		}
		allowed = allowed || line == "Proxy-Authorization: Basic "+
			base64.StdEncoding.EncodeToString([]byte("bob:p:w"))+"\r\n"
	}
	if !allowed {
		return target, "HTTP/1.1 407 Proxy Authentication Required\r\n\r\n", io.EOF
	}
	return target, "HTTP/1.1 200 Connection established\r\nVia: x\r\n\r\n", nil
}

// SOCKSProxy takes CONNECT from user bob with the password p:w (RFC 1928, RFC 1929).
func SOCKSProxy(conn net.Conn) (target, answer string, err error) {
	read := func(n int) []byte {
		b := make([]byte, n)
		_, _ = io.ReadFull(conn, b)
		return b
	}
	read(int(read(2)[1]))
	_, _ = conn.Write([]byte{5, 2})
	user := string(read(int(read(2)[1])))
	if password := string(read(int(read(1)[0]))); user != "bob" || password != "p:w" {
		return "", "\x01\x01", io.EOF
	}
	_, _ = conn.Write([]byte{1, 0})
	host := ""
	switch read(4)[3] {
	case 1:
		host = net.IP(read(4)).String()
	case 3:
		host = string(read(int(read(1)[0])))
	case 4:
		host = net.IP(read(16)).String()
	}
	port := read(2)
	target = net.JoinHostPort(host, fmt.Sprint(int(port[0])<<8|int(port[1])))
	if host == "refused.example" {
		return target, "\x05\x05\x00\x01\x00\x00\x00\x00\x00\x00", io.EOF
	}
	return target, "\x05\x00\x00\x01\x00\x00\x00\x00\x00\x00", nil
}

// SilentProxy never answers.
func SilentProxy(conn net.Conn) (target, answer string, err error) {
	_, _ = io.Copy(io.Discard, conn)
	return "", "", io.EOF
}

// StartGateway starts a proxy. It calls handshake once per connection.
func StartGateway(t testing.TB, backend string, handshake Handshake) *Gateway {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return ServeGateway(t, ln, backend, handshake)
}
