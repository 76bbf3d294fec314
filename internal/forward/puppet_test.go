package forward

import (
	"log/slog"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
)

// puppet is a relay that offers PIPELINING. It reads what comes at once, and does what a test wants
// with it.
type puppet struct {
	net.Listener
	// answer replies to commands that came at once, like "MAIL", "RCPT", "DATA"; after "closes" it
	// closes the connection. By default each is taken.
	answer func(commands []string) (replies []string)
	write  func(c net.Conn, replies string) // by default in one piece

	mu       sync.Mutex
	conns    int
	groups   []string // what came at once
	contents []string // what ended in a dot
}

const closes = "closes"

var takes = map[string]string{
	"EHLO": "250-here\r\n250 PIPELINING", "MAIL": "250 2.1.0 ok", "RCPT": "250 2.1.5 ok", "DATA": "354 go on",
	"RSET": "250 2.0.0 ok", "QUIT": "221 bye",
	".": "250 2.0.0 accepted",
}

func newPuppet(t *testing.T, answer func(commands []string) []string) *puppet {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &puppet{Listener: l, answer: answer, write: writeWhole}
	var all sync.WaitGroup
	all.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			all.Go(func() { p.serve(c) })
		}
	})
	t.Cleanup(func() {
		_ = l.Close()
		all.Wait()
	})
	return p
}

func writeWhole(c net.Conn, s string) { _, _ = c.Write([]byte(s)) }

// pipe is a connection to the puppet, for the pool of a relay. In a bubble of testing/synctest its
// deadlines follow the bubble's clock: a relay that falls silent costs no time, and no other step
// can time out.
func (p *puppet) pipe() net.Conn {
	client, server := net.Pipe()
	go p.serve(server)
	return client
}

func (p *puppet) serve(c net.Conn) {
	defer func() { _ = c.Close() }()
	p.mu.Lock()
	p.conns++
	p.mu.Unlock()
	_, _ = c.Write([]byte("220 puppet\r\n"))
	content, waiting := "", false // for the content
	for buf := make([]byte, 64<<10); ; {
		n, err := c.Read(buf)
		if err != nil {
			return
		}
		came := []string{"."}
		if waiting {
			if content += string(buf[:n]); !strings.HasSuffix("\r\n"+content, "\r\n.\r\n") {
				continue
			}
		} else {
			came = verbs(string(buf[:n]))
		}
		p.mu.Lock()
		p.groups = append(p.groups, strings.Join(came, " "))
		if waiting {
			p.contents = append(p.contents, content)
		}
		replies := p.replies(came)
		p.mu.Unlock()
		content, waiting = "", false
		for _, reply := range replies {
			if reply == closes {
				return
			}
			waiting = waiting || strings.HasPrefix(reply, "354") || strings.Contains(reply, "\n354")
			p.write(c, reply+"\r\n")
		}
	}
}

func verbs(lines string) (out []string) {
	for line := range strings.Lines(lines) {
		word, _, _ := strings.Cut(strings.TrimSpace(line), " ")
		out = append(out, word)
	}
	return out
}

func (p *puppet) replies(came []string) (replies []string) {
	if p.answer != nil {
		replies = p.answer(came)
	}
	if replies == nil {
		for _, verb := range came {
			replies = append(replies, takes[verb])
		}
	}
	return replies
}

// connections is how many there were.
func (p *puppet) connections() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.conns
}

// relay is the other side of it, with the log that it writes.
func (p *puppet) relay(t *testing.T, out *strings.Builder, change ...func(*Config)) *Relay {
	return relayOn(t, p.Addr().(*net.TCPAddr).Port, append(change, func(c *Config) {
		c.Logger = slog.New(slog.NewTextHandler(out, &slog.HandlerOptions{Level: slog.LevelInfo}))
	})...)
}

// heard is what came, without logging in and out.
func (p *puppet) heard() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(p.groups), func(s string) bool { return s == "EHLO" || s == "QUIT" })
}

// messages is what came with recipients.
func (p *puppet) messages() (out []string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, content := range p.contents {
		if content != ".\r\n" {
			out = append(out, content)
		}
	}
	return out
}
