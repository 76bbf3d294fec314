package pass

import (
	"bytes"
	"context"
	"errors"
	"io"
	"maps"
	"slices"
	"sync"
	"testing"
	"time"

	"postrider/internal/imapsrc"
	"postrider/internal/message"
)

// fakeServer is one IMAP account.
type fakeServer struct {
	t     *testing.T
	spool *message.Spooler

	mu      sync.Mutex
	folders map[string]*fakeFolder
	open    int
	dials   int
	selects int
	fetched []uint32 // whole messages that were handed over
	reverse bool     // the last one comes first
	noIdle  bool
	missing error // what selecting a folder that is not there comes to

	arrivals chan struct{} // has an element when something arrived in INBOX since it was opened

	// hook is called before each operation with its name, dial, select, search, idle, poll,
	// describe, fetch or header, and for the last three with each UID. It may block, and what it
	// returns is what happens instead.
	hook func(ctx context.Context, op string, uid uint32) error
}

type fakeFolder struct {
	validity, next uint32
	mail           map[uint32][]byte
	shift          map[uint32]time.Duration // of INTERNALDATE, from the second that is the UID
	undated        map[uint32]bool          // those whose INTERNALDATE cannot be read
	sizes          map[uint32]int64         // RFC822.SIZE, where it is not that of the content
}

// budget is the memory that a server's bodies may take. There is no other: a spool that finds it
// used up fails.
const budget = 1 << 20

func newFakeServer(t *testing.T) *fakeServer {
	return &fakeServer{
		t: t, missing: errFolder, arrivals: make(chan struct{}, 1),
		spool:   &message.Spooler{Limit: budget, Budget: budget, Dir: "/nonexistent"},
		folders: map[string]*fakeFolder{"INBOX": {validity: 7, next: 1, mail: map[uint32][]byte{}}},
	}
}

// put stores messages with these subjects.
func (s *fakeServer) put(folder string, subjects ...string) (uids []uint32) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f := s.folders[folder]
	for _, subject := range subjects {
		f.mail[f.next] = fakeMail(subject)
		uids = append(uids, f.next)
		f.next++
	}
	if folder == "INBOX" && len(s.arrivals) == 0 {
		s.arrivals <- struct{}{}
	}
	return uids
}

// change changes a folder.
func (s *fakeServer) change(folder string, f func(*fakeFolder)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f(s.folders[folder])
}

// counts are how often something connected, and selected a folder.
func (s *fakeServer) counts() (dials, selects int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.dials, s.selects
}

// checkNothingLeft fails the test when a connection or a body was left open: the whole budget of
// memory has to be free.
func (s *fakeServer) checkNothingLeft(addr string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.open > 0 {
		s.t.Errorf("%d connections of %s were left open", s.open, addr)
	}
	all := s.spool.New()
	if _, err := all.Write(make([]byte, s.spool.Budget/2)); err != nil {
		s.t.Errorf("bodies of %s were left open: %v", addr, err)
	}
	_ = all.Close()
}

// failAt is a hook with which an operation fails, for these UIDs or for all.
func failAt(on string, err error, uids ...uint32) func(context.Context, string, uint32) error {
	return func(_ context.Context, op string, uid uint32) error {
		if op == on && (len(uids) == 0 || slices.Contains(uids, uid)) {
			return err
		}
		return nil
	}
}

// Trouble that a hook may return.
var (
	errExpunged = errors.New("expunged")
	errNetwork  = &imapsrc.Error{Kind: imapsrc.KindNetwork, Op: "fetch", Host: "imap", Err: io.ErrUnexpectedEOF}
	errRefused  = refusal(imapsrc.KindMessage, "fetch", "NO bad message")
	errFolder   = refusal(imapsrc.KindNoFolder, "select", "NO such folder")
	errLogin    = refusal(imapsrc.KindAuth, "log in", "NO wrong password")
)

// refusal is an answer of the server to a command.
func refusal(kind imapsrc.Kind, op, answer string) *imapsrc.Error {
	return &imapsrc.Error{Kind: kind, Op: op, Host: "imap", Err: errors.New(answer)}
}

func (s *fakeServer) do(ctx context.Context, op string, uid uint32) error {
	if s.hook != nil {
		if err := s.hook(ctx, op, uid); err != nil {
			return err
		}
	}
	if ctx.Err() != nil {
		return &imapsrc.Error{Kind: imapsrc.KindNetwork, Op: op, Host: "imap", Err: ctx.Err()}
	}
	return nil
}

func (s *fakeServer) dial(ctx context.Context) (Source, error) {
	s.mu.Lock()
	s.dials++
	s.mu.Unlock()
	if err := s.do(ctx, "dial", 0); err != nil {
		return nil, err
	}
	s.mu.Lock()
	s.open++
	s.mu.Unlock()
	return &fakeConn{server: s, turn: make(chan struct{}, 1), interrupted: make(chan struct{}, 1)}, nil
}

// fakeConn is one connection. It is for one caller at a time, and of no use after it broke.
type fakeConn struct {
	server *fakeServer
	turn   chan struct{}
	broken bool
	folder *fakeFolder

	interrupted chan struct{} // has an element when Idle is to end
}

func (c *fakeConn) do(ctx context.Context, op string, f func() error) error {
	select {
	case c.turn <- struct{}{}:
		defer func() { <-c.turn }()
	default:
		c.server.t.Errorf("%s: the connection is in use", op)
	}
	if c.broken {
		c.server.t.Errorf("%s: a connection that broke or was closed is used", op)
	}
	err := f()
	c.broken = c.broken || lost(err)
	return err
}

func (c *fakeConn) Select(ctx context.Context, name string) (info imapsrc.Folder, err error) {
	err = c.do(ctx, "select", func() error {
		if err := c.server.do(ctx, "select", 0); err != nil {
			return err
		}
		c.server.mu.Lock()
		defer c.server.mu.Unlock()
		c.server.selects++
		if len(c.server.arrivals) > 0 {
			<-c.server.arrivals
		}
		f := c.server.folders[name]
		if f == nil {
			return c.server.missing
		}
		c.folder = f
		info = imapsrc.Folder{Name: name, UIDValidity: f.validity, UIDNext: f.next, Messages: uint32(len(f.mail))}
		return nil
	})
	return info, err
}

func (c *fakeConn) UIDs(ctx context.Context, from, to uint32) (uids []uint32, err error) {
	err = c.do(ctx, "search", func() error {
		if err := c.server.do(ctx, "search", 0); err != nil {
			return err
		}
		c.server.mu.Lock()
		defer c.server.mu.Unlock()
		for _, uid := range slices.Sorted(maps.Keys(c.folder.mail)) {
			if from <= uid && uid <= to {
				uids = append(uids, uid)
			}
		}
		return nil
	})
	return uids, err
}

func (c *fakeConn) HighestUID(ctx context.Context) (uint32, error) {
	uids, err := c.UIDs(ctx, 1, 1<<32-1)
	if err != nil || len(uids) == 0 {
		return 0, err
	}
	return uids[len(uids)-1], nil
}

func (c *fakeConn) FirstSince(context.Context, uint32, time.Time) (uint32, error) {
	return 0, errors.ErrUnsupported
}

func (c *fakeConn) Metadata(ctx context.Context, uids []uint32) (metas []imapsrc.Meta, err error) {
	const op = "describe"
	err = c.do(ctx, op, func() error {
		for _, uid := range uids {
			if err := c.server.do(ctx, op, uid); err != nil {
				return err
			}
			if raw := c.raw(uid); raw != nil {
				metas = append(metas, c.meta(uid, raw))
			}
		}
		return nil
	})
	return metas, err
}

func (c *fakeConn) meta(uid uint32, raw []byte) imapsrc.Meta {
	c.server.mu.Lock()
	defer c.server.mu.Unlock()
	m := imapsrc.Meta{UID: uid, Size: int64(len(raw)), Received: time.Unix(int64(uid), 0).Add(c.folder.shift[uid])}
	if size, ok := c.folder.sizes[uid]; ok {
		m.Size = size
	}
	if c.folder.undated[uid] {
		m.Received = time.Time{}
	}
	return m
}

func (c *fakeConn) Described(ctx context.Context, from, to uint32) ([]imapsrc.Meta, error) {
	uids, err := c.UIDs(ctx, from, to)
	if err != nil {
		return nil, err
	}
	return c.Metadata(ctx, uids)
}

func (c *fakeConn) raw(uid uint32) []byte {
	c.server.mu.Lock()
	defer c.server.mu.Unlock()
	return c.folder.mail[uid]
}

// eachMessage is what Bodies and Headers call.
type eachMessage = func(uint32, *message.Message) error

func (c *fakeConn) Bodies(ctx context.Context, uids []uint32, each eachMessage) (imapsrc.Result, error) {
	res := imapsrc.Result{Failed: map[uint32]error{}}
	if uids = slices.Sorted(slices.Values(uids)); c.server.reverse {
		slices.Reverse(uids)
	}
	err := c.do(ctx, "fetch", func() error {
		for _, uid := range uids {
			err, raw := c.server.do(ctx, "fetch", uid), c.raw(uid)
			var large *imapsrc.TooLargeError
			switch {
			case errors.As(err, &large):
				res.Failed[uid] = err
				return errNetwork
			case errors.Is(err, errExpunged) || err == nil && raw == nil:
				res.Vanished = append(res.Vanished, uid)
			case errors.Is(err, errRefused):
				res.Failed[uid] = err
			case err != nil:
				return err
			default:
				c.server.mu.Lock()
				c.server.fetched = append(c.server.fetched, uid)
				c.server.mu.Unlock()
				if err := each(uid, spooled(c.server.t, c.server.spool, raw)); err != nil {
					return err
				}
			}
		}
		return nil
	})
	return res, err
}

func (c *fakeConn) Headers(ctx context.Context, uids []uint32, each eachMessage) (imapsrc.Result, error) {
	err := c.do(ctx, "header", func() error {
		for _, uid := range uids {
			if err := c.server.do(ctx, "header", uid); err != nil {
				return err
			}
			header, _, _ := bytes.Cut(c.raw(uid), []byte("\r\n\r\n"))
			m := spooled(c.server.t, c.server.spool, append(bytes.Clone(header), "\r\n\r\n"...))
			m.HeaderOnly = true
			if err := each(uid, m); err != nil {
				return err
			}
		}
		return nil
	})
	return imapsrc.Result{}, err
}

func (c *fakeConn) Idles() bool { return !c.server.noIdle }

func (c *fakeConn) Interrupt() {
	select {
	case c.interrupted <- struct{}{}:
	default:
	}
}

func (c *fakeConn) Idle(ctx context.Context, d time.Duration) (arrived bool, err error) {
	err = c.do(ctx, "idle", func() error {
		if err := c.server.do(ctx, "idle", 0); err != nil {
			return err
		}
		select {
		case one := <-c.server.arrivals:
			arrived = true
			c.server.arrivals <- one // until the folder is opened again
		case <-time.After(d):
		case <-c.interrupted:
		case <-ctx.Done():
		}
		return nil
	})
	return arrived, err
}

func (c *fakeConn) Poll(ctx context.Context, others []string) (arrived bool, state []imapsrc.Folder, err error) {
	err = c.do(ctx, "poll", func() error {
		if err := c.server.do(ctx, "poll", 0); err != nil {
			return err
		}
		arrived = len(c.server.arrivals) > 0
		c.server.mu.Lock()
		defer c.server.mu.Unlock()
		for _, name := range others {
			f := c.server.folders[name]
			state = append(state, imapsrc.Folder{
				Name: name, UIDValidity: f.validity, UIDNext: f.next, Messages: uint32(len(f.mail)),
			})
		}
		return nil
	})
	return arrived, state, err
}

func (c *fakeConn) Close() error {
	c.broken = true
	c.server.mu.Lock()
	defer c.server.mu.Unlock()
	c.server.open--
	return nil
}
