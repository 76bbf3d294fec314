package message

import (
	"bufio"
	"bytes"
	"errors"
	"io"
)

// lineReader reads a message from its beginning to its end, once, however deep its parts are nested: each line is held against the
// boundaries of all the parts around it. One that belongs to an outer part ends the inner ones, too (RFC 2046 5.1.2).
type lineReader struct {
	r          *bufio.Reader
	boundaries []string       // of the parts around, outermost first
	level      map[string]int // their places there; of several that are alike the outermost
	within     bool           // a line is not at its end: what comes next is no boundary
	at         int            // the delimiter that was read is of boundaries[at]; -1 while there is none
	last       bool           // and no part follows it
	err        error          // of the reader
}

func newLineReader(r io.Reader) *lineReader {
	return &lineReader{r: bufio.NewReaderSize(r, 32<<10), level: map[string]int{}, at: -1}
}

// ReadSlice reads to the end of a line, or of the buffer, as bufio's does. It fails with io.EOF where a part ends.
func (l *lineReader) ReadSlice(delim byte) ([]byte, error) {
	if l.at >= 0 || l.err != nil {
		return nil, io.EOF
	}
	line, err := l.r.ReadSlice(delim)
	if err != nil && !errors.Is(err, bufio.ErrBufferFull) {
		l.err = err
	}
	begins := !l.within
	l.within = err != nil
	if begins && !errors.Is(err, bufio.ErrBufferFull) && l.delimits(line) {
		l.within = false
		return nil, io.EOF
	}
	if len(line) == 0 {
		return nil, io.EOF
	}
	return line, nil
}

// delimits notes which delimiter a line is, if it is one (RFC 2046 5.1.1).
func (l *lineReader) delimits(line []byte) bool {
	line, ok := bytes.CutPrefix(line, []byte("--"))
	if !ok {
		return false
	}
	line = bytes.TrimRight(line, " \t\r\n")
	if l.at, ok = l.level[string(line)]; ok {
		l.last = false
		return true
	}
	if line, l.last = bytes.CutSuffix(line, []byte("--")); l.last {
		l.at, ok = l.level[string(line)]
	}
	if !ok {
		l.at = -1
	}
	return ok
}

// failed is what went wrong with the reader, that it has ended is not.
func (l *lineReader) failed() error {
	if errors.Is(l.err, io.EOF) {
		return nil
	}
	return l.err
}

// enter begins a multipart. Its boundary does not end with white space.
func (l *lineReader) enter(boundary string) {
	if _, ok := l.level[boundary]; !ok {
		l.level[boundary] = len(l.boundaries)
	}
	l.boundaries = append(l.boundaries, boundary)
}

// leave ends it, wherever in it the reader is.
func (l *lineReader) leave() {
	own := len(l.boundaries) - 1
	if b := l.boundaries[own]; l.level[b] == own {
		delete(l.level, b)
	}
	l.boundaries = l.boundaries[:own]
	if l.at == own {
		l.at = -1
	}
}

// next begins the next part of the innermost multipart, and reports whether there is one. What stands before it is passed over.
func (l *lineReader) next() bool {
	for {
		if _, err := l.ReadSlice('\n'); err != nil {
			break
		}
	}
	if l.at != len(l.boundaries)-1 || l.last {
		return false
	}
	l.at = -1
	return true
}
