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

// wire is the connection as the library sees it, above TLS. It does what the library leaves out: a deadline for each read
// and write while a command is running, an end that is never mistaken for the end of the data, a limit to what
// may arrive unasked, and an ear for the untagged responses that the library drops.
type wire struct {
	net.Conn
	idle time.Duration

	mu     sync.Mutex
	first  string // read before anything from the connection
	busy   bool   // a command is running: silence is a failure
	left   int64  // octets that may still come
	err    error  // why reading or writing failed, the first time
	deaf   bool   // message data is passing
	line   []byte // the beginning of the current line
	bye    *imap.Error
	sticky bool // UIDs are (RFC 3501 2.3.1.1)
}

// maxHeard is how much of a line is listened to.
const maxHeard = 512

func (w *wire) begin(limit int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.left, w.sticky = limit, true
	w.setBusy(true)
}

func (w *wire) end() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.deaf = false
	w.setBusy(false)
}

// pause and resume stop the clock while the caller works on what has come.
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

// setBusy also moves the deadline of a read that is already waiting: between commands there always is one.
func (w *wire) setBusy(busy bool) {
	w.busy = busy
	var deadline time.Time
	if busy {
		deadline = time.Now().Add(w.idle)
	}
	_ = w.Conn.SetReadDeadline(deadline)
}

// allow sets what may still come, because something was taken.
func (w *wire) allow(limit int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.left = limit
}

func (w *wire) ignoreData() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.deaf = true
}

func (w *wire) Read(p []byte) (int, error) {
	w.mu.Lock()
	if w.first != "" {
		n := copy(p, w.first)
		w.first = w.first[n:]
		w.mu.Unlock()
		return n, nil
	}
	if w.err != nil { // the library tries once more after a timeout
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
	if !w.deaf {
		w.hear(p[:n])
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

// fail keeps the first error. EOF becomes an error of its own: inside a literal the library would take it for the end of
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

// why is what ended the connection, and the server's goodbye, if any.
func (w *wire) why() (*imap.Error, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.bye, w.err
}

// kill closes the connection at once. Whoever reads or writes gets an error.
func (w *wire) kill() { _ = w.Close() }

// The library's own deadlines would cut off a slow literal and never end a silent wait.

func (w *wire) SetDeadline(time.Time) error      { return nil }
func (w *wire) SetReadDeadline(time.Time) error  { return nil }
func (w *wire) SetWriteDeadline(time.Time) error { return nil }

// hear listens to whole lines: BYE says why the connection will end (RFC 3501 7.1.5), UIDNOTSTICKY that UIDs do not
// last (RFC 4315 4).
func (w *wire) hear(p []byte) {
	for _, c := range p {
		if c != '\n' {
			if len(w.line) < maxHeard {
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
