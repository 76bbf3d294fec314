package imapsrc

import (
	"context"
	"errors"
	"slices"

	"github.com/emersion/go-imap/v2"
	"github.com/emersion/go-imap/v2/imapclient"
)

// maxSet is how long the set of UIDs in a command may be, in octets: the whole stays below 1,000 (RFC 2683 3.2.1.5).
const maxSet = 900

// fetcher fetches something of each message, and again alone for those that did not come.
type fetcher struct {
	c       *Conn
	op      string
	options *imap.FetchOptions
	take    func(*imapclient.FetchMessageData) // one FETCH response, wanted or not
	got     func(uid uint32) bool              // whether it has come
}

// run returns those that the server refused, and those that were not there.
func (f *fetcher) run(ctx context.Context, uids []uint32) (refused map[uint32]error, vanished []uint32, err *Error) {
	for _, set := range sets(uids) {
		if err := f.c.fetch(ctx, f, set); err != nil && !isRefusal(err) {
			return nil, nil, err
		}
	}
	refused = map[uint32]error{}
	for _, uid := range uids {
		if f.got(uid) {
			continue
		}
		err := f.c.fetch(ctx, f, imap.UIDSetNum(imap.UID(uid)))
		switch {
		case f.got(uid):
		case isRefusal(err):
			if busy := f.c.refusesMore(ctx, uid, err); busy != nil {
				return refused, vanished, busy
			}
			refused[uid] = err
		case err != nil:
			err.UID = uid
			return refused, vanished, err
		default:
			vanished = append(vanished, uid)
		}
	}
	return refused, vanished, nil
}

func isRefusal(err *Error) bool { return err != nil && err.Kind == KindMessage }

// refusal is a NO or BAD to a FETCH: the message's fault, unless the server names a limit on everything.
func (c *Conn) refusal(no *imap.Error) *Error {
	e := &Error{Kind: KindMessage, Err: c.answer(no), BackOff: backOff(no.Text)}
	switch no.Code {
	case imap.ResponseCodeLimit, imap.ResponseCodeInUse, imap.ResponseCodeOverQuota:
		e.unclear = true
	}
	if throttled(no) {
		e.Kind = KindLimit
	}
	return e
}

// refusesMore finds out whom an unclear refusal of one message is meant for: a search does not open the message, and is
// refused as well when the whole folder is locked or the account over a limit.
func (c *Conn) refusesMore(ctx context.Context, uid uint32, refused *Error) *Error {
	if !refused.unclear {
		return nil
	}
	_, err := c.UIDs(ctx, uid, uid)
	var e *Error
	errors.As(err, &e)
	return e
}

// fetch runs one UID FETCH.
//
// The library gives a command only those responses whose UID comes before the data, and each UID once. All others (a UID
// behind the body, a change of flags that came first) reach stray. Both end in f.take, one after the other.
func (c *Conn) fetch(ctx context.Context, f *fetcher, set imap.UIDSet) *Error {
	err := c.do(ctx, f.op, smallAnswer, func() error {
		if f.options.BodySection != nil {
			c.wire.ignoreData()
		}
		c.setTake(f.take)
		defer c.setTake(nil)
		cmd := c.client.Fetch(set, f.options)
		for msg := cmd.Next(); msg != nil; msg = cmd.Next() {
			c.handle(msg)
		}
		err := cmd.Close()
		var no *imap.Error
		if errors.As(err, &no) {
			return c.refusal(no)
		}
		return err
	})
	var e *Error
	errors.As(err, &e)
	return e
}

// asError keeps a nil *Error from becoming an error.
func asError(e *Error) error {
	if e == nil {
		return nil
	}
	return e
}

// stray runs on a goroutine of its own, and the server's next response is not read before it has taken the body.
func (c *Conn) stray(msg *imapclient.FetchMessageData) { c.handle(msg) }

func (c *Conn) handle(msg *imapclient.FetchMessageData) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.take == nil {
		for msg.Next() != nil {
			continue
		}
		return
	}
	c.take(msg)
	c.wire.allow(smallAnswer)
}

// setTake waits for a stray response that is being taken.
func (c *Conn) setTake(take func(*imapclient.FetchMessageData)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.take = take
}

// sets are the UIDs, which are sorted and unique, as sets short enough for a command.
func sets(uids []uint32) []imap.UIDSet {
	var out []imap.UIDSet
	size := 0
	for i := 0; i < len(uids); {
		j := i + 1
		for j < len(uids) && uids[j] == uids[j-1]+1 {
			j++
		}
		run := imap.UIDSet{{Start: imap.UID(uids[i]), Stop: imap.UID(uids[j-1])}}
		n := len(run.String()) + 1
		if size += n; len(out) == 0 || size > maxSet {
			out, size = append(out, nil), n
		}
		out[len(out)-1] = append(out[len(out)-1], run...)
		i = j
	}
	return out
}

func sortedUnique(uids []uint32) []uint32 {
	uids = slices.Clone(uids)
	slices.Sort(uids)
	return slices.Compact(uids)
}
