package pass

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"

	"postrider/internal/inbox"
)

// scanner reads one inbox under its scan lease and registers what is new, in the order of its
// folders and UIDs. It sends nothing and claims nothing.
type scanner struct {
	pass       *Pass
	revision   string // of the rules in force
	in         inbox.Inbox
	log        *slog.Logger
	session    *session
	cache      *cache
	tally      *tally
	lease      inbox.Scan
	registered func() // called when there may be something to claim
}

// run scans all folders, and returns those that were scanned to their end. A folder that cannot be
// read is part of the error; the others go on.
func (s *scanner) run(ctx context.Context) (scanned []int64, _ error) {
	s.session.scanned.clear()
	folders, err := s.open(ctx)
	s.registered() // tasks of earlier passes may be due; their folders are in order by now
	errs := []error{err}
	for _, f := range folders {
		if fatal(ctx, errors.Join(errs...)) {
			break
		}
		if !f.row.Active {
			continue
		}
		err := s.folder(ctx, f)
		if errs = append(errs, err); err == nil {
			scanned = append(scanned, f.row.ID)
			s.session.scanned.add(f.row.Name, f.opened)
		}
		s.tally.change(func(r *InboxReport) { r.Counters.Backlog += f.left })
	}
	return scanned, errors.Join(append(errs, s.review(ctx))...)
}

// fatal reports whether an error ends the scan of all folders. A broken connection may be due to
// one folder, so the next folder gets a new connection.
func fatal(ctx context.Context, err error) bool {
	return ctx.Err() != nil || errors.As(err, new(*dialError)) || scanLost(err)
}

func (s *scanner) folder(ctx context.Context, f *folder) error {
	if err := s.catchUp(ctx, f); err != nil || s.pass.Config.DryRun {
		return err
	}
	return s.baseline(ctx, f)
}

// firstPage is how many messages are in the first page, at most: sending begins with them while the
// rest is being read.
const firstPage = 16

// catchUp registers what lies between the cursor and the end of the folder.
func (s *scanner) catchUp(ctx context.Context, f *folder) error {
	f.left = 0
	most := min(firstPage, s.pass.Config.Page)
	if f.row.LastSeenUID < f.next {
		f.left = int(f.next - 1 - f.row.LastSeenUID)
	}
	for w := newWindow(f.row.LastSeenUID+1, f.next); w.more(); {
		uids, err := s.session.list(ctx, f, w.from, w.to)
		if err != nil {
			return err
		}
		beyond := int(f.next - 1 - w.to) // not searched yet: at most as many
		f.left = len(uids) + beyond
		s.pass.Observer.Expect(len(uids))
		for rest := uids; len(rest) > 0; {
			page := rest[:min(len(rest), most)]
			most = s.pass.Config.Page
			if err := s.page(ctx, f, page); err != nil {
				registered, _ := slices.BinarySearch(uids, f.row.LastSeenUID+1)
				f.left = len(uids) - registered + beyond
				return err
			}
			rest = rest[len(page):]
		}
		f.left = beyond
		w.advance(len(uids))
	}
	return s.reconciled(ctx, f)
}

// reconciled records that all messages of the folder's epoch have been compared with what is
// registered: tasks of older epochs that have not found their messages by now have lost them.
func (s *scanner) reconciled(ctx context.Context, f *folder) error {
	if f.compared() || s.pass.Config.DryRun {
		return nil
	}
	f.row.Reconciled = f.row.UIDValidity
	if !f.row.Active {
		f.row.LastSeenUID = 0
	}
	err := s.pass.Inboxes.Reconciled(ctx, s.lease, f.row.ID, f.row.UIDValidity)
	s.registered() // what waits for that may be claimed now
	return err
}

// baselinePage is how many messages from before the start are noted in one transaction.
const baselinePage = 500

// baseline notes the outlines of the messages that were there before the start, so that they are
// recognised if UIDVALIDITY changes. It continues where an earlier pass was interrupted.
func (s *scanner) baseline(ctx context.Context, f *folder) error {
	for w := newWindow(f.row.BaselineUID+1, f.row.StartUID+1); w.more(); {
		uids, err := s.session.list(ctx, f, w.from, w.to)
		if err != nil {
			return err
		}
		for part := range slices.Chunk(uids, baselinePage) {
			if err := s.noteBaseline(ctx, f, part, part[len(part)-1]); err != nil {
				return err
			}
		}
		if err := s.noteBaseline(ctx, f, nil, w.to); err != nil {
			return err
		}
		w.advance(len(uids))
	}
	return nil
}

func (s *scanner) noteBaseline(ctx context.Context, f *folder, uids []uint32, upTo uint32) error {
	metas, failed := s.session.metadata(ctx, f, uids)
	if failed != nil {
		if len(metas) == 0 {
			return failed
		}
		upTo = metas[len(metas)-1].UID
	}
	page := s.newPage(f, upTo)
	for _, m := range metas {
		page.Entries = append(page.Entries, outlined(m))
	}
	if err := s.pass.Queue.Baseline(ctx, page); err != nil {
		return fmt.Errorf("%s: %w", f, err)
	}
	f.row.BaselineUID = upTo
	return failed
}
