package pass

import (
	"context"
	"fmt"

	"postrider/internal/forward"
	"postrider/internal/imapsrc"
	"postrider/internal/message"
	"postrider/internal/route"
	"postrider/internal/tasks"
)

// fetched is one message of a page, as far as it could be had.
type fetched struct {
	imapsrc.Meta
	msg  *message.Message // nil when it was not fetched
	skip string           // why it is not fetched on purpose
	head bool             // the header alone is fetched
	gone bool             // expunged between the listing and the fetch
	err  error            // why it could not be fetched
}

// page gives each of the UIDs its disposition. It is split where it would take too much of the disk, and where a
// connection breaks: what came before the break is registered. A message whose fetch breaks the connection twice is
// registered without its content, so that those behind it go on.
func (b *box) page(ctx context.Context, f *folder, uids []uint32, registered func() error) error {
	unseen, err := b.Queue.Unseen(ctx, f.ID, f.UIDValidity, uids)
	if err != nil {
		return err
	}
	b.Observer.Done(len(uids) - len(unseen))
	rest, err := b.metadata(ctx, f, unseen)
	if err != nil {
		return err
	}
	last := uids[len(uids)-1]
	for broke := 0; len(rest) > 0; {
		batch := b.batch(rest, broke > 0)
		err := b.fetch(ctx, f, batch)
		n := complete(batch)
		if err != nil {
			if !b.mail.again(ctx, err) {
				discard(batch)
				return err
			}
			if n > 0 {
				broke = 0
			} else if broke++; broke == 2 {
				batch[0].err, n, broke = err, 1, 0
			}
		}
		discard(batch[n:])
		rest = rest[n:]
		cursor := last
		if len(rest) > 0 {
			cursor = rest[0].UID - 1
		}
		if n == 0 {
			continue
		}
		if err := b.register(ctx, f, batch[:n], cursor, registered); err != nil {
			return err
		}
	}
	if f.LastSeenUID < last { // nothing behind the last one registered had to be
		return b.register(ctx, f, nil, last, nil)
	}
	return nil
}

// batch is what is fetched at once: as much as fits on the disk, or just one.
func (b *box) batch(rest []imapsrc.Meta, alone bool) []fetched {
	var batch []fetched
	octets := int64(0)
	for _, m := range rest {
		it := fetched{Meta: m}
		switch {
		case m.Size <= b.Config.MaxSize:
			octets += m.Size
		case b.Config.Notices:
			it.head = true
		default:
			it.skip = tooLarge(m.Size, b.Config.MaxSize)
		}
		if len(batch) > 0 && (alone || octets > maxPageOctets) {
			break
		}
		batch = append(batch, it)
	}
	return batch
}

// fetch reads the messages of a batch into it, whole or the header alone.
func (b *box) fetch(ctx context.Context, f *folder, batch []fetched) error {
	if err := b.fetchAs(ctx, f, batch, false, Source.Bodies); err != nil {
		return err
	}
	return b.fetchAs(ctx, f, batch, true, Source.Headers)
}

// fetcher is Source.Bodies or Source.Headers.
type fetcher func(src Source, ctx context.Context, uids []uint32, each func(uint32, *message.Message) error) (imapsrc.Result, error)

func (b *box) fetchAs(ctx context.Context, f *folder, batch []fetched, head bool, fetch fetcher) error {
	at := make(map[uint32]*fetched, len(batch))
	var uids []uint32
	for i := range batch {
		if batch[i].skip == "" && batch[i].head == head {
			at[batch[i].UID] = &batch[i]
			uids = append(uids, batch[i].UID)
		}
	}
	if len(uids) == 0 {
		return nil
	}
	return b.within(ctx, f, func(src Source) error {
		res, err := fetch(src, ctx, uids, func(uid uint32, m *message.Message) error {
			if it := at[uid]; it != nil && it.msg == nil {
				it.msg = m
				return nil
			}
			return m.Close() // not asked for, or twice
		})
		for _, uid := range res.Vanished {
			at[uid].gone = true
		}
		for uid, why := range res.Failed {
			at[uid].err = why
		}
		return err
	})
}

// complete is how many messages at the front of the batch have a disposition.
func complete(batch []fetched) int {
	for i, it := range batch {
		if it.msg == nil && it.skip == "" && !it.gone && it.err == nil {
			return i
		}
	}
	return len(batch)
}

func discard(batch []fetched) {
	for i := range batch {
		if batch[i].msg != nil {
			_ = batch[i].msg.Close()
			batch[i].msg = nil
		}
	}
}

// register registers a batch and moves the cursor, and shelves the bodies of what is to be claimed. Without
// registered nobody is there to claim, and nothing is shelved.
func (b *box) register(ctx context.Context, f *folder, batch []fetched, cursor uint32, registered func() error) error {
	page := b.newPage(f, cursor)
	bodies := map[uint32]*message.Message{}
	for _, it := range batch {
		if it.gone {
			b.Observer.Done(1)
			continue
		}
		page.Entries = append(page.Entries, b.entry(f, it))
		bodies[it.UID] = it.msg
	}
	regs, err := b.Queue.Register(ctx, page)
	if err != nil {
		discard(batch)
		return fmt.Errorf("%s: %w", f, err)
	}
	fresh := 0
	for i, r := range regs {
		if r.Fate == tasks.New {
			fresh++
		}
		b.registered(page.Entries[i], r, f)
		if m := bodies[r.UID]; m != nil && r.Fate == tasks.New && registered != nil && b.down.err() == nil && b.limited() == nil {
			b.shelf.put(r.TaskID, m)
		} else if m != nil {
			_ = m.Close()
		}
	}
	f.LastSeenUID = max(f.LastSeenUID, cursor)
	if fresh > 0 && registered != nil {
		return registered()
	}
	return nil
}

// registered tells of what became of one message.
func (b *box) registered(e tasks.Entry, r tasks.Registration, f *folder) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch r.Fate {
	case tasks.New:
		b.report.Registered++
	case tasks.SkippedAt, tasks.Duplicate:
		b.report.Registered++
		b.report.Skipped++
		b.Observer.Done(1)
	default:
		b.Observer.Done(1)
	}
	if b.Config.DryRun {
		b.Observer.Preview(Preview{Inbox: b.in.Address, Folder: f.Name, Fate: r.Fate, Entry: e})
	}
}

func (b *box) newPage(f *folder, cursor uint32) tasks.Page {
	return tasks.Page{
		InboxID: b.in.ID, FolderID: f.ID, Epoch: f.UIDValidity, ScanToken: b.token, Cursor: cursor,
		Dedupe: b.Config.Dedupe, KnownOnly: !f.Active, DryRun: b.Config.DryRun,
	}
}

// outlined is the entry of a message whose content is not known.
func outlined(m imapsrc.Meta) tasks.Entry {
	o := message.Outline(m.Received, m.Size)
	return tasks.Entry{UID: m.UID, Size: m.Size, Fingerprint: o, Outline: o}
}

func (b *box) entry(f *folder, it fetched) tasks.Entry {
	e := outlined(it.Meta)
	e.Skip = it.skip
	if it.head {
		e.Mode = string(forward.Notice)
	}
	if it.msg != nil {
		describe(&e, it.msg)
	}
	d := b.Routes.Decide(route.Mail{Inbox: b.in.Address, Folder: f.Name, Message: it.msg, Size: e.Size, At: b.Now()})
	e.Why = d.Reason
	if it.msg != nil {
		if why, looped := forward.Looped(it.msg.Header, b.in.Address, b.Config.MaxReceived); looped {
			e.Why, d.To = why, nil
		}
	}
	if len(d.To) > 0 {
		e.Route, e.To, e.LeftOut = d.Route, d.To, d.LeftOut
	}
	if d.Priority == route.High {
		e.Priority = tasks.High
	}
	return e
}

// describe adds what the content says. A header alone says nothing of the content's identity: the outline stays.
func describe(e *tasks.Entry, m *message.Message) {
	if !m.HeaderOnly {
		e.Fingerprint, e.Size = m.Fingerprint, m.Body.Size()
	}
	e.MessageID, e.Subject, e.Sender, e.Date = m.MessageID(), m.Subject(), m.From(), m.Date()
}
