package forward

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"postrider/internal/message"
	"postrider/internal/testserver/smtpsink"
)

// delivered is what arrives when raw is sent to s.
func delivered(t *testing.T, s *smtpsink.Server, r *Relay, c *Content) string {
	t.Helper()
	res, err := send(t, r, c, "a@x.example")
	if got := brief(res); got != "a accepted 250 2.0.0" || err != nil {
		t.Fatalf("Send = %q, %v, want accepted", got, err)
	}
	all := s.Messages()
	return string(all[len(all)-1].Data)
}

// want is the content as it must arrive: a missing line end at the end is added (RFC 5321 4.1.1.4).
func arrives(t *testing.T, c *Content) string {
	t.Helper()
	b, err := io.ReadAll(c.Reader())
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.HasSuffix(b, []byte("\r\n")) {
		b = append(b, "\r\n"...)
	}
	return string(b)
}

func TestOctetForOctet(t *testing.T) {
	const h = "Subject: x\r\n\r\n"
	s := sink(t, smtpsink.Options{Extensions: []string{"8BITMIME"}})
	r := relayOn(t, s.Port())
	for name, raw := range map[string]string{
		"empty":                   "",
		"header alone":            "A: b",
		"no header":               "hello\r\n",
		"continuation first":      " x\r\n" + h,
		"no line end":             h + "x",
		"dots":                    h + ".\r\n..\r\n...\r\n.x\r\nx.\r\n.",
		"a dot first":             ".\r\nx",
		"lone dot at the end":     h + "x\r\n.\r\n",
		"looks like the end":      h + "x\r\n.\r\nMAIL FROM:<evil@x.example>\r\nRCPT TO:<b@x.example>\r\nDATA\r\n",
		"dot at a block's start":  h + strings.Repeat("x", 32<<10-len(h)-64) + strings.Repeat("\r\n.", 64),
		"line end cut by a block": h + strings.Repeat("0123456789abcd\r\n", 1<<13),
		"empty lines":             h + "\r\n\r\n\r\n",
		"bare LF and CR":          h + "a\nb\n.\nc\r.\rd",
		"long line":               h + strings.Repeat("x", 100_000) + "\r\n",
		"NUL":                     h + "\x00\x00",
		"8 bits":                  h + "\xff\xfe\x80\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			c := content(t, raw)
			if got, want := delivered(t, s, r, c), arrives(t, c); got != want {
				t.Errorf("arrived %.200q, want %.200q", got, want)
			}
		})
	}
	if n := len(s.Messages()); s.Connections() != 1 || n == 0 {
		t.Errorf("%d messages over %d connections, want one", n, s.Connections())
	}
}

// TestCorpus sends every message of the shared corpus, when the corpus is there.
func TestCorpus(t *testing.T) {
	files, _ := filepath.Glob("../../../shared/corpus/*/*/*.eml")
	if len(files) == 0 {
		t.Skip("no corpus beside the repository")
	}
	s := sink(t, smtpsink.Options{Extensions: []string{"8BITMIME", "SMTPUTF8"}})
	r := relayOn(t, s.Port())
	for _, f := range files {
		raw, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		c := content(t, string(raw))
		original := strings.TrimSuffix(arrives(t, &Content{parts: c.parts[len(c.parts)-1:]}), "\r\n")
		got := delivered(t, s, r, c)
		if got != arrives(t, c) || !strings.HasSuffix(strings.TrimSuffix(got, "\r\n"), original) {
			t.Errorf("%s: arrived otherwise than it was", f)
		}
	}
}

// rude is a relay for one connection that reads n octets of the content, or what comes of them,
// does something, and closes. Then done is closed.
func rude(t *testing.T, n int64, then func(w io.Writer, r io.Reader)) (port int, done chan struct{}) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done = make(chan struct{})
	conns := make(chan net.Conn, 1)
	go func() {
		defer close(done)
		c, err := ln.Accept()
		if err != nil {
			return
		}
		conns <- c
		defer func() { _ = c.Close() }()
		r := bufio.NewReader(c)
		_, err = io.WriteString(c, "220 rude\r\n")
		for err == nil {
			var line string
			if line, err = r.ReadString('\n'); strings.HasPrefix(line, "DATA") {
				_, _ = io.WriteString(c, "354 go\r\n")
				_, _ = io.CopyN(io.Discard, r, n)
				then(c, r)
				return
			}
			if strings.HasPrefix(line, "EHLO") {
				_, _ = io.WriteString(c, "250 rude\r\n")
			} else {
				_, err = io.WriteString(c, "250\r\n") // without text, as the grammar allows
			}
		}
	}()
	t.Cleanup(func() {
		_ = ln.Close()
		select {
		case c := <-conns:
			_ = c.Close()
		default:
		}
		<-done
	})
	return ln.Addr().(*net.TCPAddr).Port, done
}

func TestCutInTheContent(t *testing.T) {
	big := content(t, "Subject: x\r\n\r\n"+strings.Repeat(strings.Repeat("x", 78)+"\r\n", 200_000))
	tests := []struct{ name, says, want, fault string }{
		{"without a word", "", "a deferred 0", ""},
		{"too large", "552 5.3.4 too large\r\n", "a refused 552 5.3.4", ""},
		{"busy", "451 4.3.0 busy\r\n", "a deferred 451 4.3.0", ""},
		{"shutting down", "421 4.3.2 bye\r\n", "a deferred 421 4.3.2", "content 421 temporary"},
		{"accepted before it was sent", "250 thanks\r\n", "a deferred 0", ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			port, _ := rude(t, 1000, func(w io.Writer, _ io.Reader) { _, _ = io.WriteString(w, tt.says) })
			r := relayOn(t, port)
			res, err := send(t, r, big, "a@x.example")
			if brief(res) == "a deferred 0" && runtime.GOOS != "linux" {
				return // a TCP reset may overtake the reply
			}
			if got := brief(res); got != tt.want || briefError(err) != tt.fault {
				t.Errorf("Send = %q, %v, want %q and %q", got, err, tt.want, tt.fault)
			}
		})
	}
}

// TestRelayStopsReading: each block of content has its deadline.
func TestRelayStopsReading(t *testing.T) {
	stuck := make(chan struct{})
	port, _ := rude(t, 0, func(io.Writer, io.Reader) { <-stuck })
	t.Cleanup(func() { close(stuck) })
	r := relayOn(t, port, func(c *Config) { c.Timeouts.Block = 50 * time.Millisecond })
	large := "Subject: x\r\n\r\n" + strings.Repeat(strings.Repeat("x", 78)+"\r\n", 200_000)
	res, err := send(t, r, content(t, large), "a@x.example")
	if got := brief(res); got != "a deferred 0" || err != nil || !strings.Contains(res.Outcomes[0].Reply, "timeout") {
		t.Errorf("Send = %q, %v, want it deferred for a timeout", got, err)
	}
}

// TestNoDotNoConnection: when the content cannot be read to its end, the relay gets no dot, but the
// end of the connection.
func TestNoDotNoConnection(t *testing.T) {
	var after []byte
	port, done := rude(t, 0, func(_ io.Writer, r io.Reader) { after, _ = io.ReadAll(r) })
	_, err := send(t, relayOn(t, port), closedContent(t), "a@x.example")
	select {
	case <-done:
		if bytes.HasSuffix(after, []byte(".\r\n")) || err == nil {
			t.Errorf("Send = %v, and %q came, want an error and no dot", err, after)
		}
	case <-time.After(10 * time.Second):
		t.Error("the connection is still open, want it closed")
	}
}

// closedContent is a content whose message is closed.
func closedContent(t *testing.T) *Content {
	m := parse(t, plain)
	_ = m.Close()
	return redirected(m, Trace{})
}

// TestSpoolFails: half a message must never be ended with a dot.
func TestSpoolFails(t *testing.T) {
	bothWays(t, func(t *testing.T, offers []string) {
		s := sink(t, smtpsink.Options{Extensions: offers})
		r := relayOn(t, s.Port())
		res, err := send(t, r, closedContent(t), "a@x.example")
		if err == nil || errors.As(err, new(*Error)) || len(res.Outcomes) > 0 || len(s.Messages()) > 0 {
			t.Errorf("Send = %q, %v, %d delivered, want an error that is not the relay's, and nothing delivered",
				brief(res), err, len(s.Messages()))
		}
		mustSend(t, r)
	})
}

// TestLargeMessage: a message in a temporary file goes out without being held in memory.
func TestLargeMessage(t *testing.T) {
	const size = 25 << 20
	b := (&message.Spooler{Dir: t.TempDir()}).New()
	_, _ = io.WriteString(b, "Subject: large\r\n\r\n")
	line := []byte(strings.Repeat("x", 76) + "\r\n")
	for b.Size() < size {
		if _, err := b.Write(line); err != nil {
			t.Fatal(err)
		}
	}
	m, err := message.Parse(b)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = m.Close() }()
	s, err := smtpsink.Start(smtpsink.Options{Extensions: []string{"SIZE 30000000"}})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	r := relayOn(t, s.Port())
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	c := redirected(m, Trace{})
	res, err := send(t, r, c, "a@x.example")
	runtime.ReadMemStats(&after)
	if got := brief(res); got != "a accepted 250 2.0.0" || err != nil || s.Messages()[0].Size != c.Size() {
		t.Fatalf("Send = %q, %v, want %d octets accepted", got, err, c.Size())
	}
	if used := after.TotalAlloc - before.TotalAlloc; used > 2<<20 {
		t.Errorf("%d octets allocated in all, by the sink too, want less than 2 MiB", used)
	}
}
