package pass

import (
	"context"
	"errors"
	"slices"

	"postrider/internal/imapsrc"
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
	listed    bool   // again, after the server did not send it
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
func (s *session) fetch(ctx context.Context, f *folder, batch []fetched) error {
	if err := s.fetchAs(ctx, f, batch, false, Source.Bodies); err != nil {
		return err
	}
	return s.fetchAs(ctx, f, batch, true, Source.Headers)
}

// fetcher is Source.Bodies or Source.Headers.
type fetcher func(
	src Source, ctx context.Context, uids []uint32, each func(uint32, *message.Message) error,
) (imapsrc.Result, error)

func (s *session) fetchAs(ctx context.Context, f *folder, batch []fetched, head bool, fetch fetcher) error {
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
	return s.within(ctx, f.row.Name, f.row.UIDValidity, func(src Source) error {
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
func (s *session) fetchListed(ctx context.Context, f *folder, batch []fetched) error {
	err := s.fetch(ctx, f, batch)
	if err == nil {
		err = s.keepListed(ctx, f, batch)
	}
	if err == nil {
		return s.fetch(ctx, f, batch)
	}
	for i := range batch { // perhaps they are not
		batch[i].gone = false
	}
	return err
}

// keepListed finds out which of the messages that did not come are gone: those that are not listed
// either, after the folder was opened again.
func (s *session) keepListed(ctx context.Context, f *folder, batch []fetched) error {
	var gone []uint32
	for _, it := range batch {
		if it.gone {
			gone = append(gone, it.meta.UID)
		}
	}
	if len(gone) == 0 {
		return nil
	}
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

// fetchBatch reads all messages of a batch: at once, and one by one after a connection broke.
func (s *session) fetchBatch(ctx context.Context, f *folder, batch []fetched) error {
	for alone := false; len(batch) > 0; {
		n, broke, err := s.fetchSome(ctx, f, batch, alone)
		if err != nil {
			return err
		}
		batch, alone = batch[n:], alone || broke
	}
	return nil
}

// fetchSome reads the messages of a batch, or only the first one, and returns how many at the front
// have a disposition now. If the connection broke, the first of the others has to be read alone: if
// that breaks it, too, it is the message's fault. An error is one that a new connection does not
// mend.
func (s *session) fetchSome(
	ctx context.Context, f *folder, batch []fetched, alone bool,
) (n int, broke bool, _ error) {
	if alone {
		batch = batch[:1]
	}
	head := batch[0].head
	err := s.fetchListed(ctx, f, batch)
	switch n = disposed(batch); {
	case err == nil:
		return n, false, nil
	case !s.again(ctx, err):
		return n, false, err
	case alone && n == 0 && batch[0].head == head:
		batch[0].err = err
		return 1, false, nil
	}
	return n, true, nil
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
