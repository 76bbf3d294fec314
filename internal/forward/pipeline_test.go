package forward

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// inGroup answers a group of MAIL, two RCPTs and DATA with these replies, separated by "|", and
// takes everything else.
func inGroup(replies string) func([]string) []string {
	return func(commands []string) []string {
		switch {
		case len(commands) < 4:
			return nil
		case replies == "":
			return []string{}
		}
		return strings.Split(replies, "|")
	}
}

const (
	group4  = "MAIL RCPT RCPT DATA"
	premade = "503 5.5.0 Improper use of SMTP command pipelining"
	both    = "a accepted 250 2.0.0, b accepted 250 2.0.0"
	noUser  = "550 5.1.1 no such user"
)

// TestGroup: what comes of a group with two recipients at a relay that handles it, on one
// connection. The next message goes well on the same one.
func TestGroup(t *testing.T) {
	for _, tt := range []struct {
		name, replies string
		want, fault   string
		heard         []string
	}{
		{
			"taken", "250 ok|250 ok|250 ok|354 go on",
			both, "",
			[]string{group4, "."},
		},
		{
			"one refused", "250 ok|" + noUser + "|250 ok|354 go on",
			"a refused 550 5.1.1, b accepted 250 2.0.0", "",
			[]string{group4, "."},
		},
		{
			"all refused, and DATA", "250 ok|" + noUser + "|450 4.2.0 later|554 5.5.1 nobody",
			"a refused 550 5.1.1, b deferred 450 4.2.0", "",
			[]string{group4, "RSET"},
		},
		{
			"all refused, DATA out of sequence", "250 ok|" + noUser + "|" + noUser + "|503 5.5.1 RCPT first",
			"a refused 550 5.1.1, b refused 550 5.1.1", "",
			[]string{group4, "RSET"},
		},
		{
			"all refused, and 354", "250 ok|" + noUser + "|" + noUser + "|354 go on",
			"a refused 550 5.1.1, b refused 550 5.1.1", "",
			[]string{group4, ".", "RSET"},
		},
		{
			"too many after the first", "250 ok|250 ok|452 4.5.3 too many|354 go on",
			both, "",
			[]string{group4, ".", "MAIL RCPT DATA", "."},
		},
		{
			"too many at once", "250 ok|452 4.5.3 too many|250 ok|354 go on",
			"a deferred 452 4.5.3, b accepted 250 2.0.0", "",
			[]string{group4, "."},
		},
		{
			"too many, then 421", "250 ok|250 ok|452 4.5.3 too many|421 4.3.2 bye|" + closes,
			"a deferred 421 4.3.2", "DATA 421 temporary",
			[]string{group4},
		},
		{
			"MAIL deferred", "451 4.3.0 later|503 5.5.1 MAIL first|503 5.5.1 MAIL first|503 5.5.1 MAIL first",
			"a deferred 451 4.3.0, b deferred 451 4.3.0", "",
			[]string{group4, "RSET"},
		},
		{
			"MAIL refused", "552 5.3.4 large|503 5.5.1 MAIL first|503 5.5.1 MAIL first|554 5.5.1 no",
			"a refused 552 5.3.4, b refused 552 5.3.4", "",
			[]string{group4, "RSET"},
		},
		{
			"MAIL refused, and 354", "552 5.3.4 large|503 5.5.1 MAIL first|503 5.5.1 MAIL first|354 go on",
			"a refused 552 5.3.4, b refused 552 5.3.4", "",
			[]string{group4, ".", "RSET"},
		},
		{
			"DATA deferred", "250 ok|250 ok|250 ok|451 4.3.0 later",
			"a deferred 451 4.3.0, b deferred 451 4.3.0", "",
			[]string{group4, "RSET"},
		},
		{
			"DATA refused", "250 ok|" + noUser + "|250 ok|554 5.7.1 no",
			"a refused 550 5.1.1, b refused 554 5.7.1", "",
			[]string{group4, "RSET"},
		},
		{
			"421 to MAIL", "421 4.3.2 bye|" + closes,
			"", "MAIL 421 temporary",
			[]string{group4},
		},
		{
			"421 to RCPT", "250 ok|250 ok|421 4.3.2 bye|" + closes,
			"a deferred 421 4.3.2, b deferred 421 4.3.2", "RCPT 421 temporary",
			[]string{group4},
		},
		{
			"421 to DATA", "250 ok|" + noUser + "|250 ok|421 4.3.2 bye|" + closes,
			"a refused 550 5.1.1, b deferred 421 4.3.2", "DATA 421 temporary",
			[]string{group4},
		},
		{
			"421 to DATA when all are refused", "250 ok|" + noUser + "|" + noUser + "|421 4.3.2 bye|" + closes,
			"a refused 550 5.1.1, b refused 550 5.1.1", "",
			[]string{group4},
		},
		{
			"login needed", "530 5.7.0 log in|530 5.7.0 log in|530 5.7.0 log in|503 5.5.1 no",
			"", "MAIL 530 permanent",
			[]string{group4, "RSET"},
		},
	} {
		for name, write := range map[string]func(net.Conn, string){
			"reply by reply": writeWhole,
			"octet by octet": writeOctets,
			"in one piece":   nil,
		} {
			t.Run(tt.name+", "+name, func(t *testing.T) {
				first := true
				answer := inGroup(tt.replies)
				p := newPuppet(t, func(commands []string) []string {
					if !first || len(commands) < 4 {
						return nil
					}
					first = false
					replies := answer(commands)
					if name == "in one piece" {
						return merged(replies)
					}
					return replies
				})
				if write != nil {
					p.write = write
				}
				var log strings.Builder
				r := p.relay(t, &log)
				res, err := send(t, r, content(t, plain), "a@x.example", "b@x.example")
				if got := brief(res); got != tt.want || briefError(err) != tt.fault {
					t.Errorf("Send = %q, %v, want %q, %q", got, err, tt.want, tt.fault)
				}
				if got := p.heard(); !slices.Equal(got, tt.heard) {
					t.Errorf("the relay heard %q, want %q", got, tt.heard)
				}
				if want := strings.Count(tt.want, "accepted"); (len(p.messages()) > 0) != (want > 0) {
					t.Errorf("%d messages arrived, want as many recipients as have them: %d", len(p.messages()), want)
				}
				mustSend(t, r)
				want := 1
				if tt.fault != "" || strings.Contains(tt.replies, closes) {
					want = 2 // as without a group
				}
				if p.connections() != want || log.Len() > 0 {
					t.Errorf("%d connections, want %d, and the log is %q, want nothing",
						p.connections(), want, log.String())
				}
			})
		}
	}
}

func writeOctets(c net.Conn, s string) {
	for i := range len(s) {
		_, _ = c.Write([]byte{s[i]})
	}
}

// merged makes one reply of all, but for the one that closes the connection.
func merged(replies []string) []string {
	if last := len(replies) - 1; replies[last] == closes {
		return []string{strings.Join(replies[:last], "\r\n"), closes}
	}
	return []string{strings.Join(replies, "\r\n")}
}

// TestMishandled: a relay that offers PIPELINING and cannot cope with it gets each message once, on
// a new connection, one command at a time. That is logged once, and remembered.
func TestMishandled(t *testing.T) {
	for name, replies := range map[string]string{
		"closes":                         closes,
		"closes after MAIL":              "250 ok|" + closes,
		"closes before 354":              "250 ok|250 ok|250 ok|" + closes,
		"reads MAIL alone":               "250 ok",
		"reads nothing":                  "",
		"one reply too few":              "250 ok|250 ok|354 go on",
		"one reply too many":             "250 ok|250 ok|250 ok|250 ok|354 go on",
		"a refusal twice":                "250 ok|" + noUser + "|" + noUser + "|250 ok|354 go on",
		"a reply after 354":              "250 ok|250 ok|250 ok|354 go on\r\n250 ok",
		"commands came too early":        strings.Join([]string{"250 ok", premade, premade, premade}, "|"),
		"DATA came too early":            "250 ok|250 ok|250 ok|" + premade,
		"RCPT came too early":            "250 ok|250 ok|" + premade + "|354 go on",
		"MAIL came too early":            "503 5.5.1 not yet|503 5.5.1 no|503 5.5.1 no|503 5.5.1 no",
		"no synchronization":             "554 SMTP synchronization error|" + closes,
		"not supported":                  "500 5.5.1 Invalid command: Pipelining not supported|" + closes,
		"RCPT taken after MAIL is not":   "550 5.7.1 no|250 ok|250 ok|354 go on",
		"DATA answered like RCPT":        "250 ok|250 ok|250 ok|250 ok",
		"RCPT answered like DATA":        "250 ok|354 go on|250 ok|250 ok",
		"MAIL answered like DATA":        "354 go on|250 ok|250 ok|250 ok",
		"nobody taken, DATA like RCPT":   "250 ok|" + noUser + "|" + noUser + "|250 ok",
		"nobody taken, a reply too many": "250 ok|" + noUser + "|" + noUser + "|554 5.5.1 nobody|354 go on",
		"nobody taken, then closes":      "250 ok|" + noUser + "|" + noUser + "|" + closes,
	} {
		t.Run(name, func(t *testing.T) {
			p := newPuppet(t, inGroup(replies))
			var log strings.Builder
			if strings.HasPrefix(name, "reads") {
				synctest.Test(t, func(t *testing.T) { // the relay falls silent on the first connection
					r := p.relay(t, &log)
					pool(t, r, p.pipe())
					start := time.Now()
					sendAlone(t, p, r)
					if took, want := time.Since(start), r.cfg.Timeouts.Command; took != want {
						t.Errorf("the relay was given up after %v, want %v", took, want)
					}
				})
			} else {
				sendAlone(t, p, p.relay(t, &log))
			}
			wantDistrust(t, log.String())
		})
	}
}

// wantDistrust checks that the log has one line, for -v, with the setting and the reason.
func wantDistrust(t *testing.T, log string) {
	t.Helper()
	if strings.Count(log, "\n") != 1 || !strings.Contains(log, "level=INFO") ||
		!strings.Contains(log, "smtp.pipelining") || !strings.Contains(log, "reason=") {
		t.Errorf("the log is %q, want one line with the setting and the reason", log)
	}
}

// sendAlone sends three messages to a relay that mishandles a group. All go out one command at a
// time, on the second connection.
func sendAlone(t *testing.T, p *puppet, r *Relay) {
	t.Helper()
	for range 2 {
		res, err := send(t, r, content(t, plain), "a@x.example", "b@x.example")
		if got := brief(res); got != both || err != nil {
			t.Errorf("Send = %q, %v, want %q", got, err, both)
		}
	}
	mustSend(t, r)
	heard := p.heard()
	at := slices.Index(heard, "MAIL")
	alone := []string{
		"MAIL", "RCPT", "RCPT", "DATA", ".",
		"MAIL", "RCPT", "RCPT", "DATA", ".",
		"MAIL", "RCPT", "DATA", ".",
	}
	if at < 1 || heard[0] != group4 || !slices.Equal(heard[at:], alone) {
		t.Errorf("the relay heard %q, want the group, and then one command at a time", heard)
	}
	if len(p.messages()) != 3 || p.connections() != 2 {
		t.Errorf("%d messages over %d connections, want 3 over 2", len(p.messages()), p.connections())
	}
}

// TestNoPipelining: the operator turned it off.
func TestNoPipelining(t *testing.T) {
	p := newPuppet(t, nil)
	r := p.relay(t, &strings.Builder{}, func(c *Config) { c.NoPipelining = true })
	mustSend(t, r)
	if got, want := p.heard(), []string{"MAIL", "RCPT", "DATA", "."}; !slices.Equal(got, want) {
		t.Errorf("the relay heard %q, want %q", got, want)
	}
}

// TestNullSenderInAGroup: the null reverse-path is refused with all that came with it, and the
// group goes out again with the configured sender.
func TestNullSenderInAGroup(t *testing.T) {
	for _, data := range []string{"503 5.5.1 MAIL first", "554 5.5.1 no", "354 go on"} {
		t.Run(data, func(t *testing.T) {
			n := 0
			p := newPuppet(t, func(commands []string) []string {
				if n++; len(commands) < 4 || n > 2 { // the first is EHLO
					return nil
				}
				return []string{"550 5.7.1 null sender", "503 5.5.1 MAIL first", "503 5.5.1 MAIL first", data}
			})
			r := p.relay(t, &strings.Builder{})
			res, err := deliver(t.Context(), r, Envelope{To: []string{"a@x.example", "b@x.example"}}, content(t, plain))
			if got := brief(res); got != both || err != nil || len(p.messages()) != 1 {
				t.Errorf("Send = %q, %v, %d messages, want both accepted, and one", got, err, len(p.messages()))
			}
			want := []string{group4, "RSET", group4, "."}
			if data == "354 go on" {
				want = slices.Insert(want, 1, ".")
			}
			if got := p.heard(); !slices.Equal(got, want) || p.connections() != 1 {
				t.Errorf("the relay heard %q over %d connections, want %q over one", got, p.connections(), want)
			}
		})
	}
}

// TestResetAfter354: the only way back is the end of the connection. What the relay has is no
// message.
func TestResetAfter354(t *testing.T) {
	p := newPuppet(t, nil)
	r := p.relay(t, &strings.Builder{})
	tx := begin(t, r, "a@x.example", "b@x.example")
	tx.Reset()
	wantOver(t, r, tx)
	mustSend(t, r)
	got, want := p.heard(), []string{group4, "MAIL RCPT DATA", "."}
	if !slices.Equal(got, want) || p.connections() != 2 {
		t.Errorf("the relay heard %q over %d connections, want %q over two", got, p.connections(), want)
	}
}

// TestLongGroup: a hundred recipients, and replies with the longest lines, at a relay with small
// buffers that reads no further before it has sent a reply. Neither waits for the other.
func TestLongGroup(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	over := make(chan struct{})
	go func() {
		defer close(over)
		c, err := l.Accept()
		if err != nil {
			return
		}
		defer func() { _ = c.Close() }()
		_ = errors.Join(c.(*net.TCPConn).SetReadBuffer(1), c.(*net.TCPConn).SetWriteBuffer(1))
		_, err = io.WriteString(c, "220 slow\r\n")
		for lines := bufio.NewReaderSize(c, 16); err == nil; {
			var line string
			line, err = lines.ReadString('\n')
			verb, _, _ := strings.Cut(strings.TrimSpace(line), " ")
			if code, text, _ := strings.Cut(takes[verb], " "); verb == "EHLO" {
				_, err = io.WriteString(c, takes[verb]+"\r\n")
			} else if code != "" {
				_, err = fmt.Fprintf(c, "%s %-506s\r\n", code, text)
			}
		}
	}()
	t.Cleanup(func() {
		_ = l.Close()
		<-over
	})
	var to []string
	for i := range maxRecipients {
		to = append(to, fmt.Sprintf("%060d@%s.example", i, strings.Repeat("x.", 90)+"x"))
	}
	var log strings.Builder
	r := relayOn(t, l.Addr().(*net.TCPAddr).Port, logsTo(&log))
	res, err := send(t, r, content(t, plain), to...)
	if n := strings.Count(brief(res), "accepted"); n != maxRecipients || err != nil || log.Len() > 0 {
		t.Errorf("%d accepted, %v, logged %q, want %d and nothing logged", n, err, log.String(), maxRecipients)
	}
}
