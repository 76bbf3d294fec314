// Package transcript logs what a client and its server say to each other, for an operator who looks
// for a fault (-vvv).
//
// A log is read by more people than the mail is, so there are neither secrets nor mail in it. Of
// the client's lines, only commands on a list are shown. A login is hidden from its first argument
// to the server's final answer, of which only the codes are shown. Content is shown by its size:
// literals of IMAP, quoted strings in a FETCH, and what follows DATA. Each line is printable and
// cut to 300 characters, and a password that a server repeats is taken out (Hide).
//
// It keeps a few kilobytes for each direction, whatever the other side sends. It is a package of
// its own because imapsrc and forward both need it and do not know each other.
package transcript

import (
	"context"
	"encoding/base64"
	"fmt"
	"log/slog"
	"net"
	"net/textproto"
	"strings"
	"sync"

	"postrider/internal/text"
)

// Level is the level of the log's lines, below debug.
const Level = slog.LevelDebug - 4

// IMAP logs the lines on a connection that is not encrypted any more. Without the level it is conn
// itself.
func IMAP(conn net.Conn, log *slog.Logger, hide func(string) string) net.Conn {
	if !log.Enabled(context.Background(), Level) {
		return conn
	}
	return &wire{Conn: conn, dialogue: &dialogue{log: log, name: "imap", hide: hide, protocol: &imap{}}}
}

// SMTP logs the lines on a connection, from the next one on. Without the level it is conn itself.
func SMTP(conn *textproto.Conn, log *slog.Logger, hide func(string) string) *textproto.Conn {
	if !log.Enabled(context.Background(), Level) {
		return conn
	}
	d := &dialogue{log: log, name: "smtp", hide: hide, protocol: &smtp{}}
	return textproto.NewConn(&over{conn: conn, dialogue: d})
}

// Hide returns a function that takes a password out of a text, in each form in which it is sent.
func Hide(username, password string) func(string) string {
	if password == "" {
		return func(s string) string { return s }
	}
	encode := base64.StdEncoding.EncodeToString
	quoted := strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(password)
	return strings.NewReplacer(
		encode([]byte("\x00"+username+"\x00"+password)), "***",
		encode([]byte(password)), "***",
		quoted, "***",
		password, "***",
	).Replace
}

// HideTexts returns a function that takes texts out of a text, as they are and as base64.
func HideTexts(secrets ...string) func(string) string {
	var pairs []string
	for _, s := range secrets {
		if s != "" {
			pairs = append(pairs, base64.StdEncoding.EncodeToString([]byte(s)), "***", s, "***")
		}
	}
	return strings.NewReplacer(pairs...).Replace
}

// wire is a connection whose lines are logged.
type wire struct {
	net.Conn
	dialogue *dialogue
}

func (w *wire) Read(p []byte) (int, error) {
	n, err := w.Conn.Read(p)
	w.dialogue.hear(fromServer, p[:n])
	return n, err
}

// Write logs first: the answer may be read before it returns.
func (w *wire) Write(p []byte) (int, error) {
	w.dialogue.hear(fromClient, p)
	return w.Conn.Write(p)
}

// over is the same above the buffers of a textproto.Conn: the SMTP library needs to see the
// connection below them.
type over struct {
	conn     *textproto.Conn
	dialogue *dialogue
}

func (o *over) Read(p []byte) (int, error) {
	n, err := o.conn.R.Read(p)
	o.dialogue.hear(fromServer, p[:n])
	return n, err
}

func (o *over) Write(p []byte) (int, error) {
	o.dialogue.hear(fromClient, p)
	n, err := o.conn.W.Write(p)
	if err == nil {
		err = o.conn.W.Flush()
	}
	return n, err
}

func (o *over) Close() error { return o.conn.Close() }

// side says who speaks.
type side int

const (
	fromClient side = iota
	fromServer
)

// protocol knows what may be shown of a line. It is asked for each line of both sides, in their
// order.
type protocol interface {
	// show returns what to log, nothing for no line. skip is how many octets of content follow the
	// line from the same side.
	show(from side, l line) (shown string, skip int64)
}

// dialogue is what is said on one connection.
type dialogue struct {
	log      *slog.Logger
	name     string
	hide     func(string) string
	protocol protocol

	mu    sync.Mutex
	lines [2]line  // that are not complete yet, by side
	skip  [2]int64 // octets of content that are still to come
}

// line is a line of which much is not kept when it is long.
type line struct {
	head   []byte // its beginning
	tail   []byte // its last octets
	octets int64  // without the line end
	after  bool   // it goes on after content
}

const (
	maxHead  = 4 << 10
	maxTail  = 32
	maxShown = 300 // characters
)

func (l *line) add(c byte) {
	l.octets++
	if len(l.head) < maxHead {
		l.head = append(l.head, c)
	}
	if len(l.tail) == maxTail {
		l.tail = append(l.tail[:0], l.tail[1:]...)
	}
	l.tail = append(l.tail, c)
}

// hidden stands for a line that is not shown.
func (l *line) hidden() string { return fmt.Sprintf("*** (%s)", text.Count(int(l.octets), "octet")) }

func (d *dialogue) hear(from side, p []byte) {
	d.mu.Lock()
	defer d.mu.Unlock()
	l := &d.lines[from]
	for len(p) > 0 {
		if n := min(d.skip[from], int64(len(p))); n > 0 {
			d.skip[from] -= n
			p = p[n:]
			continue
		}
		c := p[0]
		p = p[1:]
		if c != '\n' {
			l.add(c)
			continue
		}
		d.end(from, l)
	}
}

// end logs a complete line.
func (d *dialogue) end(from side, l *line) {
	if n := len(l.tail); n > 0 && l.tail[n-1] == '\r' {
		l.tail, l.octets = l.tail[:n-1], l.octets-1
		l.head = l.head[:min(int64(len(l.head)), l.octets)]
	}
	shown, skip := d.protocol.show(from, *l)
	d.skip[from] = skip
	*l = line{head: l.head[:0], tail: l.tail[:0], after: skip > 0}
	if shown != "" {
		who := [2]string{" C: ", " S: "}[from]
		d.log.Log(context.Background(), Level, d.name+who+text.Cut(text.Line(d.hide(shown)), maxShown))
	}
}
