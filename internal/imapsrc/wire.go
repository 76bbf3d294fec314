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

// wire is the connection that the library gets, above TLS. It adds what the library lacks: limits
// on what a server may send and on how long it may take, a lost connection that never looks like
// the end of the data, and a look at untagged status responses that the library drops.
//
// Only one reader reads at a time. A read ends at the beginning and at the end of a literal, so
// that the caller can first say that it reads the literal, see open.
type wire struct {
	net.Conn
	idle time.Duration

	raw    []byte // received, and not yet admitted
	buffer []byte // of raw; nil while the connection rests
	small  []byte // of raw, while the connection rests
	out    []byte // admitted, and not yet read

	mu      sync.Mutex
	drained *sync.Cond // a FETCH response was read or handled, or the connection is closed
	reader  *reader    // the current one
	first   string     // what it reads before anything from the connection
	guard   guard
	busy    bool      // a command is running: silence is an error
	until   time.Time // when the command has to be done
	limit   time.Duration
	paused  time.Time // when the caller began to work
	left    int64     // octets without bodies that the server may still send before the caller consumes something
	total   int64     // and in all in answer to the command
	opened  bool      // the current literal is a body that the caller reads
	body    int       // the FETCH response with the last literal that was opened
	whole   int       // FETCH responses that the library has read to their end
	handled int       // FETCH responses that the caller is done with
	closed  bool
	err     error  // the first error of reading or writing
	line    []byte // the beginning of the current line
	bye     *imap.Error
	sticky  bool  // UIDs are persistent (RFC 4315 4)
	exists  int64 // messages in the open folder; -1 before the server says it
	arrived bool  // one more than there were, since the folder was opened
	listed  bool  // the last tagged response is an OK that lists the capabilities

	readOnly bool // the last tagged response is an OK with READ-ONLY
	expunges bool // UID EXPUNGE is running

	holding bool
	held    []byte // goes out with the next write
	resting bool   // little is expected, for a long time
}

const (
	// maxStatusLine is how much of a line is parsed, in octets.
	maxStatusLine = 512
	// maxAnswer is how many octets the server may send in answer to one command, without bodies. It
	// is enough for three million FETCH responses with a UID.
	maxAnswer = 128 << 20
	// minRate is the number of octets of bodies that a server has to send per second if a command
	// takes longer than its time limit.
	minRate = 1 << 10
	// maxPending is how many FETCH responses may wait for the caller. The library starts a
	// goroutine for each that it did not ask for.
	maxPending = 256
)

func newWire(conn net.Conn, idle time.Duration) *wire {
	w := &wire{Conn: conn, idle: idle}
	w.drained = sync.NewCond(&w.mu)
	return w
}

// begin begins a command that has to be done within limit.
func (w *wire) begin(octets int64, limit time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.left, w.total, w.sticky, w.listed = octets, maxAnswer, true, false
	w.limit, w.until = limit, time.Now().Add(limit)
	w.guard.hits.set, w.guard.unread = nil, ""
	w.setBusy(true)
}

func (w *wire) end() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.expunges = false
	w.setBusy(false)
}

// pause and resume suspend the read deadline while the caller works.
func (w *wire) pause() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.paused = time.Now()
	w.setBusy(false)
}

func (w *wire) resume(limit int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.left = limit
	w.until = w.until.Add(time.Since(w.paused))
	w.setBusy(true)
}

// setBusy also moves the deadline of a read that is already waiting. Between commands the library
// always has one.
func (w *wire) setBusy(busy bool) {
	w.busy = busy
	var deadline time.Time
	if busy {
		deadline = time.Now().Add(w.idle)
		if w.until.Before(deadline) {
			deadline = w.until
		}
	}
	_ = w.Conn.SetReadDeadline(deadline)
}

// allow sets how much the server may still send, because the caller consumed something.
func (w *wire) allow(limit int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.left = limit
}

// open says that the caller reads the next literal, which has this size. Its octets do not count
// against the limit. The octets of other literals do, and only small ones are read.
func (w *wire) open(size int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.opened, w.body = w.guard.literal == size && size > 0, w.guard.fetches
}

// done counts a FETCH response that the caller is done with.
func (w *wire) done() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.handled++
	w.drained.Broadcast()
}

// accepted waits until the library has read the FETCH response with the last opened literal to its
// end, and reports false when it failed before that.
func (w *wire) accepted() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	for w.whole < w.body && w.err == nil && !w.closed {
		w.drained.Wait()
	}
	return w.whole >= w.body
}

// found returns the UIDs of the SEARCH responses to the current command, as the server sent them.
func (w *wire) found() imap.UIDSet {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.guard.hits.set
}

// unread returns the last LIST or STATUS response to the current command that the library did not
// get.
func (w *wire) unread() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.guard.unread
}

func (r *reader) Read(p []byte) (int, error) {
	w := r.wire
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.out) == 0 && w.guard.boundary() { // the library has read all that it got
		w.whole = w.guard.fetches
		w.drained.Broadcast()
	}
	for {
		switch {
		case w.first != "":
			n := copy(p, w.first)
			w.first = w.first[n:]
			return n, nil
		case len(w.out) > 0:
			n := copy(p, w.out)
			w.out = w.out[n:]
			return n, nil
		case w.err != nil: // the library reads again after a timeout
			return 0, w.err
		case r.over && w.guard.boundary():
			return 0, io.EOF
		case w.guard.literal > 0:
			return w.readLiteral(p)
		case w.guard.boundary() && w.guard.fetches-w.handled >= maxPending && !w.closed:
			w.drained.Wait()
		case len(w.raw) > 0:
			w.admit()
		default:
			p := w.space()
			n, err := w.receive(p)
			w.raw = p[:n]
			_ = w.fail(err)
		}
	}
}

// Octets that are read at once; a connection that rests keeps room for few.
const (
	bufferSize  = 16 << 10
	restingSize = 128
)

// rest says that little data is expected for a long time; the buffers shrink, so that a process can
// hold many connections.
func (w *wire) rest(on bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.resting = on
}

// space is where the next octets are read to.
func (w *wire) space() []byte {
	switch {
	case w.resting:
		w.buffer, w.raw, w.out = nil, nil, nil
		if len(w.line) == 0 {
			w.line = nil
		}
		if w.small == nil {
			w.small = make([]byte, restingSize)
		}
		return w.small
	case w.buffer == nil:
		w.buffer = make([]byte, bufferSize)
	}
	return w.buffer
}

// receive reads from the connection. It unlocks meanwhile.
func (w *wire) receive(p []byte) (int, error) {
	w.setBusy(w.busy)
	w.mu.Unlock()
	n, err := w.Read(p) // as it comes from the server: a reader has its own
	w.mu.Lock()
	if w.reader.poked && errors.Is(err, os.ErrDeadlineExceeded) {
		w.reader.poked, err = false, nil
	}
	return n, err
}

// admit moves octets to the library, as far as the guard allows. What came before an error is read
// first.
func (w *wire) admit() {
	n, out, err := w.guard.admit(w.raw, w.out[:0])
	if !w.findStatus(w.raw[:n]) {
		out, err = nil, errSyntax
	}
	w.raw, w.out = w.raw[n:], out
	if err == nil {
		err = w.count(int64(n))
	}
	if err != nil {
		w.raw = nil
		_ = w.fail(err)
	}
}

func (w *wire) count(n int64) error {
	w.left -= n
	w.total -= n
	if w.left < 0 || w.total < 0 {
		return errTooMuch
	}
	return nil
}

func (w *wire) readLiteral(p []byte) (n int, err error) {
	if !w.opened && w.guard.literal > maxBuffered {
		return 0, w.fail(errLiteral)
	}
	p = p[:min(int64(len(p)), w.guard.literal)]
	if len(w.raw) > 0 {
		n = copy(p, w.raw)
		w.raw = w.raw[n:]
	} else {
		n, err = w.receive(p)
	}
	if w.guard.literal -= int64(n); w.opened {
		w.until = w.until.Add(time.Duration(n) * time.Second / minRate)
	} else if tooMuch := w.count(int64(n)); err == nil {
		err = tooMuch
	}
	if w.guard.literal == 0 {
		w.opened = false
	}
	return n, w.fail(err)
}

// hold delays what is written until release, and sends it together with the next write.
func (w *wire) hold() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.holding = true
}

func (w *wire) release() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.holding = false
}

func (w *wire) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.held = append(w.held, p...)
	if w.holding {
		return len(p), nil
	}
	whole := w.held
	w.held = nil
	if plainExpunge(whole) {
		return 0, w.fail(errExpunge)
	}
	w.mu.Unlock()
	_ = w.Conn.SetWriteDeadline(time.Now().Add(w.idle))
	_, err := w.Conn.Write(whole)
	_ = w.Conn.SetWriteDeadline(time.Time{}) // TLS may write while it reads
	w.mu.Lock()
	if err != nil {
		return 0, w.fail(err)
	}
	return len(p), nil
}

// fail keeps the first error. It replaces io.EOF, which inside a literal would look like the end of
// the message.
func (w *wire) fail(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, io.EOF):
		err = fmt.Errorf("the server closed the connection: %w", io.ErrUnexpectedEOF)
	case errors.Is(err, os.ErrDeadlineExceeded) && w.busy && !time.Now().Before(w.until):
		err = fmt.Errorf("the server took longer than %v for its answer: %w", w.limit, os.ErrDeadlineExceeded)
	case errors.Is(err, os.ErrDeadlineExceeded):
		err = fmt.Errorf("the server was silent for %v: %w", w.idle, os.ErrDeadlineExceeded)
	}
	if w.err == nil {
		w.err = err
		w.drained.Broadcast()
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

// reject closes the connection because of what the server sent.
func (w *wire) reject(why violation) {
	w.mu.Lock()
	_ = w.fail(why)
	w.mu.Unlock()
	w.kill()
}

// Close also ends a read that waits for the caller.
func (w *wire) Close() error {
	w.mu.Lock()
	w.closed = true
	w.drained.Broadcast()
	w.mu.Unlock()
	return w.Conn.Close()
}

// The library's own deadlines are ignored: they would abort a slow literal, but not a silent wait.

func (w *wire) SetDeadline(time.Time) error      { return nil }
func (w *wire) SetReadDeadline(time.Time) error  { return nil }
func (w *wire) SetWriteDeadline(time.Time) error { return nil }
