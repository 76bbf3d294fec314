package pass

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"postrider/internal/imapsrc"
	"postrider/internal/inbox"
)

// helpTurn is for how long a helper works on, or waits for a task, before it looks whether the scan is free.
const helpTurn = 2 * time.Second

// errOldView is a task of a folder, or of an epoch, that a helper has not seen yet, or no longer sees.
var errOldView = errors.New("the folders were changed by the run that scans the inbox")

// ours reports whether a lease is held by a run of this host.
func (b *box) ours(busy *inbox.Busy) bool { return strings.HasPrefix(busy.Holder, b.Config.Host+":") }

// stepAside leaves the inbox to the run that holds its scan.
func (b *box) stepAside(busy *inbox.Busy, why string) {
	b.report.Busy = fmt.Sprintf("%s is working on it (until %s unless renewed)", busy.Holder, busy.Until.Format(time.RFC3339))
	b.log.Info("stepped aside: another run is working on this inbox", "holder", busy.Holder, "until", busy.Until, "why", why)
}

// help works off tasks while a run of another host scans the inbox, and takes the scan over once that is free: then this is a pass
// as any other. A helper changes nothing but its claims: where a folder needs more than that, it steps aside.
func (b *box) help(ctx context.Context, busy *inbox.Busy) error {
	me := inbox.Help{InboxID: b.in.ID, Host: b.Config.Host, Holder: b.Config.Worker}
	after := context.WithoutCancel(ctx)
	got, err := b.Inboxes.AcquireHelp(after, me, b.ttl())
	if err != nil {
		return err
	}
	if !got {
		b.stepAside(busy, "another run of this host helps already")
		return nil
	}
	var token int64
	err = b.holding(ctx, func(ctx context.Context) error { return b.Inboxes.RenewHelp(ctx, me, b.ttl()) },
		func(ctx context.Context) error {
			token, err = b.workBeside(ctx, busy)
			if token == 0 {
				err = cmp.Or(err, b.helper.landed())
			}
			return err
		})
	err = errors.Join(err, b.Inboxes.ReleaseHelp(after, me))
	if token != 0 {
		return errors.Join(err, b.scanning(ctx, token, b.work))
	}
	return err
}

// workBeside works off what is due until the scan is free. Then it returns the token of the scan lease; claims may be in work yet.
func (b *box) workBeside(ctx context.Context, busy *inbox.Busy) (token int64, err error) {
	for known := false; ; {
		if !known {
			if known, err = b.look(ctx); !known || err != nil {
				return 0, b.leave(busy, err)
			}
			b.expectDue(ctx)
			b.log.Info("another host scans this inbox; helping to work off what is due", "holder", busy.Holder)
		}
		b.helper.until = time.Now().Add(helpTurn)
		switch err := b.helper.drain(ctx); {
		case errors.Is(err, errOldView):
			known = false
		case err != nil:
			return 0, b.leave(busy, err)
		case b.down.err() != nil || b.limited() != nil:
			return 0, nil
		}
		if token, busy, err = b.acquire(ctx); err != nil || busy == nil || b.ours(busy) {
			return token, err
		}
	}
}

// leave ends the helping. That the server does not want another connection is no fault: the other host has one.
func (b *box) leave(busy *inbox.Busy, err error) error {
	var e *imapsrc.Error
	switch {
	case err == nil:
		b.stepAside(busy, "its folders have to be scanned first")
	case errors.As(err, &e) && (e.Kind == imapsrc.KindLimit || e.Kind == imapsrc.KindInUse || e.BackOff > 0):
		b.stepAside(busy, err.Error())
	default:
		return err
	}
	return nil
}

// look gives the helper the folders as they are registered. It is no success when one of them needs a scan first: never
// initialised, of another UIDVALIDITY at the server, or with tasks that have to be found again.
func (b *box) look(ctx context.Context) (bool, error) {
	if err := b.current(ctx); err != nil {
		return false, err
	}
	folders := map[int64]*folder{}
	for _, row := range b.in.Folders {
		f := &folder{Folder: row}
		wanted, err := b.wanted(ctx, f)
		if err != nil {
			return false, err
		}
		if !wanted {
			continue
		}
		if ready, err := b.ready(ctx, f); !ready || err != nil {
			return false, err
		}
		folders[f.ID] = f
	}
	b.helper.folders = folders
	return len(folders) > 0, nil
}

func (b *box) ready(ctx context.Context, f *folder) (ready bool, err error) {
	if f.InitializedAt == nil {
		return false, nil
	}
	if waiting, err := b.Queue.Unreconciled(ctx, f.ID, f.UIDValidity); waiting || err != nil {
		return false, err
	}
	err = b.retry(ctx, func() error {
		return b.mail.in(ctx, f.Name, true, func(_ Source, info imapsrc.Folder) error {
			ready = info.UIDValidity == uint32(f.UIDValidity) && (info.UIDNext == 0 || info.UIDNext > f.LastSeenUID)
			return nil
		})
	})
	return ready, err
}

// insist makes nothing of what was fetched once the folder is no longer in the epoch that the helper knows: the server may have
// given its UIDs to other messages.
func (f *feeder) insist(ctx context.Context, fo *folder, batch []fetched, err error) error {
	in, failed := f.Inboxes.Get(context.WithoutCancel(ctx), f.in.Address)
	for _, row := range in.Folders {
		if row.ID == fo.ID && row.UIDValidity == fo.UIDValidity {
			return err
		}
	}
	discard(batch)
	for i := range batch {
		batch[i] = fetched{Meta: batch[i].Meta}
	}
	return cmp.Or(err, failed, errOldView)
}

// giveBack leaves a task to the run that scans the inbox: it does not count in the report of this one.
func (j job) giveBack(ctx context.Context, why error) {
	_, err := j.release(ctx, why.Error())
	j.done("", err)
}
