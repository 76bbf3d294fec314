package imapsrc

import (
	"context"
	"errors"
	"slices"

	"github.com/emersion/go-imap/v2"
	"github.com/emersion/go-imap/v2/imapclient"
)

// UIDs returns the UIDs of the open folder between from and to, both included, sorted and unique.
//
// It asks with FETCH, not with SEARCH: some servers (GNU imap4d) mistake the UIDs in a SEARCH for
// message numbers, and so do not find messages that are there.
func (c *Conn) UIDs(ctx context.Context, from, to uint32) ([]uint32, error) {
	from = max(from, 1)
	if from > to {
		return nil, nil
	}
	var uids, flagged []uint32
	take := func(m Meta) {
		switch {
		case m.UID < from || m.UID > to: // servers answer a range past the end with the last message
		case m.flagged:
			flagged = append(flagged, m.UID)
		default:
			uids = append(uids, m.UID)
		}
	}
	onlyUID := &imap.FetchOptions{UID: true}
	err := c.list(ctx, imap.UIDSet{{Start: imap.UID(from), Stop: imap.UID(to)}}, onlyUID, take)
	if err != nil {
		return nil, err
	}
	// Nobody asked for flags: they changed, perhaps because the message was about to be expunged.
	uids, again := sortedUnique(uids), sortedUnique(flagged)
	again = slices.DeleteFunc(again, func(uid uint32) bool {
		_, sure := slices.BinarySearch(uids, uid)
		return sure
	})
	flagged = nil
	for _, set := range sets(again) {
		if err := c.list(ctx, set, onlyUID, take); err != nil {
			return nil, err
		}
	}
	return sortedUnique(append(uids, flagged...)), nil
}

// Described is UIDs with the Metadata of the messages, in one command.
func (c *Conn) Described(ctx context.Context, from, to uint32) ([]Meta, error) {
	from = max(from, 1)
	if from > to {
		return nil, nil
	}
	found := map[uint32]Meta{}
	set := imap.UIDSet{{Start: imap.UID(from), Stop: imap.UID(to)}}
	err := c.list(ctx, set, described(), func(m Meta) {
		if from <= m.UID && m.UID <= to && found[m.UID].Size == 0 {
			found[m.UID] = m
		}
	})
	if refusal := new(Error); errors.As(err, &refusal) && refusal.refused { // perhaps one message only
		uids, err := c.UIDs(ctx, from, to)
		if err != nil {
			return nil, err
		}
		return c.Metadata(ctx, uids)
	}
	if err != nil {
		return nil, err
	}
	return inOrder(found), nil
}

// list runs one UID FETCH of data that is no message's content. A folder without messages may be
// refused: some servers have no other answer there.
func (c *Conn) list(ctx context.Context, set imap.UIDSet, options *imap.FetchOptions, each func(Meta)) error {
	responses := 0
	return c.do(ctx, "list the messages of folder", smallAnswer, func() error {
		err := c.fetching(set, options, func(msg *imapclient.FetchMessageData) {
			m := readMeta(msg)
			if responses++; responses > maxUIDs {
				c.wire.kill()
				return
			}
			each(m)
		})
		var no *imap.Error
		switch {
		case responses > maxUIDs:
			return errTooManyUIDs()
		case errors.As(err, &no) && c.messages == 0:
			return nil
		case errors.As(err, &no):
			return &Error{
				Kind: kindOf(no, KindUnavailable), Err: c.answer(no), BackOff: backOff(no.Text), refused: true,
			}
		}
		return err
	})
}

func inOrder(found map[uint32]Meta) []Meta {
	out := make([]Meta, 0, len(found))
	for _, m := range found {
		out = append(out, m)
	}
	slices.SortFunc(out, func(a, b Meta) int { return int(int64(a.UID) - int64(b.UID)) })
	return out
}
