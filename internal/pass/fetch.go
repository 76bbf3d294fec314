package pass

import (
	"context"
	"errors"
	"slices"

	"postrider/internal/imapsrc"
	"postrider/internal/inbox"
	"postrider/internal/message"
)

// fetched is one message of a page or of a batch of claims, as far as it could be had.
type fetched struct {
	meta imapsrc.Meta
	msg  *message.Message // nil when it was not fetched
	head bool             // only the header is fetched
	// notice says that only the header is fetched when the body turns out to be too large.
	notice    bool
	announced int64  // the size of such a body, octets; 0 for others
	skip      string // why it is not fetched on purpose
	listed    bool   // again, after the server did not describe it, or did not send it
	gone      bool   // expunged between the listing and the fetch
	err       error  // why it could not be fetched
}

// disposed reports whether it is known what to do with the message.
func (f fetched) disposed() bool { return f.msg != nil || f.skip != "" || f.gone || f.err != nil }

// errListed is what is wrong with a message that was not expunged.
var errListed = errors.New("the server lists the message, and does not send it")

// vanished notes that the server did not send the message.
func (f *fetched) vanished() {
	if f.listed {
		f.err = errListed
	} else {
		f.gone = true
	}
}

// disposed is how many messages at the front of the batch have a disposition.
func disposed(batch []fetched) int {
	for i, it := range batch {
		if !it.disposed() {
			return i
		}
	}
	return len(batch)
}

// notGone notes that nothing is known of messages that did not come, because of err.
func notGone(batch []fetched, err error) error {
	for i := range batch {
		batch[i].gone = false
	}
	return err
}

// discard closes what was fetched, and forgets what was not.
func discard(batch []fetched) {
	for i := range batch {
		it := &batch[i]
		if it.msg != nil {
			_ = it.msg.Close()
		}
		it.msg, it.gone, it.err = nil, false, nil
	}
}

// fetch reads the messages of a batch into it, whole or the header alone.
func (s *session) fetch(ctx context.Context, folder string, epoch int64, batch []fetched) error {
	if err := s.fetchAs(ctx, folder, epoch, batch, false, Source.Bodies); err != nil {
		return err
	}
	return s.fetchAs(ctx, folder, epoch, batch, true, Source.Headers)
}

// fetcher is Source.Bodies or Source.Headers.
type fetcher func(
	src Source, ctx context.Context, uids []uint32, each func(uint32, *message.Message) error,
) (imapsrc.Result, error)

func (s *session) fetchAs(
	ctx context.Context, folder string, epoch int64, batch []fetched, head bool, fetch fetcher,
) error {
	at := make(map[uint32]*fetched, len(batch))
	var uids []uint32
	for i := range batch {
		if it := &batch[i]; it.head == head && !it.disposed() {
			at[it.meta.UID] = it
			uids = append(uids, it.meta.UID)
		}
	}
	if len(uids) == 0 {
		return nil
	}
	return s.within(ctx, folder, epoch, func(src Source) error {
		res, err := fetch(src, ctx, uids, func(uid uint32, m *message.Message) error {
			if it := at[uid]; it != nil && it.msg == nil {
				it.msg = m
				return nil
			}
			return m.Close() // not asked for, or twice
		})
		for _, uid := range res.Vanished {
			at[uid].vanished()
		}
		for uid, why := range res.Failed {
			at[uid].refused(why)
		}
		return err
	})
}

// fetchListed is fetch, and asks once more for what did not come and is still listed: the folder
// may have been opened before a message arrived, and a server may show a folder as it was then.
// When anything fails before that is known, no message counts as gone.
func (s *session) fetchListed(
	ctx context.Context, name string, epoch int64, batch []fetched,
	fetch func(ctx context.Context, name string, epoch int64, batch []fetched) error,
) error {
	err := fetch(ctx, name, epoch, batch)
	if err == nil {
		err = s.keepListed(ctx, name, epoch, batch)
	}
	if err != nil {
		return notGone(batch, err)
	}
	return fetch(ctx, name, epoch, batch)
}

// keepListed finds out which of the messages that did not come are gone: those that are not listed
// either, after the folder was opened again.
func (s *session) keepListed(ctx context.Context, name string, epoch int64, batch []fetched) error {
	var gone []uint32
	for _, it := range batch {
		if it.gone {
			gone = append(gone, it.meta.UID)
		}
	}
	if len(gone) == 0 {
		return nil
	}
	f := &folder{row: inbox.Folder{Name: name, UIDValidity: epoch}}
	listed, err := s.listAgain(ctx, f, slices.Min(gone), slices.Max(gone))
	if err != nil {
		return err
	}
	for i := range batch {
		if it := &batch[i]; it.gone {
			_, it.listed = slices.BinarySearch(listed, it.meta.UID)
			it.gone = !it.listed
		}
	}
	return nil
}

// fetchBatch is fetchListed for a whole batch, also when connections break.
func (s *session) fetchBatch(ctx context.Context, name string, epoch int64, batch []fetched) error {
	return s.fetchListed(ctx, name, epoch, batch, s.fetchOneByOne)
}

// fetchOneByOne fetches all at once, and after a broken connection what is left one by one, so that
// a message that breaks it is found, and is the only one to be blamed.
func (s *session) fetchOneByOne(ctx context.Context, folder string, epoch int64, batch []fetched) error {
	err := s.fetch(ctx, folder, epoch, batch)
	if err == nil || !s.again(ctx, err) {
		return err
	}
	for i := range batch {
		if err := s.fetchAlone(ctx, folder, epoch, batch[i:i+1]); err != nil {
			return err
		}
	}
	return nil
}

// fetchAlone fetches one message. If that breaks the connection, it is the message's fault.
func (s *session) fetchAlone(ctx context.Context, folder string, epoch int64, one []fetched) error {
	for !one[0].disposed() {
		head := one[0].head
		err := s.fetch(ctx, folder, epoch, one)
		switch {
		case err == nil:
			return nil
		case !s.again(ctx, err):
			return err
		case !one[0].disposed() && one[0].head == head:
			one[0].err = err
		}
	}
	return nil
}

// list lists the UIDs of a range that have a message.
func (s *session) list(ctx context.Context, f *folder, from, to uint32) (uids []uint32, err error) {
	err = s.retry(ctx, func() error {
		return s.within(ctx, f.row.Name, f.row.UIDValidity, func(src Source) error {
			uids, err = src.UIDs(ctx, from, to)
			return err
		})
	})
	return uids, err
}

// listAgain is list after the folder was opened again. Before that, a server may go on to list
// messages that another client has expunged.
func (s *session) listAgain(ctx context.Context, f *folder, from, to uint32) ([]uint32, error) {
	err := s.reopen(ctx, f.row.Name, func(Source, imapsrc.Folder) error { return nil })
	if err != nil {
		return nil, err
	}
	return s.list(ctx, f, from, to)
}
