package pass

import (
	"context"
	"errors"
	"fmt"

	"postrider/internal/forward"
	"postrider/internal/imapsrc"
	"postrider/internal/message"
	"postrider/internal/tasks"
)

// maxBatchOctets bounds what one fetch of a page takes of the disk. Many inboxes are worked on at
// once, and the prefetch cache of each holds two batches.
const maxBatchOctets = 16 << 20

// page gives each of the UIDs its disposition. A page is split if it would take too much disk
// space, and if a connection breaks: what was received before the break is registered. A message
// whose fetch breaks the connection twice is registered without its content, so that it does not
// hold up the messages after it.
func (s *scanner) page(ctx context.Context, f *folder, uids []uint32) error {
	unseen, err := s.pass.Queue.Unseen(ctx, f.row.ID, f.row.UIDValidity, uids)
	if err != nil {
		return err
	}
	s.pass.Observer.Done(len(uids) - len(unseen))
	metas, failed := s.session.present(ctx, f, unseen)
	rest := s.toFetch(metas)
	last := uids[len(uids)-1]
	switch {
	case failed == nil:
		s.pass.Observer.Done(len(unseen) - len(rest))
	case len(rest) == 0:
		return failed
	default: // what came is registered
		last = rest[len(rest)-1].meta.UID
	}
	for broke := false; len(rest) > 0; {
		if err := s.cache.wait(ctx); err != nil {
			return err
		}
		batch, n := rest[:fits(rest)], 0
		if n, broke, err = s.session.fetchSome(ctx, f, batch, broke); err != nil {
			discard(batch)
			return err
		}
		discard(batch[n:])
		if rest = rest[n:]; n == 0 {
			continue
		}
		cursor := last
		if len(rest) > 0 {
			cursor = rest[0].meta.UID - 1
		}
		if err := s.register(ctx, f, batch[:n], cursor); err != nil {
			return err
		}
		clear(batch[:n]) // a header may take 1 MiB of memory
	}
	if f.moves() && f.row.LastSeenUID < last { // nothing behind the last one registered had to be
		return s.register(ctx, f, nil, last)
	}
	return failed
}

// toFetch are the messages of a page, and what is to be fetched of each.
func (s *scanner) toFetch(metas []imapsrc.Meta) []fetched {
	page := make([]fetched, len(metas))
	for i, m := range metas {
		page[i] = fetched{meta: m, notice: s.pass.Config.Notices}
		if large := m.Size > s.pass.Config.MaxSize; large && s.pass.Config.Notices {
			page[i].head = true
		} else if large {
			page[i].skip = tooLarge(m.Size, s.pass.Config.MaxSize)
		}
	}
	return page
}

// fits is how many of the messages are fetched at once: as many as fit on the disk, but at least
// one.
func fits(page []fetched) int {
	octets := int64(0)
	for i, it := range page {
		if !it.head && it.skip == "" {
			octets += it.meta.Size
		}
		if i > 0 && octets > maxBatchOctets {
			return i
		}
	}
	return len(page)
}

// register registers a batch and moves the cursor. When ctx ends, it registers what has been
// decided so far, so that the next pass continues from there. The bodies are put into the cache
// first, so that whoever claims a task right after it was registered finds its body there.
func (s *scanner) register(ctx context.Context, f *folder, batch []fetched, cursor uint32) error {
	page := s.newPage(f, cursor)
	for i, it := range batch {
		if it.gone {
			s.pass.Observer.Done(1)
			continue
		}
		entry, err := s.entry(ctx, f, it)
		if err != nil {
			discard(batch[i:])
			if i == 0 {
				return fmt.Errorf("%s: %w", f, err)
			}
			page.Cursor = it.meta.UID - 1
			return errors.Join(s.put(context.WithoutCancel(ctx), f, page), fmt.Errorf("%s: %w", f, err))
		}
		page.Entries = append(page.Entries, entry)
		switch {
		case it.msg == nil:
		case f.compared():
			s.cache.put(s.place(f, it.meta.UID), it.msg)
		default: // it is claimed much later
			_ = it.msg.Close()
		}
	}
	return s.put(ctx, f, page)
}

// put registers a page.
func (s *scanner) put(ctx context.Context, f *folder, page tasks.Page) error {
	regs, err := s.pass.Queue.Register(ctx, page)
	if err != nil {
		for _, e := range page.Entries {
			s.cache.drop(s.place(f, e.UID))
		}
		return fmt.Errorf("%s: %w", f, err)
	}
	news := false
	for i, r := range regs {
		news = s.count(f, page.Entries[i], r) || news
		if s.pass.Config.DryRun {
			if err := s.preview(ctx, f, page.Entries[i], r); err != nil {
				return err
			}
		}
	}
	f.row.LastSeenUID = max(f.row.LastSeenUID, page.Cursor)
	if news && f.compared() { // otherwise reconciled says so
		s.registered()
	}
	return nil
}

func (s *scanner) place(f *folder, uid uint32) place {
	return place{f.row.ID, tasks.Place{Epoch: f.row.UIDValidity, UID: uid}}
}

// count counts what became of one message, and reports whether it is to be claimed.
func (s *scanner) count(f *folder, e tasks.Entry, r tasks.Registration) (news bool) {
	news = r.Fate == tasks.Moved || r.Fate == tasks.New && r.Status == tasks.Received
	if news {
		s.cache.registered(s.place(f, e.UID), s.offer(f, r))
	} else {
		s.cache.drop(s.place(f, e.UID))
	}
	if r.Fate == tasks.New {
		s.tally.change(func(report *InboxReport) { report.Counters.Registered++ })
	}
	switch {
	case r.Fate == tasks.New && r.Status.Ended():
		s.tally.ended(r.TaskID, r.Status)
		if !s.pass.Config.DryRun {
			s.log.Info("message "+became[r.Status],
				"task", r.TaskID, "folder", f.row.Name, "uid", e.UID, "reason", notForwarded(e, r))
		}
	case r.Fate != tasks.New:
		s.pass.Observer.Done(1)
	}
	return news
}

// preview shows what a pass would do with a message that is not registered, or that is there again.
func (s *scanner) preview(ctx context.Context, f *folder, e tasks.Entry, r tasks.Registration) (err error) {
	switch r.Fate {
	case tasks.Known:
		return nil
	case tasks.Moved:
		t, err := s.pass.Queue.Get(ctx, r.TaskID)
		if t.Skip == tasks.SkipVanished { // others are shown when they are due
			t.Epoch, t.UID, t.Route, t.Deliveries = f.row.UIDValidity, e.UID, "", nil
			s.pass.Observer.Would(wouldProcess(t), t)
		}
		return err
	case tasks.New:
	}
	t := tasks.Task{
		Inbox: s.in.Address, Folder: f.row.Name, Epoch: f.row.UIDValidity, UID: e.UID, Identity: e.Identity,
		Status: r.Status, Skip: r.Skip, Form: tasks.Form{Mode: e.Mode},
	}
	if d := e.Decision; d != nil {
		t.Route, t.Keep, t.Reason = d.Route, d.Keep, d.Reason
	}
	if e.Decision != nil && !t.Status.Ended() {
		for _, to := range e.Decision.Recipients {
			t.Deliveries = append(t.Deliveries, tasks.Delivery{Recipient: to, Status: tasks.Pending})
		}
	}
	if t.Deliveries, err = s.pass.withhold(ctx, t.Deliveries); err == nil {
		s.pass.Observer.Would(wouldRegister(t, e.Decision), t)
	}
	return err
}

// offer is a task that may be sent before it is claimed; nil for others. If somebody else claims
// it, the RCPT commands were wasted, and would use up a limit.
func (s *scanner) offer(f *folder, r tasks.Registration) *tasks.Task {
	if r.Task == nil || s.pass.Limits.Limited() {
		return nil
	}
	r.Task.Folder = f.row.Name
	return r.Task
}

// notForwarded is the reason why a message ended as soon as it was registered.
func notForwarded(e tasks.Entry, r tasks.Registration) string {
	if e.Decision == nil || r.Skip == tasks.SkipDuplicate {
		return string(r.Skip)
	}
	return e.Decision.Reason
}

func (s *scanner) newPage(f *folder, cursor uint32) tasks.Page {
	if !f.moves() {
		cursor = 0
	}
	return tasks.Page{
		InboxID: s.in.ID, FolderID: f.row.ID, Epoch: f.row.UIDValidity, ScanToken: s.lease.Token,
		Cursor: cursor, Dedupe: s.pass.Config.Dedupe, KnownOnly: !f.row.Active, DryRun: s.pass.Config.DryRun,
	}
}

// outlined is the entry of a message whose content is not known.
func outlined(m imapsrc.Meta) tasks.Entry {
	said := stated(m)
	return tasks.Entry{UID: m.UID, Stated: said, Identity: tasks.Identity{Fingerprint: said.Outline(), Size: m.Size}}
}

// entry is what is registered of a message, with the decision on it if its content is at hand.
func (s *scanner) entry(ctx context.Context, f *folder, it fetched) (tasks.Entry, error) {
	e := outlined(it.meta)
	e.Identity.Size = max(e.Identity.Size, it.announced)
	if it.skip != "" {
		e.Decision = &tasks.Decision{Revision: s.revision, Skip: tasks.SkipTooLarge, Reason: it.skip}
		return e, nil
	}
	if it.head {
		e.Mode = string(forward.Notice)
	}
	if it.msg == nil {
		return e, nil
	}
	e.Identity = identity(it.msg, e.Identity)
	if wanted := s.pass.Config.Headers; wanted != nil && wanted(s.in) {
		e.Header = tasks.HeaderOf(it.msg.Header)
	}
	if !f.compared() && s.reads() {
		return e, nil // one that is known must not be read again; a new one is read when it is claimed
	}
	var err error
	m := MailOf(s.in, tasks.Task{Folder: f.row.Name, Identity: e.Identity, CreatedAt: s.pass.Now()}, it.msg)
	e.Decision, err = s.pass.decide(ctx, m, s.revision, s.log.With("folder", f.row.Name, "uid", it.meta.UID))
	if ofMessage(err) { // it is registered: its task counts the attempts to decide
		return e, nil
	}
	return e, err
}

// identity adds what the message itself says to what the server said about it. If only the header
// was read, the outline and the size stay.
func identity(m *message.Message, known tasks.Identity) tasks.Identity {
	id := tasks.Identity{
		Fingerprint: known.Fingerprint, Size: known.Size,
		MessageID: m.MessageID(), Subject: m.Subject(), Sender: m.From(), Date: m.Date(),
	}
	if !m.HeaderOnly {
		id.Fingerprint, id.Size = m.Fingerprint, m.Body.Size()
	}
	return id
}
