package message

import (
	"bufio"
	"bytes"
	"errors"
	"io"
)

// lineReader reads a message once, from beginning to end, however deep its parts are nested. It
// compares each line with the boundaries of all enclosing multiparts. The boundary of an outer
// multipart also ends the inner ones (RFC 2046 5.1.2).
type lineReader struct {
	r          *bufio.Reader
	boundaries []string       // of the enclosing multiparts, outermost first
	level      map[string]int // the index in boundaries; the outermost of several equal ones
	within     bool           // the line has not ended: what follows is no boundary
	at         int            // the last delimiter was that of boundaries[at]; -1 for none
	last       bool           // that delimiter was a closing one
	skipped    bool           // next skipped text
	err        error          // of the reader
}

func newLineReader(r io.Reader) *lineReader {
	return &lineReader{r: bufio.NewReaderSize(r, 32<<10), level: map[string]int{}, at: -1}
}

// ReadSlice reads to the end of a line or of the buffer, like bufio.Reader.ReadSlice. It returns
// io.EOF at the end of a part.
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

// delimits reports whether a line is a delimiter (RFC 2046 5.1.1), and records which one.
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

// failed returns the reader's error; io.EOF is none.
func (l *lineReader) failed() error {
	if errors.Is(l.err, io.EOF) {
		return nil
	}
	return l.err
}

// enter begins a multipart. boundary must not end with white space.
func (l *lineReader) enter(boundary string) {
	if _, ok := l.level[boundary]; !ok {
		l.level[boundary] = len(l.boundaries)
	}
	l.boundaries = append(l.boundaries, boundary)
}

// leave ends the innermost multipart, also when the reader is in the middle of it.
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

// next skips to the next part of the innermost multipart, and reports whether there is one.
func (l *lineReader) next() bool {
	for {
		line, err := l.ReadSlice('\n')
		if err != nil {
			break
		}
		l.skipped = l.skipped || len(bytes.TrimSpace(line)) > 0
	}
	if l.at != len(l.boundaries)-1 || l.last {
		return false
	}
	l.at = -1
	return true
}

// closed reports whether the innermost multipart was ended by its own delimiter.
func (l *lineReader) closed() bool { return l.last && l.at == len(l.boundaries)-1 }
