package imapsrc

import (
	"context"
	"errors"

	"github.com/emersion/go-imap/v2"
	"github.com/emersion/go-imap/v2/imapclient"
)

// maxSet is the longest set of UIDs in a command, in octets. It keeps the command below 1,000
// octets (RFC 2683 3.2.1.5).
const maxSet = 900

// fetcher fetches the same items of many messages. It asks again, one by one, for messages that the
// server did not send.
type fetcher struct {
	c       *Conn
	op      string
	options *imap.FetchOptions
	take    func(*imapclient.FetchMessageData) // handles one FETCH response, requested or not
	got     func(uid uint32) bool              // whether the message has come
}

// run returns the messages that the server refused, and those that do not exist.
func (f *fetcher) run(ctx context.Context, uids []uint32) (refused map[uint32]error, vanished []uint32, _ error) {
	for _, set := range sets(uids) {
		if err := f.fetch(ctx, set); err != nil && KindOf(err) != KindMessage {
			return nil, nil, err
		}
	}
	refused = map[uint32]error{}
	for _, uid := range uids {
		if f.got(uid) {
			continue
		}
		err := f.fetch(ctx, imap.UIDSetNum(imap.UID(uid)))
		e, failed := errors.AsType[*Error](err)
		switch {
		case f.got(uid):
		case !failed:
			vanished = append(vanished, uid)
		case e.Kind != KindMessage:
			e.UID = uid
			return refused, vanished, err
		default:
			if err := f.c.folderRefusal(ctx, uid, e); err != nil {
				return refused, vanished, err
			}
			refused[uid] = err
		}
	}
	return refused, vanished, nil
}

// refusal is the error for a NO or BAD to a FETCH. It concerns the message, unless the server names
// a limit on traffic.
func (c *Conn) refusal(no *imap.Error) *Error {
	e := &Error{Kind: KindMessage, Err: c.answer(no), BackOff: backOff(no.Text)}
	switch no.Code {
	case imap.ResponseCodeLimit, imap.ResponseCodeInUse, imap.ResponseCodeOverQuota:
		e.ambiguous = true
	}
	if throttled(no) {
		e.Kind = KindLimit
	}
	return e
}

// folderRefusal finds out whether an ambiguous refusal concerns more than one message. A SEARCH
// does not read the message: when the server refuses that too, the folder is locked or the account
// is over a limit, and the error says so.
func (c *Conn) folderRefusal(ctx context.Context, uid uint32, refused *Error) error {
	if !refused.ambiguous {
		return nil
	}
	one := imap.SearchCriteria{UID: []imap.UIDSet{imap.UIDSetNum(imap.UID(uid))}}
	_, err := c.search(ctx, &one, uid, uid)
	return err
}

// fetch runs one UID FETCH. A NO or BAD concerns the messages, see refusal.
func (f *fetcher) fetch(ctx context.Context, set imap.UIDSet) error {
	return f.c.do(ctx, f.op, smallAnswer, func() error {
		err := f.c.fetching(set, f.options, f.take)
		var no *imap.Error
		if errors.As(err, &no) {
			return f.c.refusal(no)
		}
		return err
	})
}

// fetching runs one UID FETCH, within do.
//
// The library gives a command only the responses whose UID comes before the data, and each UID
// once. It passes the others (the UID comes after the body, or a change of flags came first) to the
// handler of unilateral data, on another goroutine. Both go through handle to take, one at a time.
func (c *Conn) fetching(set imap.UIDSet, options *imap.FetchOptions, take func(*imapclient.FetchMessageData)) error {
	c.setTake(take)
	defer c.setTake(nil)
	cmd := c.client.Fetch(set, options)
	for msg := cmd.Next(); msg != nil; msg = cmd.Next() {
		c.handle(msg)
	}
	return cmd.Close()
}

// handle reads one FETCH response. The library reads the server's next response only after handle
// returned.
func (c *Conn) handle(msg *imapclient.FetchMessageData) {
	c.mu.Lock()
	defer c.mu.Unlock()
	defer c.wire.done()
	if c.take == nil {
		for msg.Next() != nil {
			continue
		}
		return
	}
	c.take(msg)
	c.wire.allow(smallAnswer)
}

// setTake waits until handle is done with the current response.
func (c *Conn) setTake(take func(*imapclient.FetchMessageData)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.take = take
}

// sets splits uids, which are sorted and unique, into sets of at most maxSet octets.
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
