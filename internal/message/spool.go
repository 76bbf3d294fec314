package message

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"os"
	"sync/atomic"
)

// Spooler makes spools that share one memory budget. Its zero value keeps nothing in memory.
type Spooler struct {
	// Limit is the largest message, in octets, that is kept in memory.
	Limit int64
	// Budget is how much memory all spools together may take, in octets.
	Budget int64
	// Dir is where temporary files go; empty for the system's.
	Dir string

	used atomic.Int64
}

// Spool is the octets of one message, written once and then read as often as needed.
//
// It starts in memory and moves to a temporary file when it outgrows the spooler's limits. The file has no name on
// systems that allow that, and is deleted on close on Windows: either way it disappears with the process.
type Spool struct {
	from  *Spooler
	mem   bytes.Buffer
	held  int64 // octets of the budget that mem has taken
	file  *os.File
	buf   *bufio.Writer // in front of file, while writing
	size  int64
	cr    bool // the last octet written was a CR whose LF is still to come
	eight bool
	fixed bool
}

// New returns an empty spool.
func (s *Spooler) New() *Spool { return &Spool{from: s} }

// Write appends p, with line ends made canonical. It reports the octets of p taken, not those stored.
func (b *Spool) Write(p []byte) (int, error) {
	n := len(p)
	for len(p) > 0 {
		if b.cr {
			b.cr = false
			if p[0] == '\n' {
				p = p[1:]
			} else {
				b.fixed = true
			}
			if err := b.store(crlf); err != nil {
				return 0, err
			}
			continue
		}
		i := bytes.IndexAny(p, "\r\n")
		if i < 0 {
			i = len(p)
		}
		if err := b.store(p[:i]); err != nil {
			return 0, err
		}
		if p = p[i:]; len(p) == 0 {
			break
		}
		if p[0] == '\n' {
			b.fixed = true
		}
		// A bare LF is stored as if a CR had come before it.
		if b.cr = true; p[0] == '\r' {
			p = p[1:]
		}
	}
	return n, nil
}

var crlf = []byte("\r\n")

// Flush ends the writing, and must come before the first Reader. A CR at the very end becomes a line end.
func (b *Spool) Flush() error {
	if b.cr {
		b.cr, b.fixed = false, true
		if err := b.store(crlf); err != nil {
			return err
		}
	}
	if b.buf == nil {
		return nil
	}
	return spoolErr(0, b.buf.Flush())
}

func (b *Spool) store(p []byte) error {
	if !b.eight {
		b.eight = has8bit(p)
	}
	b.size += int64(len(p))
	if b.file == nil {
		if b.reserve(b.size) {
			b.mem.Write(p)
			return nil
		}
		if err := b.toFile(); err != nil {
			return err
		}
	}
	return spoolErr(b.buf.Write(p))
}

// reserve reports whether size octets may be held in memory, and takes them from the budget. It asks for as much as the
// buffer really allocates, which is up to twice what is in it.
func (b *Spool) reserve(size int64) bool {
	if size > b.from.Limit {
		return false
	}
	if size <= b.held {
		return true
	}
	want := max(2*size, 4<<10)
	if b.from.used.Add(want-b.held) > b.from.Budget {
		b.from.used.Add(b.held - want)
		return false
	}
	b.held = want
	return true
}

func (b *Spool) toFile() error {
	f, err := tempFile(b.from.Dir)
	if err != nil {
		return spoolErr(0, err)
	}
	b.file, b.buf = f, bufio.NewWriterSize(f, 32<<10)
	_, err = b.buf.Write(b.mem.Bytes())
	b.dropMemory()
	return spoolErr(0, err)
}

func spoolErr(_ int, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("spool a message to a temporary file: %w (make room there, or set TMPDIR to a directory that has room and that this user can write)", err)
}

func (b *Spool) dropMemory() {
	b.mem = bytes.Buffer{}
	b.from.used.Add(-b.held)
	b.held = 0
}

// Size is the number of octets stored.
func (b *Spool) Size() int64 { return b.size }

// Has8bit reports whether any octet is above 127 (RFC 6152).
func (b *Spool) Has8bit() bool { return b.eight }

// Changed reports whether line ends had to be made canonical; a signature over them may not survive.
func (b *Spool) Changed() bool { return b.fixed }

// Reader reads from the start. Several readers may be used at once.
func (b *Spool) Reader() io.Reader { return b.From(0) }

// From is Reader from an offset on, in octets.
func (b *Spool) From(offset int64) io.Reader {
	if b.file != nil {
		return io.NewSectionReader(b.file, offset, b.size-offset)
	}
	return bytes.NewReader(b.mem.Bytes()[min(offset, int64(b.mem.Len())):])
}

// Close gives the memory or the file back. The spool must not be used afterwards.
func (b *Spool) Close() error {
	b.dropMemory()
	if b.file == nil {
		return nil
	}
	f := b.file
	b.file, b.buf = nil, nil
	return f.Close()
}

func has8bit(p []byte) bool {
	for _, c := range p {
		if c >= 0x80 {
			return true
		}
	}
	return false
}
