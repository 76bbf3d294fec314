package imapsrc

import (
	"context"
	"slices"
	"time"

	"github.com/emersion/go-imap/v2"
	"github.com/emersion/go-imap/v2/imapclient"
)

// Meta is what the server knows about a message without reading its body.
type Meta struct {
	UID      uint32
	Size     int64     // RFC822.SIZE in octets; the body may differ; 0 when unknown
	Received time.Time // INTERNALDATE, in UTC; zero when unknown
	flagged  bool      // flags came with it, which were not asked for
}

// described are the items of a Meta.
func described() *imap.FetchOptions {
	return &imap.FetchOptions{UID: true, RFC822Size: true, InternalDate: true}
}

// Metadata returns the messages sorted by UID. A message that is missing has vanished. A message
// that the server refuses to describe has only its UID. Together with an error, it returns the
// messages whose data certainly arrived complete before the error: nothing is known about the
// others.
func (c *Conn) Metadata(ctx context.Context, uids []uint32) ([]Meta, error) {
	uids = sortedUnique(uids)
	found := make(map[uint32]Meta, len(uids))
	var last uint32 // the one that came last
	f := &fetcher{c: c, op: "fetch sizes and dates from folder", options: described()}
	f.take = func(msg *imapclient.FetchMessageData) {
		m := readMeta(msg)
		last = m.UID
		if _, wanted := slices.BinarySearch(uids, m.UID); wanted && found[m.UID].Size == 0 {
			found[m.UID] = m
		}
	}
	f.got = func(uid uint32) bool { return found[uid].Size != 0 }
	refused, _, err := f.run(ctx, uids)
	if err != nil {
		delete(found, last) // it may be cut off
	}
	for uid := range refused {
		found[uid] = Meta{UID: uid}
	}
	return inOrder(found), err
}

func readMeta(msg *imapclient.FetchMessageData) Meta {
	var m Meta
	for item := msg.Next(); item != nil; item = msg.Next() {
		switch item := item.(type) {
		case imapclient.FetchItemDataUID:
			m.UID = uint32(item.UID)
		case imapclient.FetchItemDataFlags:
			m.flagged = true
		case imapclient.FetchItemDataRFC822Size:
			m.Size = item.Size
		case imapclient.FetchItemDataInternalDate:
			if !item.Time.Equal(noDate) {
				m.Received = item.Time.UTC()
			}
		}
	}
	return m
}
