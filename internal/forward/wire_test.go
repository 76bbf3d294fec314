package forward

import (
	"bufio"
	"net"
	"strings"
	"sync/atomic"
	"testing"

	"postrider/internal/testserver/smtpsink"
)

// meter counts what a client does on a connection.
type meter struct {
	net.Conn
	writes, turns atomic.Int32 // turns: how often it wrote after it had read
	wrote         atomic.Bool
}

func (m *meter) Write(p []byte) (int, error) {
	m.writes.Add(1)
	if !m.wrote.Swap(true) {
		m.turns.Add(1)
	}
	return m.Conn.Write(p)
}

func (m *meter) Read(p []byte) (int, error) {
	n, err := m.Conn.Read(p)
	m.wrote.Store(false)
	return n, err
}

// metered is a meter on the only connection of a relay, which is in its pool.
func metered(t *testing.T, r *Relay) *meter {
	t.Helper()
	raw, err := net.Dial("tcp", r.addr)
	if err != nil {
		t.Fatal(err)
	}
	m := &meter{Conn: raw}
	pool(t, r, m)
	return m
}

// pool logs in on an open connection and puts it into the pool of a relay, unused.
func pool(t *testing.T, r *Relay, raw net.Conn) {
	t.Helper()
	c := &conn{cfg: &r.cfg, raw: raw}
	if err := c.open(); err != nil {
		t.Fatal(err)
	}
	r.giveBack(c)
}

// TestRoundTrips: how often a message of 4 KiB waits for the relay, and how many writes it takes,
// which are as many packets where the network delays nothing (Go sets TCP_NODELAY).
func TestRoundTrips(t *testing.T) {
	conf, pool := serverTLS(t)
	for _, tt := range []struct {
		name, security string
		offers         []string
		want           int32
	}{
		{"one command at a time", "none", nil, 4}, // MAIL, RCPT, DATA, the content with its dot
		{"one command at a time, TLS", "tls", nil, 4},
		{"pipelined", "none", []string{"PIPELINING"}, 2}, // MAIL with RCPT and DATA, the content with its dot
		{"pipelined, TLS", "tls", []string{"PIPELINING"}, 2},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := sink(t, smtpsink.Options{Extensions: tt.offers, TLS: conf, ImplicitTLS: tt.security == "tls"})
			r := relayOn(t, s.Port(), security(tt.security, pool))
			m := metered(t, r)
			c := content(t, "Subject: x\r\n\r\n"+strings.Repeat(strings.Repeat("x", 62)+"\r\n", 64))
			for range 2 {
				writes, turns := m.writes.Load(), m.turns.Load()
				if res, err := send(t, r, c, "a@x.example"); err != nil || brief(res) != "a accepted 250 2.0.0" {
					t.Fatalf("Send = %q, %v, want it accepted", brief(res), err)
				}
				if w, n := m.writes.Load()-writes, m.turns.Load()-turns; w != tt.want || n != tt.want {
					t.Errorf("%d writes and %d round trips, want %d of both", w, n, tt.want)
				}
			}
			if s.Connections() != 1 {
				t.Errorf("%d connections, want the one that is measured", s.Connections())
			}
		})
	}
}

// TestDots: lines are stuffed and end in CRLF, whatever the pieces in which they are written, and
// only the end writes a dot.
func TestDots(t *testing.T) {
	for raw, want := range map[string]string{
		"":                   "",
		"a\r\nb\r\n":         "a\r\nb\r\n",
		".\r\n..\r\n.a\r\n":  "..\r\n...\r\n..a\r\n",
		"a.\r\n\r\n.\r\nb":   "a.\r\n\r\n..\r\nb\r\n",
		"a\n.\nb\n\n.":       "a\r\n..\r\nb\r\n\r\n..\r\n",
		"a\r.\r\n.":          "a\r.\r\n..\r\n",
		"a\r\r\n.\rb\r":      "a\r\r\n..\rb\r\n",
		"\r\n.\r\n\n.\n\r.a": "\r\n..\r\n\r\n..\r\n\r.a\r\n",
	} {
		for size := 1; size <= len(raw)+1; size++ {
			var out strings.Builder
			d := &dots{w: bufio.NewWriterSize(&out, 16)}
			for rest := raw; rest != ""; {
				n := min(size, len(rest))
				if got, err := d.Write([]byte(rest[:n])); got != n || err != nil {
					t.Fatalf("Write = %d, %v, want %d", got, err, n)
				}
				rest = rest[n:]
			}
			_ = d.w.Flush()
			if got := out.String(); strings.Contains("\n"+got, "\n.\r\n") {
				t.Errorf("%q in pieces of %d: %q before its end, want no line with a dot alone", raw, size, got)
			}
			if err := d.end(); err != nil || out.String() != want+".\r\n" {
				t.Errorf("%q in pieces of %d: %q, %v, want %q and the dot", raw, size, out.String(), err, want)
			}
		}
	}
}
