package imapsrc

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"time"

	"github.com/emersion/go-imap/v2"
)

var errTooMuch = errors.New("the server sends without end")

// wire is the connection that the library gets, above TLS. It adds what the library lacks: a
// deadline for each read and write while a command is running, a lost connection that never looks
// like the end of the data, a limit on what the server may send, and a look at untagged status
// responses that the library drops.
type wire struct {
	net.Conn
	idle time.Duration

	mu     sync.Mutex
	first  string // what Read returns before anything from the connection
	busy   bool   // a command is running: silence is an error
	left   int64  // octets that the server may still send
	err    error  // the first error of reading or writing
	inData bool   // message data may come: its lines are not status responses
	line   []byte // the beginning of the current line
	bye    *imap.Error
	sticky bool // UIDs are persistent (RFC 4315 4)
}

// maxStatusLine is how much of a line is parsed, in octets.
const maxStatusLine = 512

func (w *wire) begin(limit int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.left, w.sticky = limit, true
	w.setBusy(true)
}

func (w *wire) end() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.inData = false
	w.setBusy(false)
}

// pause and resume suspend the read deadline while the caller works.
func (w *wire) pause() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.setBusy(false)
}

func (w *wire) resume(limit int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.left = limit
	w.setBusy(true)
}

// setBusy also moves the deadline of a read that is already waiting. Between commands the library
// always has one.
func (w *wire) setBusy(busy bool) {
	w.busy = busy
	var deadline time.Time
	if busy {
		deadline = time.Now().Add(w.idle)
	}
	_ = w.Conn.SetReadDeadline(deadline)
}

// allow sets how much the server may still send, because the caller consumed something.
func (w *wire) allow(limit int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.left = limit
}

// ignoreLines stops the search for status responses until the command ends.
func (w *wire) ignoreLines() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.inData = true
}

func (w *wire) Read(p []byte) (int, error) {
	w.mu.Lock()
	if w.first != "" {
		n := copy(p, w.first)
		w.first = w.first[n:]
		w.mu.Unlock()
		return n, nil
	}
	if w.err != nil { // the library reads again after a timeout
		defer w.mu.Unlock()
		return 0, w.err
	}
	w.setBusy(w.busy)
	w.mu.Unlock()

	n, err := w.Conn.Read(p)

	w.mu.Lock()
	defer w.mu.Unlock()
	if w.left -= int64(n); w.left < 0 && err == nil {
		err = errTooMuch
	}
	if !w.inData {
		w.findStatus(p[:n])
	}
	return n, w.fail(err)
}

func (w *wire) Write(p []byte) (int, error) {
	_ = w.Conn.SetWriteDeadline(time.Now().Add(w.idle))
	n, err := w.Conn.Write(p)
	w.mu.Lock()
	defer w.mu.Unlock()
	return n, w.fail(err)
}

// fail keeps the first error. It replaces io.EOF, which inside a literal would look like the end of
// the message.
func (w *wire) fail(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, io.EOF):
		err = fmt.Errorf("the server closed the connection: %w", io.ErrUnexpectedEOF)
	case errors.Is(err, os.ErrDeadlineExceeded):
		err = fmt.Errorf("the server was silent for %v: %w", w.idle, os.ErrDeadlineExceeded)
	}
	if w.err == nil {
		w.err = err
	}
	return err
}

// failure returns the server's BYE, if any, and the error that ended the connection.
func (w *wire) failure() (*imap.Error, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.bye, w.err
}

// kill closes the connection at once. Pending reads and writes fail.
func (w *wire) kill() { _ = w.Close() }

// The library's own deadlines are ignored: they would abort a slow literal, but not a silent wait.

func (w *wire) SetDeadline(time.Time) error      { return nil }
func (w *wire) SetReadDeadline(time.Time) error  { return nil }
func (w *wire) SetWriteDeadline(time.Time) error { return nil }

// findStatus looks for BYE, which says why the server will close the connection (RFC 3501 7.1.5),
// and for UIDNOTSTICKY, which says that UIDs are not persistent (RFC 4315 4).
func (w *wire) findStatus(p []byte) {
	for _, c := range p {
		if c != '\n' {
			if len(w.line) < maxStatusLine {
				w.line = append(w.line, c)
			}
			continue
		}
		if status := parseStatus(string(w.line)); status != nil {
			if status.Type == imap.StatusResponseTypeBye {
				w.bye = status
			}
			if status.Code == "UIDNOTSTICKY" {
				w.sticky = false
			}
		}
		w.line = w.line[:0]
	}
}

func (w *wire) uidsStick() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.sticky
}
