package message

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sync/atomic"
	"syscall"
)

// Spooler makes spools that share one memory budget. The zero value keeps nothing in memory.
type Spooler struct {
	// Limit is the largest message that is kept in memory, in octets.
	Limit int64
	// Budget is the memory that all spools together may use, in octets.
	Budget int64
	// Dir is the directory for temporary files; empty for the system's.
	Dir string

	used atomic.Int64
}

// Spool holds the octets of one message. It is written once, and then read as often as needed.
//
// A spool starts in memory and moves to a temporary file when it exceeds the spooler's limits. The
// file disappears with the process: on Unix it has no name, and Windows deletes it when it is
// closed.
type Spool struct {
	from  *Spooler
	mem   bytes.Buffer
	held  int64 // octets of the budget that mem uses
	file  *os.File
	buf   *bufio.Writer // in front of file, while writing
	size  int64
	cr    bool // a CR was written, and its LF is still to come
	eight bool // see Has8bit
	fixed bool // see Changed
}

// Check writes a temporary file of 1 MiB, as a message does that is too large for memory, and
// removes it.
func (s *Spooler) Check() error {
	b := (&Spooler{Dir: s.Dir}).New()
	_, err := b.Write(make([]byte, 1<<20))
	return errors.Join(cmp.Or(err, b.Flush()), b.Close())
}

// New returns an empty spool.
func (s *Spooler) New() *Spool { return &Spool{from: s} }

// maxExpected is for how many octets Expect takes memory: a server may announce more than it sends.
const maxExpected = 64 << 10

// Expect takes memory for a message of size octets at once, if it is short.
func (b *Spool) Expect(size int64) {
	if b.held > 0 || size > min(b.from.Limit, maxExpected) {
		return
	}
	if b.from.used.Add(size) > b.from.Budget {
		b.from.used.Add(-size)
		return
	}
	b.held = size
	b.mem.Grow(int(size))
}

// Write appends p, with line ends converted to CRLF. It returns how many octets of p it consumed,
// not how many it stored.
func (b *Spool) Write(p []byte) (int, error) {
	n := len(p)
	for begun := false; len(p) > 0; {
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
		if !begun { // most messages are nothing else
			begun = true
			whole := wholeLines(p)
			if err := b.store(p[:whole]); err != nil {
				return 0, err
			}
			p = p[whole:]
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
		// A bare LF is handled as if a CR preceded it.
		if b.cr = true; p[0] == '\r' {
			p = p[1:]
		}
	}
	return n, nil
}

var crlf = []byte("\r\n")

// wholeLines is the length of the lines that p begins with, up to one that does not end in CRLF
// alone.
func wholeLines(p []byte) (n int) {
	for {
		i := bytes.IndexByte(p[n:], '\n')
		if i < 1 || bytes.IndexByte(p[n:n+i], '\r') != i-1 {
			return n
		}
		n += i + 1
	}
}

// Flush ends the writing. Call it before the first Reader. A CR at the very end becomes a CRLF.
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
	return spoolErr(b.buf.Flush())
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
	_, err := b.buf.Write(p)
	return spoolErr(err)
}

// reserve takes memory for size octets from the budget, and reports whether that is allowed. It
// takes twice the size, because a growing buffer allocates up to that much.
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
		return spoolErr(err)
	}
	b.file, b.buf = f, bufio.NewWriterSize(f, 32<<10)
	_, err = b.buf.Write(b.mem.Bytes())
	b.dropMemory()
	return spoolErr(err)
}

func spoolErr(err error) error {
	if err == nil {
		return nil
	}
	if errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE) {
		return fmt.Errorf("spool a message to a temporary file: %w (raise the limit of open files)", err)
	}
	return fmt.Errorf("spool a message to a temporary file: %w (free disk space there, "+
		"or set TMPDIR to a directory with space that this user can write)", err)
}

func (b *Spool) dropMemory() {
	b.mem = bytes.Buffer{}
	b.from.used.Add(-b.held)
	b.held = 0
}

// Size returns the number of octets stored.
func (b *Spool) Size() int64 { return b.size }

// Has8bit reports whether any octet is above 127 (RFC 6152).
func (b *Spool) Has8bit() bool { return b.eight }

// Changed reports whether line ends were converted. A signature over the message may then be
// broken.
func (b *Spool) Changed() bool { return b.fixed }

// Reader returns a reader from the start. Several readers may be used at once.
func (b *Spool) Reader() io.Reader { return b.From(0) }

// buffered is Reader with a buffer of 32 KiB, or one that the message does not fill.
func (b *Spool) buffered() *bufio.Reader {
	return bufio.NewReaderSize(b.Reader(), int(min(b.size+1, 32<<10)))
}

// From returns a reader that starts at an offset, in octets.
func (b *Spool) From(offset int64) io.Reader {
	if b.file != nil {
		return io.NewSectionReader(b.file, offset, b.size-offset)
	}
	return bytes.NewReader(b.mem.Bytes()[min(offset, int64(b.mem.Len())):])
}

// Reader returns a reader of r that fails with the error of ctx when ctx ends.
func Reader(ctx context.Context, r io.Reader) io.Reader { return &ctxReader{ctx, r} }

type ctxReader struct {
	ctx context.Context
	r   io.Reader
}

func (c *ctxReader) Read(p []byte) (int, error) {
	if err := c.ctx.Err(); err != nil {
		return 0, err
	}
	return c.r.Read(p)
}

// Close releases the memory or the file. The spool must not be used afterwards.
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
