package imapsrc

import "time"

// reader reads from a wire, for a client of the library or for Idle. A new one takes the place of
// the one before, which must have stopped.
type reader struct {
	*wire
	over    bool // it gets io.EOF at the next end of a response
	poked   bool // a read that waits fails, because of stop
	fetches int  // FETCH responses that had begun when it read the last response
}

func (w *wire) newReader() *reader {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.reader = &reader{wire: w, fetches: w.guard.fetches}
	return w.reader
}

// stop makes the reader stop at the end of a response. The server has a few seconds to complete
// that. The next reader reads what follows. stop may be called at any time, and more than once.
func (r *reader) stop() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.over || r.reader != r {
		r.over = true
		return
	}
	r.over, r.poked = true, true
	if !r.busy {
		r.busy, r.limit, r.until = true, logoutTimeout, time.Now().Add(logoutTimeout)
	}
	_ = r.Conn.SetReadDeadline(time.Unix(1, 0)) // ends a read that waits already
}

// Close closes the connection, unless the reader has stopped: the library closes what it has read
// to the end.
func (r *reader) Close() error {
	r.mu.Lock()
	over := r.over
	r.mu.Unlock()
	if over {
		return nil
	}
	return r.wire.Close()
}

// response reads one response, and returns its beginning. A reader that has stopped gets io.EOF.
func (r *reader) response() (line string, err error) {
	var p [restingSize]byte
	var head []byte
	for {
		n, err := r.Read(p[:])
		if err != nil {
			return "", err
		}
		if head = append(head, p[:min(n, maxStatusLine-len(head))]...); r.complete() {
			return string(head), nil
		}
	}
}

// complete reports whether all of a response was read. If it was a FETCH response, that is handled.
func (r *reader) complete() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.handled += r.guard.fetches - r.fetches
	r.fetches = r.guard.fetches
	return len(r.out) == 0 && r.guard.boundary()
}
