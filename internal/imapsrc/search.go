package imapsrc

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/emersion/go-imap/v2"
)

// maxUIDs is the largest number of UIDs that one search may find. largeAnswer limits UIDs that come
// as single numbers, but not a range (RFC 4731), which takes a few octets.
const maxUIDs = 8 << 20

// UIDs returns the UIDs of the open folder between from and to, both included, sorted and unique.
func (c *Conn) UIDs(ctx context.Context, from, to uint32) ([]uint32, error) {
	return c.between(ctx, from, to, imap.SearchCriteria{})
}

// Since is UIDs for messages received on that day or later, in the server's time zone (RFC 3501
// 6.4.4).
func (c *Conn) Since(ctx context.Context, from, to uint32, day time.Time) ([]uint32, error) {
	return c.between(ctx, from, to, imap.SearchCriteria{Since: day})
}

// HighestUID returns the UID of the last message; 0 when the folder is empty. It is for servers
// without UIDNEXT.
func (c *Conn) HighestUID(ctx context.Context) (uint32, error) {
	last := imap.UIDSet{imap.UIDRange{}} // "*"
	uids, err := c.search(ctx, &imap.SearchCriteria{UID: []imap.UIDSet{last}}, 1, 1<<32-1)
	if err != nil || len(uids) == 0 {
		return 0, err
	}
	return uids[len(uids)-1], nil
}

func (c *Conn) between(ctx context.Context, from, to uint32, criteria imap.SearchCriteria) ([]uint32, error) {
	from = max(from, 1)
	if from > to {
		return nil, nil
	}
	criteria.UID = []imap.UIDSet{{imap.UIDRange{Start: imap.UID(from), Stop: imap.UID(to)}}}
	return c.search(ctx, &criteria, from, to)
}

// search drops UIDs outside of the range: servers answer a range past the end with the last message
// (RFC 3501 6.4.8 allows that for "n:*").
func (c *Conn) search(ctx context.Context, criteria *imap.SearchCriteria, from, to uint32) ([]uint32, error) {
	var uids []uint32
	err := c.do(ctx, "search folder", largeAnswer, func() error {
		if _, err := c.client.UIDSearch(criteria, nil).Wait(); err != nil {
			return err
		}
		for _, r := range c.wire.found() {
			start, stop := max(uint32(r.Start), from), min(uint32(r.Stop), to)
			if start > stop {
				continue
			}
			if uint64(stop)-uint64(start) >= uint64(maxUIDs-len(uids)) {
				return &Error{Kind: KindProtocol, Err: fmt.Errorf("the server claims more than %d messages", maxUIDs)}
			}
			for uid := uint64(start); uid <= uint64(stop); uid++ {
				uids = append(uids, uint32(uid))
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	slices.Sort(uids)
	return slices.Compact(uids), nil
}
