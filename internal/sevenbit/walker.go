package sevenbit

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"

	"postrider/internal/message"
)

// walker goes through a body, line by line, and notes what has to be changed. From the first error on it is at the end.
type walker struct {
	src  *message.Spool
	r    *bufio.Reader
	err  error
	done bool

	at, after   int64  // the offsets of the line, and of the next one
	line        []byte // with its end; of a very long one the beginning
	eight, long bool   // the line has an octet above 127, or more than 998
	begun       []byte // is line, where that is not in r's buffer any more

	open    [][]byte // the boundaries of the multiparts around the line, with their two hyphens; the outermost first
	parts   int
	edits   []edit // by offset
	encoded int    // parts
	own     string // the encoding that the header of all must name; empty where that stays as it is
}

// edit is what comes instead of the octets between two offsets.
type edit struct {
	from, to int64
	by       Piece
}

// maxLine is the longest line that mail may have, without its end (RFC 5322 2.1.1).
const maxLine = 998

// next goes on to the next line.
func (w *walker) next() {
	if w.done {
		return
	}
	w.at, w.eight = w.after, false
	line, err := w.read()
	if w.line = line; errors.Is(err, bufio.ErrBufferFull) {
		w.begun = append(w.begun[:0], line...)
		for w.line = w.begun; errors.Is(err, bufio.ErrBufferFull); {
			_, err = w.read()
		}
	}
	switch w.long = w.after-w.at > maxLine+int64(len("\r\n")); {
	case err != nil && !errors.Is(err, io.EOF):
		w.fail(fmt.Errorf("read a spooled message: %w", err))
	case w.after == w.at:
		w.done = true
	}
}

func (w *walker) read() ([]byte, error) {
	b, err := w.r.ReadSlice('\n')
	w.after += int64(len(b))
	for _, c := range b {
		if c == 0 {
			w.refuse("it has a NUL")
		}
		w.eight = w.eight || c >= 0x80
	}
	return b, err
}

func (w *walker) fail(err error) {
	if w.err == nil {
		w.err = err
	}
	w.done = true
}

func (w *walker) refuse(why string) { w.fail(&Refusal{why}) }

// keep passes over a line that stays as it is. With an octet above 127 it cannot: why says so.
func (w *walker) keep(why string) {
	switch {
	case w.eight:
		w.refuse(why)
	case w.long:
		w.refuse("it has a line of more than 998 octets in a part that needs no encoding")
	}
	w.next()
}

// opaque passes over everything up to the next delimiter, as it is.
func (w *walker) opaque(why string) {
	for w.inside() {
		w.keep(why)
	}
}

// inside reports whether there is a line, and it is no delimiter.
func (w *walker) inside() bool {
	level, _ := w.delimiter()
	return !w.done && level < 0
}

// delimiter tells which of the open multiparts the line delimits (RFC 2046 5.1.1), the outermost first as readers have it, and
// whether it is its last; -1 is none. A line that begins as a delimiter and goes on is one to some readers, and none to others.
func (w *walker) delimiter() (level int, last bool) {
	if !bytes.HasPrefix(w.line, []byte("--")) {
		return -1, false
	}
	line, near := bytes.TrimRight(w.line, " \t\r\n"), false
	for i, boundary := range w.open {
		rest, found := bytes.CutPrefix(line, boundary)
		switch {
		case found && len(rest) == 0:
			return i, false
		case found && string(rest) == "--":
			return i, true
		}
		near = near || found
	}
	if near {
		w.refuse("it has a line that some take for a boundary, and some do not")
	}
	return -1, false
}

// pieces are the body from an offset on, with all edits.
func (w *walker) pieces(from int64) []Piece {
	var out []Piece
	for _, e := range append(w.edits, edit{from: w.src.Size(), to: w.src.Size()}) {
		if e.from > from {
			out = append(out, Stored(w.src, from, e.from))
		}
		if from = e.to; e.by.Size > 0 {
			out = append(out, e.by)
		}
	}
	return out
}
