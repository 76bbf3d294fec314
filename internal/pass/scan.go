package pass

import (
	"context"
	"errors"
	"fmt"

	"postrider/internal/imapsrc"
)

// sweepUIDs is how far below the cursor a pass looks for messages that the server showed late.
const sweepUIDs = 200

// maxPageOctets bounds what one page takes of the disk while it is spooled.
const maxPageOctets = 64 << 20

// scan registers what is new in the open folders. registered is called after each page with something to be claimed in it.
func (b *box) scan(ctx context.Context, folders map[int64]*folder, registered func() error) error {
	var errs []error
	for _, row := range b.in.Folders {
		f := folders[row.ID]
		if f == nil || !f.Active {
			continue
		}
		err := b.scanFolder(ctx, f, registered)
		b.mu.Lock()
		b.report.Backlog += f.left
		b.mu.Unlock()
		if err != nil {
			errs = append(errs, err)
			if ctx.Err() != nil || lost(err) || scanLost(err) {
				break
			}
		}
	}
	return errors.Join(errs...)
}

func (b *box) scanFolder(ctx context.Context, f *folder, registered func() error) error {
	if err := b.catchUp(ctx, f, registered); err != nil {
		return err
	}
	if b.Config.DryRun {
		return nil
	}
	if err := b.baseline(ctx, f); err != nil {
		return err
	}
	if err := b.sweep(ctx, f, registered); err != nil {
		return err
	}
	return b.Inboxes.FolderScanned(ctx, b.lease(), f.ID)
}

// catchUp registers what lies between the cursor and the end of the folder.
func (b *box) catchUp(ctx context.Context, f *folder, registered func() error) error {
	f.left = 0
	if f.LastSeenUID < f.next {
		f.left = int(f.next - 1 - f.LastSeenUID)
	}
	for w := newWindow(f.LastSeenUID+1, f.next); w.more(); {
		uids, err := b.search(ctx, f, w.from, w.to)
		if err != nil {
			return err
		}
		beyond := int(f.next - 1 - w.to) // not searched yet: at most as many
		f.left = len(uids) + beyond
		b.Observer.Expect(len(uids))
		for rest := uids; len(rest) > 0; {
			page := rest[:min(len(rest), b.Config.Page)]
			if err := b.page(ctx, f, page, registered); err != nil {
				f.left = countAbove(uids, f.LastSeenUID) + beyond
				return err
			}
			rest = rest[len(page):]
		}
		f.left = beyond
		w.advance(len(uids))
	}
	return nil
}

func countAbove(uids []uint32, cursor uint32) int {
	n := 0
	for _, uid := range uids {
		if uid > cursor {
			n++
		}
	}
	return n
}

// search lists the UIDs of a range that have a message.
func (b *box) search(ctx context.Context, f *folder, from, to uint32) (uids []uint32, err error) {
	err = b.retry(ctx, func() error {
		return b.within(ctx, f, func(src Source) error {
			uids, err = src.UIDs(ctx, from, to)
			return err
		})
	})
	return uids, err
}

// sweep looks once more just below the cursor: some servers show UIDs late.
func (b *box) sweep(ctx context.Context, f *folder, registered func() error) error {
	if f.LastSeenUID == 0 {
		return nil
	}
	from := uint32(1)
	if f.LastSeenUID > sweepUIDs {
		from = f.LastSeenUID - sweepUIDs + 1
	}
	uids, err := b.search(ctx, f, from, f.LastSeenUID)
	if err != nil || len(uids) == 0 {
		return err
	}
	late, err := b.Queue.Unseen(ctx, f.ID, f.UIDValidity, uids)
	if err != nil || len(late) == 0 {
		return err
	}
	b.log.Info("the server showed messages late", "folder", f.Name, "messages", len(late))
	b.Observer.Expect(len(late))
	return b.page(ctx, f, late, registered)
}

// baseline notes the outlines of the messages that were there before the start, so that they are known again, and not
// taken for new ones, should UIDVALIDITY ever change. It goes on where an earlier pass was interrupted.
func (b *box) baseline(ctx context.Context, f *folder) error {
	for w := newWindow(f.BaselineUID+1, f.StartUID+1); w.more(); {
		uids, err := b.search(ctx, f, w.from, w.to)
		if err != nil {
			return err
		}
		for rest := uids; len(rest) > 0; {
			part := rest[:min(len(rest), 500)]
			rest = rest[len(part):]
			if err := b.noteBaseline(ctx, f, part, part[len(part)-1]); err != nil {
				return err
			}
		}
		if err := b.noteBaseline(ctx, f, nil, w.to); err != nil {
			return err
		}
		w.advance(len(uids))
	}
	return nil
}

func (b *box) noteBaseline(ctx context.Context, f *folder, uids []uint32, upTo uint32) error {
	metas, err := b.metadata(ctx, f, uids)
	if err != nil {
		return err
	}
	page := b.newPage(f, upTo)
	for _, m := range metas {
		page.Entries = append(page.Entries, outlined(m))
	}
	if err := b.Queue.Baseline(ctx, page); err != nil {
		return fmt.Errorf("%s: %w", f, err)
	}
	f.BaselineUID = upTo
	return nil
}

// metadata asks what the messages are like. After a broken connection it asks one by one: a message whose answer
// breaks it again is given back without anything known of it, so that those beside it go on.
func (b *box) metadata(ctx context.Context, f *folder, uids []uint32) ([]imapsrc.Meta, error) {
	if len(uids) == 0 {
		return nil, nil
	}
	all, err := b.askMetadata(ctx, f, uids)
	if err == nil || !b.mail.again(ctx, err) {
		return all, err
	}
	all = nil
	for _, uid := range uids {
		one, err := b.askMetadata(ctx, f, []uint32{uid})
		if err != nil && !b.mail.again(ctx, err) {
			return nil, err
		}
		if err != nil {
			b.log.Warn("a message breaks the connection when the server describes it", "folder", f.Name, "uid", uid, "error", err)
			one = []imapsrc.Meta{{UID: uid}}
		}
		all = append(all, one...)
	}
	return all, nil
}

func (b *box) askMetadata(ctx context.Context, f *folder, uids []uint32) (metas []imapsrc.Meta, err error) {
	err = b.within(ctx, f, func(src Source) error {
		metas, err = src.Metadata(ctx, uids)
		return err
	})
	return metas, err
}
