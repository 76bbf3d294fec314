package imapsrc_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"runtime"
	"runtime/debug"
	"strings"
	"sync"
	"testing"
	"time"

	"postrider/internal/imapsrc"
	"postrider/internal/message"
)

// Bounds on one input of FuzzWire. The input has at most 64 KiB.
const (
	fuzzTime  = 5 * time.Second
	fuzzHeap  = 64 << 20
	fuzzStack = 1 << 20 // the library's stack; more ends the process
)

// FuzzWire runs a session against a server that sends octets whatever it is asked: what stands
// before the first NUL as the greeting, and the next part after each line of the client. It checks
// that the session ends in time and in bounded memory, that every error is one line, and that a
// message is passed on once, and only if it was asked for.
func FuzzWire(f *testing.F) {
	const greet, in = "* OK [CAPABILITY IMAP4rev1 ID] hi\r\n", "T1 OK [CAPABILITY IMAP4rev1 ID] in\r\n"
	const id = "* ID (\"name\" \"x\")\r\nT2 OK done\r\n"
	const examined = "* 3 EXISTS\r\n* FLAGS (\\Seen)\r\n* OK [UIDVALIDITY 7] v\r\n* OK [UIDNEXT 10] n\r\n" +
		"T3 OK [READ-ONLY] done\r\n"
	const listed = "* LIST (\\HasNoChildren) \"/\" INBOX\r\n* LIST () NIL {3}\r\na-b\r\nT4 OK done\r\n"
	const found, extended = "* SEARCH 1 2 3\r\nT5 OK done\r\n", "* ESEARCH (TAG \"T5\") UID ALL 1:3\r\nT5 OK\r\n"
	const described = "* 1 FETCH (UID 1 RFC822.SIZE 9 INTERNALDATE \" 2-Jan-2024 03:04:05 +0100\")\r\n" +
		"* 2 FETCH (UID 2 INTERNALDATE NIL RFC822.SIZE 9)\r\n" +
		"* 3 FETCH (FLAGS (\\Seen) UID 3 RFC822.SIZE 9)\r\nT6 OK done\r\n"
	const came = "* 1 FETCH (UID 1 RFC822.SIZE 9 BODY[] {9}\r\nA: b\r\n\r\nc)\r\n" +
		"* 2 FETCH (BODY[] \"A: b\" UID 2)\r\n* 3 FETCH (UID 3 BODY[] NIL)\r\nT7 OK done\r\n"
	for _, parts := range [][]string{
		{""},
		{greet, in, id, examined, listed, found, described, came},
		{greet, in, id, examined, listed, extended, described, came},
		{greet, in, id, examined, listed, found, described, "T7 NO [LIMIT] x\r\n", "T8 OK\r\n", "T9 BAD x\r\n"},
		{greet, in, id, "* 1 FETCH (BODYSTRUCTURE " + strings.Repeat("(", 5000)},
		{greet, in, id, examined, listed, "* THREAD " + strings.Repeat("(1 ", 5000)},
		{greet, in, id, examined, listed, found, described, "* 1 FETCH (UID 1 BODY[] {99999999999}\r\naaa"},
		{
			greet, in, id, examined, listed, found,
			"* 1 FETCH (ENVELOPE (NIL NIL ((NIL NIL \"a\" \"b\")) NIL NIL NIL NIL NIL NIL NIL) UID 1)\r\nT6 OK\r\n",
		},
		{
			greet, in, id, examined, "* STATUS INBOX (UIDNEXT 5)\r\n* NAMESPACE ((\"\" \"/\")) NIL NIL\r\n" +
				"* METADATA \"\" (/a \"x\")\r\n* QUOTA \"\" (STORAGE 1 2)\r\n* ACL INBOX a lrs\r\n" +
				"* MYRIGHTS INBOX l\r\n* BYE x\r\n",
		},
		{"* OK [CAPABILITY IMAP4rev1 AUTH=PLAIN] hi\r\n", "+ \r\n", "+ x\r\n", "T1 NO no\r\n"},
		{"* OK hi\r\n", "* CAPABILITY IMAP4rev1\r\nT1 OK\r\n", "T2 OK\r\n", "T3 OK\r\n"},
		{"* PREAUTH hi\r\n"},
		{"* BYE no\r\n"},
		{"+ \r\n"},
		{"220 smtp\r\n"},
		{"HTTP/1.1 400 Bad\r\n\r\n"},
	} {
		f.Add([]byte(strings.Join(parts, "\x00")))
	}
	debug.SetMaxStack(fuzzStack)
	f.Fuzz(func(t *testing.T, says []byte) {
		says = says[:min(len(says), 64<<10)]
		ctx, cancel := context.WithTimeout(t.Context(), fuzzTime)
		defer cancel()
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		for _, err := range fuzzSession(ctx, t, says) {
			var e *imapsrc.Error
			if !errors.As(err, &e) || strings.ContainsAny(err.Error(), "\r\n\x00\x1b") {
				t.Errorf("the error is %q, want an *Error of one line", err)
			}
		}
		if ctx.Err() != nil {
			t.Errorf("the session took longer than %v", fuzzTime)
		}
		runtime.ReadMemStats(&after)
		if n := after.TotalAlloc - before.TotalAlloc; n > fuzzHeap {
			t.Errorf("the session allocated %d octets, want at most %d", n, fuzzHeap)
		}
	})
}

// fuzzSession is a session as a pass has it. It returns the errors.
func fuzzSession(ctx context.Context, t *testing.T, says []byte) (errs []error) {
	c, err := imapsrc.DialOver(ctx, newParrot(says), imapsrc.Config{
		Host: "imap.example", Port: 143, Security: imapsrc.SecurityNone, AllowPlaintext: true,
		Username: "ann", Password: "sesame", ClientName: "postrider", MaxSize: 10_000, IdleTimeout: 2 * time.Minute,
		Spooler: &message.Spooler{Limit: 1 << 20, Budget: 4 << 20, Dir: "/nowhere/at/all"},
		Logger:  slog.New(slog.DiscardHandler),
	})
	if err != nil {
		return []error{err}
	}
	defer func() { _ = c.Close() }()
	note := func(err error) {
		if err != nil {
			errs = append(errs, err)
		}
	}
	_, err = c.Select(ctx, "INBOX")
	note(err)
	_, err = c.Folders(ctx)
	note(err)
	_, err = c.Since(ctx, 1, 9, time.Unix(0, 0))
	note(err)
	uids := []uint32{1, 2, 3}
	_, err = c.Metadata(ctx, uids)
	note(err)
	came := map[uint32]bool{}
	_, err = c.Bodies(ctx, uids, func(uid uint32, m *message.Message) error {
		if came[uid] || uid < 1 || uid > 3 {
			t.Errorf("message %d is passed on, again or without having been asked for", uid)
		}
		came[uid] = true
		if n := m.Body.Size(); n > 20_000 { // line ends may have grown
			t.Errorf("message %d has %d octets, want at most MaxSize", uid, n)
		}
		return m.Close()
	})
	note(err)
	return errs
}

// parrot is a connection to a server that sends the next part of a text after each line that it
// receives, and hangs up at the end, or when no line comes.
type parrot struct {
	net.Conn
	mu     sync.Mutex
	heard  *sync.Cond
	parts  [][]byte
	lines  int // received
	sent   int // parts that were sent
	closed bool
}

func newParrot(says []byte) *parrot {
	p := &parrot{parts: bytes.Split(says, []byte{0})}
	p.heard = sync.NewCond(&p.mu)
	return p
}

func (p *parrot) Read(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for !p.closed && p.sent < len(p.parts) && (p.sent > p.lines || len(p.parts[p.sent]) == 0) {
		if len(p.parts[p.sent]) == 0 {
			p.sent++
			continue
		}
		p.wait()
	}
	switch {
	case p.closed:
		return 0, net.ErrClosed
	case p.sent == len(p.parts):
		return 0, io.EOF
	}
	n := copy(b, p.parts[p.sent])
	p.parts[p.sent] = p.parts[p.sent][n:]
	return n, nil
}

// wait waits for a line, and hangs up when none comes: the client waits for an answer then.
func (p *parrot) wait() {
	lines := p.lines
	timer := time.AfterFunc(5*time.Millisecond, func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		if p.lines == lines {
			p.sent = len(p.parts)
			p.heard.Broadcast()
		}
	})
	defer timer.Stop()
	p.heard.Wait()
}

func (p *parrot) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return 0, net.ErrClosed
	}
	p.lines += bytes.Count(b, []byte("\n"))
	p.heard.Broadcast()
	return len(b), nil
}

func (p *parrot) Close() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	p.heard.Broadcast()
	return nil
}

func (p *parrot) SetReadDeadline(time.Time) error  { return nil }
func (p *parrot) SetWriteDeadline(time.Time) error { return nil }
