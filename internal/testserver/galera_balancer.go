package testserver

import (
	"io"
	"net"
	"strings"
	"sync/atomic"
	"testing"
)

// Balancer gives each new connection to the next node in turn, as a TCP balancer without a health
// check does. A node that refuses connections is left out. It returns the DSN that leads to it.
func (g *Galera) Balancer(t testing.TB, dsn string) string {
	t.Helper()
	var turn atomic.Int64
	port := Listen(t, func(client net.Conn) {
		for range g.Nodes {
			n := g.Nodes[int(turn.Add(1))%GaleraNodes]
			server, err := net.Dial("tcp", address(n.Port))
			if err != nil {
				continue
			}
			defer func() { _ = server.Close() }()
			go func() {
				_, _ = io.Copy(server, client)
				_ = server.Close()
			}()
			_, _ = io.Copy(client, server)
			return
		}
	})
	start, end := strings.Index(dsn, "("), strings.Index(dsn, ")")
	return dsn[:start+1] + address(port) + dsn[end:]
}
