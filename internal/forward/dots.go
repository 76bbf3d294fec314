package forward

import (
	"bufio"
	"bytes"
)

// dots writes content: it doubles each dot at the start of a line, and ends each line with CRLF
// (RFC 5321 4.5.2, 2.3.8). Only its end writes the final dot, so a content that is not complete
// never looks like one that is.
type dots struct {
	w          *bufio.Writer
	inLine, cr bool // the last octet was none of a line end; it was a CR
}

func (d *dots) Write(p []byte) (int, error) {
	for rest := p; len(rest) > 0; {
		line, after, ended := bytes.Cut(rest, []byte{'\n'})
		if !d.inLine && !d.cr && len(line) > 0 && line[0] == '.' {
			_ = d.w.WriteByte('.') // the writer keeps its first error
		}
		_, _ = d.w.Write(line)
		if len(line) > 0 {
			d.cr = line[len(line)-1] == '\r'
			d.inLine = !d.cr
		}
		if ended {
			d.newline()
		}
		rest = after
	}
	_, err := d.w.Write(nil)
	return len(p), err
}

func (d *dots) newline() {
	if !d.cr {
		_ = d.w.WriteByte('\r')
	}
	_ = d.w.WriteByte('\n')
	d.inLine, d.cr = false, false
}

// end ends the content and sends what is still in the buffer.
func (d *dots) end() error {
	if d.inLine || d.cr {
		d.newline()
	}
	_, _ = d.w.WriteString(".\r\n")
	return d.w.Flush()
}
