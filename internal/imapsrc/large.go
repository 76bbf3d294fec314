package imapsrc

import (
	"fmt"
	"io"

	"github.com/emersion/go-imap/v2"

	"postrider/internal/message"
)

// TooLargeError is in Result.Failed for a message whose body the server announces as larger than
// Config.MaxSize, whatever RFC822.SIZE said. Nothing of the body was read. The connection is
// closed, because that is the only way not to read it.
type TooLargeError struct {
	Size int64 // octets, as announced
	Max  int64 // Config.MaxSize
}

func (e *TooLargeError) Error() string {
	return fmt.Sprintf("the server announces a body of %d octets; the largest that is fetched has %d", e.Size, e.Max)
}

// Limits of what a server may send in one call without having been asked for it. The UID may come
// after a body, so some bodies have to be read to find out whose they are. A server reports each
// change of flags once, so after too many of them a new connection has none.
const (
	maxExtra   = 16     // bodies
	maxChanges = 50_000 // responses without a body
)

const errExtra = violation("the server sends messages that were not asked for")

// body spools the body of one FETCH response, unless it is too large or known not to be wanted. The
// library reads past a small one that is not wanted; a large one ends the connection (errLiteral).
func (b *bodies) body(in *incoming, lit imap.LiteralReader) (spool *message.Spool, cut bool) {
	switch state, wanted := b.state[in.uid]; {
	case lit == nil:
		return nil, false
	case in.uid != 0 && (!wanted || state == settled):
		b.extra()
		return nil, false
	case lit.Size() > b.largest():
		b.refuse(in, lit)
		return nil, true
	}
	return b.spool(lit)
}

// largest is the size of the largest body that is read. A header of the size that Headers asks for
// always is.
func (b *bodies) largest() int64 {
	if b.section == imap.PartSpecifierHeader {
		return max(b.c.cfg.MaxSize, maxHeader)
	}
	return b.c.cfg.MaxSize
}

// refuse closes the connection instead of reading a body. If the UID would come only after the
// body, the message is known only if no other one was asked for.
func (b *bodies) refuse(in *incoming, lit imap.LiteralReader) {
	err := &TooLargeError{Size: lit.Size(), Max: b.largest()}
	for uid := range b.state {
		if uid == in.uid || len(b.state) == 1 && in.uid == 0 {
			in.uid = uid
			b.state[uid], b.failed[uid] = settled, err
		}
	}
	b.abort(violation(err.Error()), lit)
}

// abort closes the connection while a literal is unread.
func (b *bodies) abort(why violation, lit imap.LiteralReader) {
	b.c.wire.reject(why)
	if _, err := io.Copy(io.Discard, lit); err != nil { // the library waits until it is read or fails
		<-b.c.client.Closed()
	}
}

// extra counts a body that was not wanted.
func (b *bodies) extra() {
	if b.extras++; b.extras > maxExtra {
		b.c.wire.reject(errExtra)
	}
}

// unwanted handles a response for a message that was not asked for, or that came before.
func (b *bodies) unwanted(in *incoming) {
	if in.body != nil {
		in.drop()
		b.extra()
	}
	b.changed()
}

// changed counts a response that settles nothing.
func (b *bodies) changed() {
	if b.changes++; b.changes > maxChanges {
		b.c.wire.reject(errExtra)
	}
}
