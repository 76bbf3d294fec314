package imapsrc

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/emersion/go-imap/v2"

	"postrider/internal/text"
)

// Since returns the UIDs of the open folder between from and to, both included, that were received
// on that day or later, in the server's time zone (RFC 3501 6.4.4). They are sorted and unique.
//
// The range is not part of the SEARCH, because some servers mistake the UIDs in it for message
// numbers. On some others, SEARCH finds nothing at all, see FirstSince.
func (c *Conn) Since(ctx context.Context, from, to uint32, day time.Time) ([]uint32, error) {
	from = max(from, 1)
	if from > to {
		return nil, nil
	}
	return c.search(ctx, &imap.SearchCriteria{Since: day}, from, to)
}

// FirstSince returns the lowest UID that Since finds up to a UID; 0 if there is none. It fails if
// nothing is found although the last message is new enough.
func (c *Conn) FirstSince(ctx context.Context, to uint32, day time.Time) (uint32, error) {
	uids, err := c.Since(ctx, 1, to, day)
	switch {
	case err != nil:
		return 0, err
	case len(uids) > 0:
		return uids[0], nil
	}
	last, err := c.HighestUID(ctx)
	if err != nil || last == 0 || last > to {
		return 0, err
	}
	metas, err := c.Metadata(ctx, []uint32{last})
	for _, m := range metas {
		if m.Received.After(day.AddDate(0, 0, 1)) { // in every time zone
			return 0, c.failure(ctx, opSearch, &Error{Kind: KindProtocol, Err: fmt.Errorf(
				"the server finds no message since %s, but that with UID %d arrived on %s; "+
					"choose another start: all, latest or now",
				day.Format(time.DateOnly), last, m.Received.Format(time.DateOnly))})
		}
	}
	return 0, err
}

const opSearch = "search folder"

// HighestUID returns the UID of the last message of the open folder; 0 if the folder is empty. It
// fails if the server shows none of the messages that are there. If a server reads "*" as a message
// number, it is the last message, too.
func (c *Conn) HighestUID(ctx context.Context) (uint32, error) {
	last := imap.UIDSet{imap.UIDRange{}} // "*"
	uids, err := c.search(ctx, &imap.SearchCriteria{UID: []imap.UIDSet{last}}, 1, 1<<32-1)
	if err == nil && len(uids) == 0 && c.messages > 0 {
		uids, err = c.UIDs(ctx, 1, 1<<32-1)
	}
	switch {
	case err != nil:
		return 0, err
	case len(uids) > 0:
		return uids[len(uids)-1], nil
	case c.messages > 0:
		err = fmt.Errorf("it has %s, and the server lists none", text.Count(int(c.messages), "message"))
		return 0, c.failure(ctx, opSearch, &Error{Kind: KindProtocol, Err: err})
	}
	return 0, nil
}

// search returns the UIDs that it finds in the range.
func (c *Conn) search(ctx context.Context, criteria *imap.SearchCriteria, from, to uint32) ([]uint32, error) {
	var uids []uint32
	err := c.do(ctx, opSearch, largeAnswer, func() error {
		if _, err := c.client.UIDSearch(criteria, nil).Wait(); err != nil {
			return err
		}
		for _, r := range c.wire.found() {
			start, stop := max(uint32(r.Start), from), min(uint32(r.Stop), to)
			if start > stop {
				continue
			}
			if uint64(stop)-uint64(start) >= uint64(maxUIDs-len(uids)) {
				return errTooManyUIDs()
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
	return sortedUnique(uids), nil
}

// maxUIDs is the largest number of messages that one command may find. largeAnswer limits UIDs that
// come as single numbers, but not a range (RFC 4731), which takes a few octets.
const maxUIDs = 8 << 20

func errTooManyUIDs() error {
	return &Error{Kind: KindProtocol, Err: fmt.Errorf("the server claims more than %d messages", maxUIDs)}
}

func sortedUnique(uids []uint32) []uint32 {
	uids = slices.Clone(uids)
	slices.Sort(uids)
	return slices.Compact(uids)
}
