package forward

import (
	"bufio"
	"errors"
	"net"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"postrider/internal/testserver/effort"
)

// babbler is a relay that repeats one text for ever instead of one reply.
type babbler struct {
	net.Listener
	replies map[string]string // by the first word of the command; the greeting has none
	at      string            // the command that gets the text
	text    string
	sent    atomic.Int64 // octets of it
}

func newBabbler(t *testing.T, at, text string) *babbler {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	b := &babbler{Listener: l, at: at, text: strings.Repeat(text, 32<<10/len(text)), replies: map[string]string{
		"": "220 hello", "EHLO": "250-here\r\n250-PIPELINING\r\n250 AUTH PLAIN LOGIN", "HELO": "250 here",
		"AUTH": "235 welcome", "MAIL": "250 ok", "RCPT": "250 ok", "DATA": "354 go on", ".": "250 ok",
		"RSET": "250 ok", "QUIT": "221 bye",
	}}
	over := make(chan struct{})
	go func() {
		defer close(over)
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			b.serve(c)
		}
	}()
	t.Cleanup(func() {
		_ = l.Close()
		<-over
	})
	return b
}

func (b *babbler) serve(c net.Conn) {
	defer func() { _ = c.Close() }()
	lines := bufio.NewScanner(c)
	for word := ""; ; {
		for word == b.at {
			n, err := c.Write([]byte(b.text))
			b.sent.Add(int64(n))
			if err != nil {
				return
			}
		}
		if _, err := c.Write([]byte(b.replies[word] + "\r\n")); err != nil {
			return
		}
		for word = ""; word == "" || b.replies[word] == ""; { // a line of the content has no reply
			if !lines.Scan() {
				return
			}
			word, _, _ = strings.Cut(lines.Text(), " ")
		}
	}
}

// TestEndlessReplies: a reply without an end, or a line without one, ends the connection, before
// the login and after it. It takes neither time nor memory.
func TestEndlessReplies(t *testing.T) {
	const buffers = 32 << 20 // octets that the kernel may take for the relay
	texts := map[string]string{"line": "250 x", "lines": "250-x\r\n", "challenges": "334 eA==\r\n"}
	for at, fault := range map[string]string{
		"": "greeting", "EHLO": "EHLO", "AUTH": "AUTH", "MAIL": "MAIL", "RCPT": "RCPT", "DATA": "DATA", ".": "",
	} {
		for name, text := range texts {
			if name == "challenges" && at != "AUTH" {
				continue
			}
			t.Run(fault+at+" "+name, func(t *testing.T) {
				b := newBabbler(t, at, text)
				port := b.Addr().(*net.TCPAddr).Port
				r := relayOn(t, port, login, func(c *Config) { c.Timeouts.Command = time.Minute })
				var err error
				var res result
				effort.Within(t, maxReply, func() { res, err = send(t, r, content(t, plain), "a@x.example") })
				e, ok := errors.AsType[*Error](err)
				switch {
				case slices.Contains([]string{"", "EHLO", "AUTH"}, at):
					if !ok || name != "challenges" && !errors.Is(e, errOpening) { // one challenge is enough
						t.Errorf("the error is %v, want one of the relay: %v", err, errOpening)
					}
				case fault != "" && (!ok || string(e.Stage) != fault):
					t.Errorf("the error is %v, want one of the relay at %s", err, fault)
				case fault == "" && (err != nil || len(res.Outcomes) != 1 || res.Outcomes[0].Status != Unknown):
					t.Errorf("after the final dot: %v, %+v, want an unknown outcome", err, res.Outcomes)
				}
				if n := b.sent.Load(); n > buffers {
					t.Errorf("the relay got rid of %d octets, want at most %d", n, buffers)
				}
			})
		}
	}
}

// TestSlowReply: the time limit is for a reply as a whole; a line now and then is no progress.
func TestSlowReply(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client, server := net.Pipe()
		over := make(chan struct{})
		go func() {
			defer close(over)
			for {
				if _, err := server.Write([]byte("250-x\r\n")); err != nil {
					return
				}
				time.Sleep(time.Second) // of the bubble's clock
			}
		}()
		c := &conn{cfg: &Config{}, raw: client}
		c.deadline(5 * time.Minute)
		if rep, err := readReply(bufio.NewReader(client)); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("the reply is %+v, %v, want a timeout", rep, err)
		}
		_ = client.Close()
		<-over
	})
}
