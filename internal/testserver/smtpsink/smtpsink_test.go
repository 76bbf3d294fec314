package smtpsink_test

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"postrider/internal/testserver/smtpsink"
)

func start(t *testing.T, opts smtpsink.Options) *smtpsink.Server {
	t.Helper()
	s, err := smtpsink.Start(opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

// client speaks SMTP line by line.
type client struct {
	t    *testing.T
	conn net.Conn
	r    *bufio.Reader
}

func dial(t *testing.T, s *smtpsink.Server) *client {
	t.Helper()
	conn, err := net.Dial("tcp", s.Addr())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	if err := conn.SetDeadline(time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	return &client{t: t, conn: conn, r: bufio.NewReader(conn)}
}

// reply reads one reply; several lines come joined by "|", and the end of the connection as
// "closed".
func (c *client) reply() string {
	c.t.Helper()
	var lines []string
	for {
		line, err := c.r.ReadString('\n')
		if err != nil {
			return "closed"
		}
		lines = append(lines, strings.TrimRight(line, "\r\n"))
		if len(line) < 4 || line[3] != '-' {
			return strings.Join(lines, "|")
		}
	}
}

func (c *client) send(text string) {
	_, _ = io.WriteString(c.conn, text) // the next reply shows whether it failed
}

// talk sends each line and wants a reply that starts as given.
func (c *client) talk(steps ...[2]string) {
	c.t.Helper()
	for _, step := range steps {
		if step[0] != "" {
			c.send(step[0] + "\r\n")
		}
		if got := c.reply(); !strings.HasPrefix(got, step[1]) {
			c.t.Fatalf("%q is answered %q; want %q", step[0], got, step[1])
		}
	}
}

var hello = [][2]string{{"", "220"}, {"EHLO test", "250"}}

// letter is what delivers a message.
var letter = [][2]string{
	{"MAIL FROM:<>", "250"}, {"RCPT TO:<a@x>", "250"}, {"DATA", "354"}, {"x\r\n.", "250"},
}

func TestConversation(t *testing.T) {
	full := smtpsink.Options{Extensions: []string{"SIZE 1000", "8BITMIME", "SMTPUTF8", "PIPELINING"}}
	tests := []struct {
		name  string
		opts  smtpsink.Options
		steps [][2]string
	}{
		{"extensions", full, [][2]string{
			{"EHLO t", "250-smtpsink|250-SIZE 1000|250-8BITMIME|250-SMTPUTF8|250 PIPELINING"},
		}},
		{"HELO offers none", full, [][2]string{{"HELO t", "250 smtpsink"}}},
		{"MAIL before EHLO", full, [][2]string{{"MAIL FROM:<a@x>", "503"}}},
		{"RCPT before MAIL", full, [][2]string{{"EHLO t", "250"}, {"RCPT TO:<a@x>", "503"}}},
		{"DATA before MAIL", full, [][2]string{{"EHLO t", "250"}, {"DATA", "503"}}},
		{"DATA without recipient", full, [][2]string{{"EHLO t", "250"}, {"MAIL FROM:<>", "250"}, {"DATA", "554"}}},
		{"second MAIL", full, [][2]string{
			{"EHLO t", "250"},
			{"MAIL FROM:<>", "250"},
			{"MAIL FROM:<>", "503"},
			{"RSET", "250"},
			{"MAIL FROM:<>", "250"},
		}},
		{"no brackets", full, [][2]string{{"EHLO t", "250"}, {"MAIL FROM:a@x", "501"}, {"MAIL TO:<a@x>", "501"}}},
		{"null recipient", full, [][2]string{{"EHLO t", "250"}, {"MAIL FROM:<a@x>", "250"}, {"RCPT TO:<>", "501"}}},
		{"all parameters", full, [][2]string{
			{"EHLO t", "250"}, {"MAIL FROM:<ä@x> SIZE=1000 BODY=8BITMIME SMTPUTF8", "250"}, {"RCPT TO:<ö@x>", "250"},
		}},
		{"declared size too large", full, [][2]string{{"EHLO t", "250"}, {"MAIL FROM:<a@x> SIZE=1001", "552"}}},
		{"parameters not offered", smtpsink.Options{}, [][2]string{
			{"EHLO t", "250"},
			{"MAIL FROM:<a@x> SIZE=1", "555"},
			{"MAIL FROM:<a@x> BODY=8BITMIME", "555"},
			{"MAIL FROM:<a@x> SMTPUTF8", "555"},
			{"MAIL FROM:<a@x>", "250"},
		}},
		{"address needs SMTPUTF8", full, [][2]string{
			{"EHLO t", "250"}, {"MAIL FROM:<ä@x>", "553"}, {"MAIL FROM:<a@x>", "250"}, {"RCPT TO:<ö@x>", "553"},
		}},
		{"unknown command", full, [][2]string{{"WIZARD", "502"}, {"NOOP", "250"}, {"QUIT", "221"}, {"", "closed"}}},
		{"STARTTLS not offered", full, [][2]string{{"EHLO t", "250"}, {"STARTTLS", "502"}}},
		{"AUTH not offered", full, [][2]string{{"EHLO t", "250"}, {"AUTH PLAIN AGEAYg==", "503"}}},
		{"line too long", full, [][2]string{{"NOOP " + strings.Repeat("x", 70000), "500"}, {"", "closed"}}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c := dial(t, start(t, tt.opts))
			c.talk([2]string{"", "220"})
			c.talk(tt.steps...)
		})
	}
}

func TestMessageIsKeptExactly(t *testing.T) {
	// The CR is the last octet that fits into the buffer.
	brim := strings.Repeat("x", 64<<10-1) + "\r\n"
	long := strings.Repeat("long", 50000) + "\r\n" + brim
	sent := "Subject: x\r\n\r\n..two dots\r\n..\r\n.\nbare\n.\nlf\rcr\n" + long + "..end\r\n"
	want := "Subject: x\r\n\r\n.two dots\r\n.\r\n\nbare\n.\nlf\rcr\n" + long + ".end\r\n"
	for _, keep := range []bool{true, false} {
		t.Run(fmt.Sprintf("KeepData=%v", keep), func(t *testing.T) {
			s := start(t, smtpsink.Options{KeepData: keep, Extensions: []string{"8BITMIME"}})
			c := dial(t, s)
			c.talk(hello...)
			c.talk([2]string{"MAIL FROM:<a@x> BODY=8BITMIME", "250"})
			c.talk([2]string{"RCPT TO:<b@x>", "250"}, [2]string{"RCPT TO:<c@x>", "250"}, [2]string{"DATA", "354"})
			c.send(sent + ".\r\n")
			c.talk([2]string{"", "250"})
			msg := s.Messages()[0]
			to, params := strings.Join(msg.To, " "), strings.Join(msg.Params, " ")
			if msg.From != "a@x" || to != "b@x c@x" || params != "BODY=8BITMIME" || msg.Conn != 1 {
				t.Errorf("envelope %+v", msg)
			}
			if string(msg.Header) != "Subject: x\r\n\r\n" || msg.Size != int64(len(want)) ||
				msg.SHA256 != sha256.Sum256([]byte(want)) {
				t.Errorf("header %q, size %d; want %d and the hash of what was sent", msg.Header, msg.Size, len(want))
			}
			if keep && string(msg.Data) != want {
				t.Errorf("data differs from what was sent: %.60q...", msg.Data)
			}
			if !keep && msg.Data != nil {
				t.Error("the data was kept")
			}
		})
	}
}

func TestPipelined(t *testing.T) {
	s := start(t, smtpsink.Options{Extensions: []string{"PIPELINING"}, KeepData: true})
	c := dial(t, s)
	c.talk(hello...)
	for range 2 {
		c.send("MAIL FROM:<>\r\nRCPT TO:<b@x>\r\nDATA\r\n")
		c.talk([2]string{"", "250"}, [2]string{"", "250"}, [2]string{"", "354"})
		c.send("one\r\n.\r\nNOOP\r\n")
		c.talk([2]string{"", "250"}, [2]string{"", "250"})
	}
	if got := s.Messages(); len(got) != 2 || string(got[1].Data) != "one\r\n" {
		t.Errorf("messages: %+v", got)
	}
}

func TestTooLarge(t *testing.T) {
	s := start(t, smtpsink.Options{Extensions: []string{"SIZE 10"}})
	c := dial(t, s)
	c.talk(hello...)
	c.talk([2]string{"MAIL FROM:<>", "250"}, [2]string{"RCPT TO:<b@x>", "250"})
	c.talk([2]string{"DATA", "354"}, [2]string{"12345678901\r\n.", "552"})
	if n := len(s.Messages()); n != 0 {
		t.Errorf("%d messages; want none", n)
	}
	if _, err := smtpsink.Start(smtpsink.Options{Extensions: []string{"SIZE much"}}); err == nil {
		t.Error("Start takes the extension `SIZE much`; want an error")
	}
}

func TestReply(t *testing.T) {
	// each step's answer when nothing is changed
	usual := []string{
		"connect 220", "ehlo 250", "mail 250", "rcpt 250", "data 354", "dot 250", "rset 250", "noop 250", "quit 221",
	}
	lines := map[string]string{
		"connect": "", "ehlo": "EHLO t", "mail": "MAIL FROM:<a@x>", "rcpt": "RCPT TO:<b@x>",
		"data": "DATA", "dot": "text\r\n.", "rset": "RSET", "noop": "NOOP", "quit": "QUIT",
	}
	tests := []struct {
		stage    string
		action   smtpsink.Action
		want     string // the reply at that stage; the test ends there
		messages int
	}{
		{"connect", smtpsink.Action{Code: 554, Text: "5.3.2 no"}, "554 5.3.2 no", 0},
		{"connect", smtpsink.Action{Drop: true}, "closed", 0},
		{"ehlo", smtpsink.Action{Code: 421, Text: "4.3.2 busy\nlater"}, "421-4.3.2 busy|421 later", 0},
		{"mail", smtpsink.Action{Code: 451, Text: "4.3.0 later"}, "451 4.3.0 later", 0},
		{"mail", smtpsink.Action{Drop: true}, "closed", 0},
		{"rcpt", smtpsink.Action{Code: 550, Text: "5.1.1 unknown"}, "550 5.1.1 unknown", 0},
		{"data", smtpsink.Action{Code: 451, Text: "4.3.0 later"}, "451 4.3.0 later", 0},
		{"data", smtpsink.Action{Drop: true}, "closed", 0},
		{"dot", smtpsink.Action{Code: 554, Text: "5.6.0 spam"}, "554 5.6.0 spam", 0},
		{"dot", smtpsink.Action{Code: 250, Text: "2.0.0 queued as 1"}, "250 2.0.0 queued as 1", 1},
		{"dot", smtpsink.Action{Drop: true}, "closed", 0},
		{"dot", smtpsink.Action{AcceptAndDrop: true}, "closed", 1},
		{"noop", smtpsink.Action{Code: 421, Text: "4.4.2 idle"}, "421 4.4.2 idle", 1},
	}
	for _, tt := range tests {
		t.Run(fmt.Sprintf("%s %+v", tt.stage, tt.action), func(t *testing.T) {
			var seen smtpsink.Event
			s := start(t, smtpsink.Options{Reply: func(e smtpsink.Event) smtpsink.Action {
				if e.Stage != tt.stage {
					return smtpsink.Action{}
				}
				seen = e
				return tt.action
			}})
			c := dial(t, s)
			for _, step := range usual {
				stage, want, _ := strings.Cut(step, " ")
				if stage == tt.stage {
					c.talk([2]string{lines[stage], tt.want})
					break
				}
				c.talk([2]string{lines[stage], want})
			}
			if n := len(s.Messages()); n != tt.messages {
				t.Errorf("%d messages recorded; want %d", n, tt.messages)
			}
			if tt.action.Code == 421 || tt.stage == "connect" {
				c.talk([2]string{"NOOP", "closed"})
			}
			s.Close() // and with it the goroutine that wrote seen
			if seen.Conn != 1 || seen.N != 1 ||
				seen.Stage == "dot" && seen.Message.Size != 6 || seen.Stage == "rcpt" && seen.Arg != "b@x" {
				t.Errorf("the event was %+v", seen)
			}
		})
	}
}

func TestRefusedRecipientIsNotRecorded(t *testing.T) {
	s := start(t, smtpsink.Options{Reply: func(e smtpsink.Event) smtpsink.Action {
		if e.Stage == "rcpt" && e.N == 2 {
			return smtpsink.Action{Code: 550, Text: "5.1.1 unknown"}
		}
		return smtpsink.Action{}
	}})
	c := dial(t, s)
	c.talk(hello...)
	c.talk([2]string{"MAIL FROM:<>", "250"}, [2]string{"RCPT TO:<a@x>", "250"})
	c.talk([2]string{"RCPT TO:<b@x>", "550"}, [2]string{"RCPT TO:<c@x>", "250"})
	c.talk([2]string{"DATA", "354"}, [2]string{"x\r\n.", "250"})
	if to := strings.Join(s.Messages()[0].To, " "); to != "a@x c@x" {
		t.Errorf("recipients %q; want the two that were accepted", to)
	}
}

func TestBlock(t *testing.T) {
	block, reached := make(chan struct{}), make(chan struct{}, 2)
	s := start(t, smtpsink.Options{Reply: func(e smtpsink.Event) smtpsink.Action {
		if e.Stage != "noop" {
			return smtpsink.Action{}
		}
		reached <- struct{}{}
		if e.N == 1 {
			return smtpsink.Action{Block: block}
		}
		return smtpsink.Action{Block: make(chan struct{})}
	}})
	c := dial(t, s)
	c.talk(hello...)
	c.send("NOOP\r\n")
	<-reached
	close(block)
	c.talk([2]string{"", "250"})
	c.send("NOOP\r\n")
	<-reached
	s.Close() // ends what is blocked for good
	c.talk([2]string{"", "closed"})
}

func TestCounts(t *testing.T) {
	s := start(t, smtpsink.Options{})
	first, second := dial(t, s), dial(t, s)
	first.talk(hello...)
	second.talk(hello...)
	first.talk([2]string{"QUIT", "221"}, [2]string{"", "closed"})
	dial(t, s).talk(hello...)
	// The sink may notice the end of the first connection late.
	if s.Connections() != 3 || s.MaxConcurrent() != 2 && s.MaxConcurrent() != 3 {
		t.Errorf("Connections() = %d, MaxConcurrent() = %d; want 3 and 2", s.Connections(), s.MaxConcurrent())
	}
	second.talk(letter...)
	s.Reset()
	if len(s.Messages()) != 0 || s.Connections() > 3 || s.Connections() != s.MaxConcurrent() {
		t.Errorf("after Reset: %d messages, %d connections, at most %d; want none and those that are open",
			len(s.Messages()), s.Connections(), s.MaxConcurrent())
	}
}

func TestWait(t *testing.T) {
	s := start(t, smtpsink.Options{})
	done := make(chan error)
	go func() { done <- s.Wait(t.Context(), 2) }()
	c := dial(t, s)
	c.talk(hello...)
	for range 2 {
		c.talk(letter...)
	}
	if err := <-done; err != nil {
		t.Errorf("Wait for the 2 messages that came: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := s.Wait(ctx, 3); err == nil || !strings.Contains(err.Error(), "have 2") {
		t.Errorf("Wait for a third = %v; want an error that says there are 2", err)
	}
	go func() { done <- s.Wait(t.Context(), 3) }()
	s.Close()
	if err := <-done; err == nil {
		t.Error("Wait on a closed sink returns nil")
	}
}

func TestMany(t *testing.T) {
	const messages, big = 20000, 25 << 20
	s := start(t, smtpsink.Options{})
	c := dial(t, s)
	c.talk(hello...)
	go func() {
		one := "MAIL FROM:<>\r\nRCPT TO:<a@x>\r\nDATA\r\nSubject: x\r\n\r\nx\r\n.\r\n"
		for range messages {
			c.send(one)
		}
		c.send("MAIL FROM:<>\r\nRCPT TO:<a@x>\r\nDATA\r\n")
		_, _ = c.conn.Write(bytes.Repeat([]byte("0123456789abcdef0123456789abcd\r\n"), big/32))
		c.send(".\r\nQUIT\r\n")
	}()
	_, _ = io.Copy(io.Discard, c.r)
	got := s.Messages()
	if len(got) != messages+1 || got[messages].Size != big {
		t.Errorf("%d messages; want %d and a last one of %d octets", len(got), messages+1, big)
	}
}
