package imapsrc

import (
	"context"
	"errors"
	"io"

	"github.com/emersion/go-imap/v2"
	"github.com/emersion/go-imap/v2/imapclient"

	"postrider/internal/message"
)

// Result says what happened to the messages that Bodies did not pass on.
type Result struct {
	Vanished []uint32         // they no longer exist
	Failed   map[uint32]error // refused (KindMessage), sent without a body, or a TooLargeError
}

// Bodies fetches whole messages. It passes each message to the callback each as soon as the message
// is spooled and parsed: once, one at a time, in the order in which the server sends them. The
// callback owns the message and closes it. The server waits until the callback returns, so the
// callback should be quick. If the callback fails, Bodies closes the connection and returns its
// error unchanged.
//
// If a body is larger than Config.MaxSize, Bodies closes the connection instead of reading it, and
// returns an error of KindProtocol; the message is in Result, see TooLargeError. Some of the other
// messages may not have been fetched.
//
// If Bodies returns an error, the result is certain for the messages that the callback got and for
// those in Result. Nothing is known about the others.
func (c *Conn) Bodies(
	ctx context.Context, uids []uint32, each func(uid uint32, m *message.Message) error,
) (Result, error) {
	return c.sections(ctx, uids, imap.FetchItemBodySection{Peek: true}, each)
}

// maxHeader is how much of a header Headers fetches, in octets. Package message reads no more
// either.
const maxHeader = 1 << 20

// Headers is Bodies for the headers only. It fetches the first 1 MiB of a longer header.
func (c *Conn) Headers(
	ctx context.Context, uids []uint32, each func(uid uint32, m *message.Message) error,
) (Result, error) {
	header := imap.FetchItemBodySection{
		Specifier: imap.PartSpecifierHeader, Partial: &imap.SectionPartial{Size: maxHeader}, Peek: true,
	}
	return c.sections(ctx, uids, header, func(uid uint32, m *message.Message) error {
		m.HeaderOnly = true
		return each(uid, m)
	})
}

// sections fetches one section of each message.
func (c *Conn) sections(
	ctx context.Context, uids []uint32, section imap.FetchItemBodySection,
	each func(uid uint32, m *message.Message) error,
) (Result, error) {
	uids = sortedUnique(uids)
	b := &bodies{
		c: c, ctx: ctx, section: section.Specifier, each: each, buf: make([]byte, 32<<10),
		state: make(map[uint32]state, len(uids)), failed: map[uint32]error{},
	}
	for _, uid := range uids {
		b.state[uid] = asked
	}
	f := &fetcher{c: c, op: "fetch from folder", take: b.take, got: b.got, options: &imap.FetchOptions{
		UID: true, RFC822Size: true, BodySection: []*imap.FetchItemBodySection{&section},
	}}
	refused, missing, err := f.run(ctx, uids)
	result := Result{Failed: b.failed}
	for uid, err := range refused {
		b.failed[uid] = err
	}
	for _, uid := range missing {
		if b.state[uid] == asked {
			result.Vanished = append(result.Vanished, uid)
		} else {
			b.failed[uid] = errNoBody
		}
	}
	if b.err != nil {
		return result, b.err
	}
	if e, ok := errors.AsType[*Error](err); ok && e.UID == 0 {
		e.UID = b.cut
	}
	return result, err
}

var (
	errNoBody = errors.New("the server sent the message without its body")
	errEmpty  = errors.New("the server sent an empty message")
)

type state int

const (
	asked   state = iota
	seen          // it exists: a response came, without the body
	settled       // passed on, or failed
)

type bodies struct {
	c       *Conn
	ctx     context.Context // of the one call of Bodies or Headers
	section imap.PartSpecifier
	each    func(uid uint32, m *message.Message) error
	state   map[uint32]state
	failed  map[uint32]error
	buf     []byte
	cut     uint32 // the message that was being read when the connection broke
	extras  int    // bodies that were not wanted
	changes int    // responses that settled nothing
	err     error  // ends the call: an error of the callback, or of this machine
}

func (b *bodies) got(uid uint32) bool { return b.state[uid] == settled }

// take spools every body that may be wanted, because its UID may come after it.
func (b *bodies) take(msg *imapclient.FetchMessageData) {
	var in incoming
	for item := msg.Next(); item != nil; item = msg.Next() {
		switch item := item.(type) {
		case imapclient.FetchItemDataUID:
			in.uid = uint32(item.UID)
		case imapclient.FetchItemDataRFC822Size:
			in.size = item.Size
		case imapclient.FetchItemDataBodySection:
			switch {
			case !b.isAsked(item.Section) || b.err != nil:
			case in.came: // the first one ends within another response
				in.cut = true
			default:
				in.came = true
				in.body, in.cut = b.body(&in, item.Literal)
			}
		}
	}
	if in.body != nil && (in.cut || !b.c.wire.accepted()) {
		b.c.wire.reject(errLength)
		in.drop()
		in.cut = true
	}
	b.settle(&in)
}

// incoming is one FETCH response.
type incoming struct {
	uid  uint32
	size int64
	came bool           // there was a body; it may be NIL
	body *message.Spool // nil when the body was NIL or truncated
	cut  bool           // the body was truncated, or has another length than was announced
}

func (b *bodies) isAsked(s *imap.FetchItemBodySection) bool {
	partial := b.section != imap.PartSpecifierNone
	return s.Specifier == b.section && len(s.Part) == 0 && (s.Partial == nil || partial && s.Partial.Offset == 0)
}

// spool copies a literal. If that fails, it closes the connection, and so the command fails.
func (b *bodies) spool(lit imap.LiteralReader) (spool *message.Spool, cut bool) {
	spool = b.c.cfg.Spooler.New()
	spool.Expect(lit.Size())
	b.c.wire.open(lit.Size())
	lost, local := b.copy(spool, lit)
	if lost == nil && local == nil {
		return spool, false
	}
	_ = spool.Close()
	b.c.wire.kill()
	if local != nil {
		b.fail(b.c.localFailure(local))
		_, lost = io.Copy(io.Discard, lit) // the library waits until the literal is read or fails
	}
	if lost != nil {
		<-b.c.client.Closed() // until then the library may still read from the connection
	}
	return nil, true
}

// copy returns lost when the connection broke, and local when writing to the spool failed.
func (b *bodies) copy(spool *message.Spool, lit imap.LiteralReader) (lost, local error) {
	var size int64
	for {
		n, err := lit.Read(b.buf)
		size += int64(n)
		if _, err := spool.Write(b.buf[:n]); err != nil {
			return nil, err
		}
		switch {
		case errors.Is(err, io.EOF) && size == lit.Size():
			return nil, nil
		case err != nil:
			return err, nil
		}
	}
}

func (b *bodies) fail(err error) {
	if b.err == nil {
		b.err = err
	}
}

func (c *Conn) localFailure(err error) error {
	return &Error{Kind: KindLocal, Op: "fetch from folder", Host: c.host, Folder: c.folder, Err: err}
}

// settle records what a response means for its message.
func (b *bodies) settle(in *incoming) {
	switch state, wanted := b.state[in.uid]; {
	case in.cut:
		b.cut = in.uid
	case !wanted, state == settled:
		b.unwanted(in)
	case !in.came:
		b.state[in.uid] = seen
		b.changed()
	case in.body == nil || in.body.Size() == 0:
		in.drop()
		b.state[in.uid] = settled
		b.failed[in.uid] = errEmpty
	default:
		b.state[in.uid] = settled
		b.deliver(in)
	}
}

func (in *incoming) drop() {
	if in.body != nil {
		_ = in.body.Close()
	}
}

func (b *bodies) deliver(in *incoming) {
	if got := in.body.Size(); got != in.size && b.section == imap.PartSpecifierNone {
		b.c.cfg.Logger.DebugContext(b.ctx, "size differs from RFC822.SIZE", "imap", b.c.host, "folder", b.c.folder,
			"uid", in.uid, "announced", in.size, "received", got)
	}
	m, err := message.Parse(in.body)
	if err != nil {
		in.drop()
		b.fail(b.c.localFailure(err))
		b.c.wire.kill()
		return
	}
	b.c.wire.pause() // the server waits for us while the callback works
	defer b.c.wire.resume(smallAnswer)
	if b.err = b.each(in.uid, m); b.err != nil {
		b.c.wire.kill()
	}
}
