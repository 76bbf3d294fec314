package pass

import (
	"cmp"
	"context"
	"slices"

	"postrider/internal/imapsrc"
)

// metadata asks the server for the size and date of the messages. When the connection breaks, it
// keeps what came, asks for the first missing message by itself, and then for twice as many each
// time. A message that breaks the connection even by itself is returned with only its UID, so that
// the others go on. With an error it returns the first messages, without a gap.
func (s *session) metadata(ctx context.Context, f *folder, uids []uint32) ([]imapsrc.Meta, error) {
	var all []imapsrc.Meta
	byUID := func(a, b imapsrc.Meta) int { return cmp.Compare(a.UID, b.UID) }
	for n := len(uids); len(uids) > 0; {
		part := uids[:min(n, len(uids))]
		metas, err := s.describe(ctx, f, part)
		all = append(all, metas...)
		if err == nil {
			uids, n = uids[len(part):], 2*n
			continue
		}
		uids = slices.DeleteFunc(slices.Clone(uids), func(uid uint32) bool {
			return slices.ContainsFunc(metas, func(m imapsrc.Meta) bool { return m.UID == uid })
		})
		switch again := s.again(ctx, err); {
		case !again:
			all = slices.DeleteFunc(all, func(m imapsrc.Meta) bool { return len(uids) > 0 && m.UID > uids[0] })
			slices.SortFunc(all, byUID)
			return all, err
		case len(part) == 1 && len(metas) == 0:
			s.log.Warn("a message breaks the connection when the server describes it",
				"folder", f.row.Name, "uid", part[0], "error", err)
			all, uids = append(all, imapsrc.Meta{UID: part[0]}), uids[1:]
		default:
			n = 1
		}
	}
	slices.SortFunc(all, byUID)
	return all, nil
}

// present is metadata of the messages that are there. One that the server does not describe is gone
// only if the server does not list it any more, either. If it does, the server has a fault, and
// nothing is known of the message but its UID. With an error, present returns the messages up to
// the first one that was not described.
func (s *session) present(ctx context.Context, f *folder, uids []uint32) (there []imapsrc.Meta, _ error) {
	metas, err := s.metadata(ctx, f, uids)
	if err != nil { // whether the others are there is not known
		n := 0
		for n < len(metas) && metas[n].UID == uids[n] {
			n++
		}
		return metas[:n], err
	}
	if len(metas) == len(uids) && !slices.ContainsFunc(metas, isUndescribed) {
		return metas, nil
	}
	listed, err := s.listAgain(ctx, f, uids[0], uids[len(uids)-1])
	if err != nil {
		return nil, err
	}
	said := map[uint32]imapsrc.Meta{}
	for _, m := range metas {
		said[m.UID] = m
	}
	faults := 0
	for _, uid := range uids {
		m := said[uid]
		if isUndescribed(m) {
			if _, ok := slices.BinarySearch(listed, uid); !ok {
				continue
			}
			m = imapsrc.Meta{UID: uid}
			faults++
		}
		there = append(there, m)
	}
	if faults > 0 {
		s.log.Warn("the server lists messages, and does not describe them", "folder", f.row.Name, "messages", faults)
	}
	return there, nil
}

// isUndescribed reports whether the server said nothing of a message. Before it is expunged, a
// server may send its flags alone.
func isUndescribed(m imapsrc.Meta) bool { return m.Size <= 0 && m.Received.IsZero() }

func (s *session) describe(ctx context.Context, f *folder, uids []uint32) (metas []imapsrc.Meta, err error) {
	err = s.within(ctx, f.row.Name, f.row.UIDValidity, func(src Source) error {
		metas, err = src.Metadata(ctx, uids)
		return err
	})
	return metas, err
}

// described lists the messages of a range with what the server says about them, in one command. If
// the server then breaks the connection, it asks only for the UIDs.
func (s *session) described(ctx context.Context, f *folder, from, to uint32) (metas []imapsrc.Meta, err error) {
	err = s.within(ctx, f.row.Name, f.row.UIDValidity, func(src Source) error {
		metas, err = src.Described(ctx, from, to)
		return err
	})
	if err == nil || !s.again(ctx, err) {
		return metas, err
	}
	uids, err := s.list(ctx, f, from, to)
	if err != nil {
		return nil, err
	}
	metas = nil
	for _, uid := range uids {
		metas = append(metas, imapsrc.Meta{UID: uid})
	}
	return metas, nil
}
