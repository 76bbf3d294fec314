package pass

import (
	"context"

	"postrider/internal/imapsrc"
	"postrider/internal/tasks"
)

// A mail store that was restored from a backup keeps UIDVALIDITY and gives out UIDs a second time,
// from the first one that the backup does not have. So the newest messages tell whether it did.

// maxDoubts is the number of messages with a different size or date whose content is read, the
// newest first.
const maxDoubts = 5

// reused collects what shows that a folder gave out UIDs a second time. Messages are added by
// ascending UID.
type reused struct {
	max      int64  // octets of a message that may be read for this
	uid      uint32 // the newest UID that has another message than the registered one; 0 for none
	unread   uint32 // the newest UID whose content would have to decide, and cannot be read; 0 for none
	doubtful []doubt
}

// doubt is a message whose content has to decide.
type doubt struct {
	noted tasks.Noted
	now   imapsrc.Meta
}

func stated(m imapsrc.Meta) tasks.Stated { return tasks.Stated{Received: m.Received, Size: m.Size} }

// add compares a message with what is noted of its UID.
func (r *reused) add(n tasks.Noted, m imapsrc.Meta) {
	date, size := n.Stated.Differs(stated(m))
	switch like := n.Like(stated(m)); {
	case like == tasks.Another, like == tasks.Doubtful && m.Size > r.max && date && size:
		r.uid = m.UID
	case like == tasks.Doubtful && m.Size <= r.max:
		r.doubtful = append(r.doubtful, doubt{n, m})
		r.doubtful = r.doubtful[max(0, len(r.doubtful)-maxDoubts):]
	}
}

// settle reads the contents that have to decide. It returns what the server says now about messages
// that turned out to be the same. A message that cannot be read decides nothing, see unread.
func (r *reused) settle(ctx context.Context, s *session, f *folder) (map[uint32]tasks.Stated, error) {
	if r.uid != 0 || len(r.doubtful) == 0 {
		return nil, nil
	}
	batch := make([]fetched, len(r.doubtful))
	for i, d := range r.doubtful {
		batch[i].meta = d.now
	}
	defer discard(batch)
	if err := s.fetchBatch(ctx, f, batch); err != nil {
		if ctx.Err() != nil || !lost(err) {
			return nil, err
		}
		s.log.Warn("messages whose size or date has changed could not be read", "folder", f.row.Name, "error", err)
	}
	same := map[uint32]tasks.Stated{}
	for i, d := range r.doubtful {
		switch msg := batch[i].msg; {
		case msg == nil && batch[i].gone:
		case msg == nil:
			r.unread = d.now.UID
		case msg.Fingerprint != d.noted.Fingerprint:
			r.uid = d.now.UID
		default:
			same[d.now.UID] = stated(d.now)
		}
	}
	return same, nil
}

// lookBackUIDs is how many UIDs below the cursor each pass looks at again.
const lookBackUIDs = 200

// lookBack looks again at the newest messages below the cursor. It registers those that the server
// showed late or again, and begins a new epoch when the server gave a UID to another message. It
// comes before anything that moves the cursor: otherwise a pass that is killed could leave such a
// message behind.
func (s *scanner) lookBack(ctx context.Context, f *folder) error {
	if f.row.InitializedAt == nil || f.opened.Messages == 0 {
		return nil
	}
	cursor := f.row.LastSeenUID
	from, to := cursor-min(cursor, lookBackUIDs)+1, cursor
	if f.next == cursor+1 { // the server says that there is nothing new, and may be wrong
		to += min(lookBackUIDs, 1<<32-1-cursor)
	}
	if from > to {
		return nil
	}
	noted, err := s.pass.Queue.Noted(ctx, f.row.ID, f.row.UIDValidity, from, cursor)
	if err != nil {
		return err
	}
	metas, err := s.session.described(ctx, f, from, to)
	if err != nil {
		return err
	}
	late, err := s.compare(ctx, f, noted, metas)
	if err != nil || len(late) == 0 {
		return err
	}
	s.log.Info("the server showed messages late, or again", "folder", f.row.Name, "messages", len(late))
	s.pass.Observer.Expect(len(late))
	return s.page(ctx, f, late)
}

// compare compares messages with the ledger, and returns the UIDs of those that are to be
// registered: the ledger should have them and does not, or their tasks ended because they were
// gone.
func (s *scanner) compare(
	ctx context.Context, f *folder, noted []tasks.Noted, metas []imapsrc.Meta,
) (late []uint32, err error) {
	known := make(map[uint32]tasks.Noted, len(noted))
	for _, n := range noted {
		known[n.UID] = n
	}
	again := reused{max: s.pass.Config.MaxSize}
	for _, m := range metas {
		n, ok := known[m.UID]
		if ok {
			again.add(n, m)
		}
		switch {
		case m.UID > f.row.LastSeenUID:
			f.next = max(f.next, m.UID+1)
		case !f.row.Active, ok && !n.Gone():
		case ok, m.UID <= f.row.BaselineUID, m.UID > f.row.StartUID:
			late = append(late, m.UID)
		}
	}
	same, err := again.settle(ctx, s.session, f)
	switch {
	case err != nil:
		return nil, err
	case again.uid != 0:
		s.log.Warn("the server gave the UID of a message to another one; "+
			"all messages are compared with what is registered",
			"folder", f.row.Name, "uid", again.uid)
		return nil, s.newEpoch(ctx, uint32(f.row.UIDValidity), f)
	case len(same) > 0 && !s.pass.Config.DryRun:
		s.log.Info("the server states another size or date for messages that are the same",
			"folder", f.row.Name, "messages", len(same))
		return late, s.pass.Queue.Restate(ctx, f.row.ID, f.row.UIDValidity, same)
	}
	return late, nil
}
