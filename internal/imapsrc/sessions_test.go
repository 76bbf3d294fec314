package imapsrc_test

import (
	"bufio"
	"crypto/tls"
	"crypto/x509"
	"io"
	"strings"
	"testing"

	"postrider/internal/imapsrc"
	"postrider/internal/testserver"
	"postrider/internal/testserver/fakeimap"
)

// TestTLSSessionsAreReused: a later connection to the same host resumes the session, if it has the
// cache. A certificate that is not trusted is refused all the same.
func TestTLSSessionsAreReused(t *testing.T) {
	cert, pool, err := testserver.Certificate()
	if err != nil {
		t.Fatal(err)
	}
	resumed := make(chan bool, 1)
	server := &tls.Config{Certificates: []tls.Certificate{cert}} // with the keys of its tickets
	cfg := fakeConfig(t, func(c *fakeimap.Conn) {
		conn := tls.Server(c.Conn, server)
		if conn.Handshake() != nil {
			return
		}
		resumed <- conn.ConnectionState().DidResume
		_, _ = io.WriteString(conn, greeting.Reply)
		for lines := bufio.NewScanner(conn); lines.Scan(); {
			tag, _, _ := strings.Cut(lines.Text(), " ")
			_, _ = io.WriteString(conn, strings.ReplaceAll(loggedIn.Reply, "{tag}", tag))
		}
	})
	sessions := tls.NewLRUClientSessionCache(0)
	cfg.Security, cfg.RootCAs, cfg.Sessions = imapsrc.SecurityTLS, pool, sessions
	for i, tc := range []struct {
		host     string
		sessions tls.ClientSessionCache
		want     bool
	}{
		{"127.0.0.1", sessions, false},
		{"127.0.0.1", sessions, true},
		{"localhost", sessions, false},
		{"127.0.0.1", nil, false},
		{"127.0.0.1", tls.NewLRUClientSessionCache(0), false},
		{"127.0.0.1", sessions, true},
	} {
		cfg.Host, cfg.Sessions = tc.host, tc.sessions
		c, err := imapsrc.Dial(t.Context(), cfg)
		if err != nil {
			t.Fatalf("connection %d: %v", i+1, err)
		}
		_ = c.Close()
		if got := <-resumed; got != tc.want {
			t.Errorf("connection %d, to %s: resumed = %v, want %v", i+1, tc.host, got, tc.want)
		}
	}
	cfg.Sessions, cfg.RootCAs = sessions, x509.NewCertPool()
	_, err = imapsrc.Dial(t.Context(), cfg)
	wantError(t, err, imapsrc.KindTLS, "does not trust")
}
