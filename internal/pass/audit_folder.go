package pass

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"postrider/internal/imapsrc"
	"postrider/internal/tasks"
)

// The ledger is read in steps of this many UIDs, because it may hold far more messages than the
// folder still has. Where the ledger is empty, the step doubles.
const (
	ledgerStep    = 4_000
	maxLedgerStep = 32_000
)

// folder compares one folder.
func (a *auditor) folder(ctx context.Context, f *auditedFolder) error {
	if err := a.look(ctx, f); err != nil {
		return err
	}
	listed, err := a.eachWindow(ctx, f, func(w *window, uids []uint32) error {
		a.visit.pass.Observer.Expect(len(uids))
		return a.window(ctx, f, w, uids)
	})
	if err != nil {
		return err
	}
	if err := a.complete(ctx, f, listed); err != nil {
		return err
	}
	if err := a.leftBehind(ctx, f, f.folder.row.UIDValidity); err != nil {
		return err
	}
	if err := a.reused(ctx, f); err != nil {
		return err
	}
	return f.broken
}

// reused returns an error if the server gave a UID to a message other than the registered one, or
// if it may have done so and the message cannot be read. With Repair the next run compares all
// messages of the folder: on its own, a run looks only at the UIDs just below the cursor.
func (a *auditor) reused(ctx context.Context, f *auditedFolder) error {
	_, err := f.again.settle(ctx, a.visit.session, f.folder)
	if err == nil && f.again.uid == 0 && f.again.unread != 0 {
		err = fmt.Errorf("UID %d has another size or date than the registered message, "+
			"and its content cannot be read; nothing can be proved about it", f.again.unread)
	}
	if err != nil || f.again.uid == 0 {
		return err
	}
	row := f.folder.row
	if !a.opts.Repair {
		return fmt.Errorf("UID %d now has a different message than the registered one; %s; "+
			"to make the next run do that: `postrider audit --repair`", f.again.uid, unproved)
	}
	if err := a.visit.pass.Inboxes.Distrust(ctx, row.ID, row.UIDValidity); err != nil {
		return err
	}
	return fmt.Errorf("UID %d now has a different message than the registered one; %s; the next run does that",
		f.again.uid, unproved)
}

const unproved = "this folder cannot be audited until a run has compared all its messages with the registry"

// look reads the folder's row, and then opens the folder. A run may begin a new epoch in between,
// so it tries twice.
func (a *auditor) look(ctx context.Context, f *auditedFolder) error {
	var doubt error
	for range 2 {
		row, err := a.row(ctx, f.folder.row.ID)
		if err != nil {
			return err
		}
		f.folder.row = row
		highest, err := a.visit.pass.Queue.Highest(ctx, row.ID, row.UIDValidity)
		if err != nil {
			return err
		}
		f.known = max(row.LastSeenUID, highest)
		err = a.visit.session.reopen(ctx, row.Name, func(src Source, info imapsrc.Folder) (err error) {
			f.said = info.Messages
			f.folder.next, err = UIDNext(ctx, src, info)
			if doubt = f.opened(info); err == nil && f.found.NeverScanned {
				err = a.plan(ctx, src, info, f)
			}
			return err
		})
		if err != nil || doubt == nil {
			return err
		}
	}
	return doubt
}

// plan gives a folder that was never scanned the cursor that the next run gives it.
func (a *auditor) plan(ctx context.Context, src Source, info imapsrc.Folder, f *auditedFolder) error {
	start, err := StartUID(ctx, src, a.visit.in.Start, info, f.folder.next)
	f.folder.row.LastSeenUID, f.folder.row.StartUID = start, start
	return err
}

// opened returns why nothing can be proved about the folder as the server describes it.
func (f *auditedFolder) opened(info imapsrc.Folder) error {
	f.found.UIDValidity = info.UIDValidity
	row := &f.folder.row
	if f.found.NeverScanned = row.InitializedAt == nil; f.found.NeverScanned {
		row.UIDValidity = int64(info.UIDValidity)
	} else if why := startsOver(*row, info); why != "" {
		return fmt.Errorf("%s: %s", why, unproved)
	}
	return nil
}

// window compares what the server listed in one window with the ledger, step by step.
func (a *auditor) window(ctx context.Context, f *auditedFolder, w *window, uids []uint32) error {
	s := &window{from: w.from, next: w.to + 1, width: ledgerStep, max: maxLedgerStep}
	for s.to = s.end(); s.more(); {
		n, _ := slices.BinarySearch(uids, s.to+1)
		rows := 0
		if n > 0 || s.from <= f.known { // else there is nothing to be found
			var err error
			if rows, err = a.step(ctx, f, s, uids[:n]); err != nil {
				return err
			}
		}
		a.visit.pass.Observer.Done(n)
		uids = uids[n:]
		s.advance(rows + n)
	}
	return nil
}

// step compares one step, and returns how many rows the ledger has in it.
func (a *auditor) step(ctx context.Context, f *auditedFolder, s *window, uids []uint32) (int, error) {
	known, err := a.dispositions(ctx, f, s)
	if err != nil {
		return 0, err
	}
	// A message may have gone or arrived, a run may have registered it, or the cursor was moved
	// back.
	if f.doubtful(uids, known) {
		if uids, err = a.visit.session.list(ctx, f.folder, s.from, s.to); err != nil {
			return 0, err
		}
		if known, err = a.dispositions(ctx, f, s); err != nil {
			return 0, err
		}
		if err := a.lookAgain(ctx, f); err != nil {
			return 0, err
		}
	}
	if err := a.compareStated(ctx, f, uids, known); err != nil {
		return 0, err
	}
	missing := slices.DeleteFunc(slices.Clone(uids), func(uid uint32) bool {
		return f.account(uid, known[uid]) != AsMissing
	})
	metas, err := a.describe(ctx, f, missing)
	if err != nil {
		return 0, err
	}
	rows := len(known)
	for _, uid := range uids {
		m, there := metas[uid]
		if _, ok := slices.BinarySearch(missing, uid); ok && !there { // expunged
			continue
		}
		if err := a.message(f, uid, known[uid], m); err != nil {
			return 0, err
		}
		delete(known, uid)
	}
	return rows, a.absent(f, known)
}

// compareStated compares what the server says of the listed messages with what it said when they
// were registered.
func (a *auditor) compareStated(
	ctx context.Context, f *auditedFolder, uids []uint32, known map[uint32]*tasks.Disposition,
) error {
	uids = slices.DeleteFunc(slices.Clone(uids), func(uid uint32) bool { return known[uid] == nil })
	if len(uids) == 0 {
		return nil
	}
	metas, err := a.visit.session.described(ctx, f.folder, uids[0], uids[len(uids)-1])
	for _, m := range metas {
		if d := known[m.UID]; d != nil {
			f.again.add(d.Noted, m)
		}
	}
	return err
}

func (a *auditor) dispositions(
	ctx context.Context, f *auditedFolder, s *window,
) (map[uint32]*tasks.Disposition, error) {
	ds, err := a.visit.pass.Queue.Dispositions(ctx, f.folder.row.ID, f.folder.row.UIDValidity, s.from, s.to)
	known := make(map[uint32]*tasks.Disposition, len(ds))
	for i := range ds {
		known[ds[i].UID] = &ds[i]
	}
	return known, err
}

// doubtful reports whether the ledger lacks a message that it should have, or the server lists one
// that it should not, or does not list the message of an unfinished task.
func (f *auditedFolder) doubtful(uids []uint32, known map[uint32]*tasks.Disposition) bool {
	open := 0
	for _, d := range known {
		if needsMessage(d) {
			open++
		}
	}
	for _, uid := range uids {
		d := known[uid]
		if as := f.account(uid, d); as == AsMissing || as == AsReappeared {
			return true
		}
		if d != nil && needsMessage(d) {
			open--
		}
	}
	return open > 0
}

// unfinished are the states of tasks that still need their message, or may need it.
var unfinished = []tasks.Status{tasks.Received, tasks.InProgress, tasks.Error, tasks.Uncertain}

func needsMessage(d *tasks.Disposition) bool {
	return d.TaskID != 0 && !d.Purged && slices.Contains(unfinished, d.Status)
}

// describe asks the server when the missing messages arrived, and how large they are. It leaves out
// those that were expunged.
func (a *auditor) describe(ctx context.Context, f *auditedFolder, missing []uint32) (map[uint32]imapsrc.Meta, error) {
	metas, err := a.visit.session.present(ctx, f.folder, missing)
	out := make(map[uint32]imapsrc.Meta, len(metas))
	for _, m := range metas {
		out[m.UID] = m
	}
	return out, err
}

// lookAgain reads the cursor again, after the ledger: a rewind may have come in between. It takes
// the lower one, so that nothing counts as missing only because a run moved the cursor meanwhile.
func (a *auditor) lookAgain(ctx context.Context, f *auditedFolder) error {
	was := &f.folder.row
	row, err := a.row(ctx, was.ID)
	if err != nil {
		return err
	}
	if row.UIDValidity != was.UIDValidity {
		return errors.New("UIDVALIDITY changed during the audit; do it again")
	}
	was.LastSeenUID, was.StartUID = min(was.LastSeenUID, row.LastSeenUID), min(was.StartUID, row.StartUID)
	was.BaselineUID = min(was.BaselineUID, row.BaselineUID)
	return nil
}

// account decides how a message is accounted for; d is nil when the ledger does not know it. It is
// empty when the message does not count.
func (f *auditedFolder) account(uid uint32, d *tasks.Disposition) Account {
	row := f.folder.row
	switch {
	case d != nil && d.TaskID == 0:
		return AsBeforeStart
	case d != nil && d.Lost():
		return AsMissing
	case d != nil && d.Purged:
		return AsPurged
	case d != nil && d.Skip == tasks.SkipVanished:
		return AsReappeared
	case d != nil:
		return accountOf[d.Status]
	case !row.Active:
		return "" // not watched
	case uid > row.LastSeenUID:
		return AsNew
	case uid <= row.StartUID && uid > row.BaselineUID:
		return AsNotNoted
	}
	return AsMissing
}

// message counts one message, and reports it.
func (a *auditor) message(f *auditedFolder, uid uint32, d *tasks.Disposition, m imapsrc.Meta) error {
	as := f.account(uid, d)
	if d != nil {
		f.examine(*d)
	}
	if as == "" {
		return nil
	}
	line := Audited{
		Inbox: a.visit.in.Address, Folder: f.folder.row.Name, UIDValidity: f.found.UIDValidity, UID: uid, Account: as,
	}
	if d != nil {
		line.add(*d)
	}
	f.found.Messages++
	f.found.Counts[as]++
	switch as {
	case AsMissing:
		line.Received, line.Size = receivedAt(m), m.Size
		f.found.Missing = append(f.found.Missing, MissingMessage{
			UID: uid, TaskID: line.TaskID, Received: line.Received, Size: line.Size,
		})
	case AsReappeared:
		f.found.Strays = append(f.found.Strays, Stray{
			TaskID: line.TaskID, UIDValidity: line.UIDValidity, UID: uid, Status: line.Status,
		})
	}
	return a.tell(f, line)
}

// tell counts what reports say about a message, and lists the message.
func (a *auditor) tell(f *auditedFolder, line Audited) error {
	if len(line.Bounced) > 0 {
		f.found.Bounced++
	}
	if len(line.To) > 0 && len(line.Confirmed) == len(line.To) {
		f.found.Confirmed++
	}
	if a.opts.Each == nil {
		return nil
	}
	return a.opts.Each(line)
}

// examine notes a task that something other than postrider changed, so that no run processes it.
func (f *auditedFolder) examine(d tasks.Disposition) {
	var wrong string
	switch as := accountOf[d.Status]; {
	case f.broken != nil || d.TaskID == 0 || d.Purged || d.Lost():
	case as == "":
		wrong = fmt.Sprintf("the status %q, which does not exist", d.Status)
	case as == AsWaiting && d.VisibleAt == nil:
		wrong = fmt.Sprintf("the status %s and no visible_at", d.Status)
	}
	if wrong != "" {
		f.broken = fmt.Errorf("something other than postrider changed task %d (UID %d): it has %s, "+
			"so no run processes it; correct it in the database, or restore that from a backup", d.TaskID, d.UID, wrong)
	}
}

// receivedAt is nil when the server does not say it.
func receivedAt(m imapsrc.Meta) *time.Time {
	if m.Received.IsZero() {
		return nil
	}
	return &m.Received
}

// add adds what the registry knows.
func (m *Audited) add(d tasks.Disposition) {
	m.TaskID, m.Status, m.Mode, m.Reason = d.TaskID, d.Status, d.Mode, d.Reason
	if accountOf[d.Status] == AsWaiting {
		m.Since, m.NextTry = &d.QueuedAt, d.VisibleAt
	}
	for _, to := range d.Deliveries {
		switch {
		case to.HasBounced(): // also if the relay's reply is not known
			m.Bounced = append(m.Bounced, to.Recipient)
		case to.Status != tasks.Delivered:
		default:
			m.To = append(m.To, to.Recipient)
			if to.IsConfirmed() {
				m.Confirmed = append(m.Confirmed, to.Recipient)
			}
		}
	}
}
