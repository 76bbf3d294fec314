package taskstest

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"postrider/internal/message"
	"postrider/internal/tasks"
)

// Message is one message of a page.
type Message struct {
	UID     uint32
	Content int
	Unread  bool // its content is not known, only its outline
	High    bool
	Route   string
	Skip    string
}

// Register registers a page.
type Register struct {
	Folder                               int
	Messages                             []Message
	Dedupe                               tasks.Dedupe
	KnownOnly, DryRun, OldEpoch, OldScan bool
}

// Baseline notes the messages of a page as there before the start.
type Baseline struct {
	Folder            int
	Messages          []Message
	OldEpoch, OldScan bool
}

// NewEpoch begins a new epoch in a folder.
type NewEpoch struct{ Folder int }

// TakeOver gives the scan of a folder's inbox to another run.
type TakeOver struct{ Folder int }

func (op NewEpoch) play(w *world) error {
	f := w.folder(op.Folder)
	f.epoch, f.cursor, f.baseline = f.epoch+1, 0, 0
	w.SetEpoch(w.t, f.id, f.epoch)
	return nil
}

func (op TakeOver) play(w *world) error {
	inbox := w.folder(op.Folder).inbox
	token := w.TakeOver(w.t, inbox)
	for _, f := range w.folders {
		if f.inbox == inbox {
			f.token = token
		}
	}
	return nil
}

// page is a page of the folder, and the error that it should meet with.
func (w *world) page(f *folder, messages []Message, oldEpoch, oldScan bool) (p tasks.Page, allowed []error) {
	p = tasks.Page{InboxID: f.inbox, FolderID: f.id, Epoch: f.epoch, ScanToken: f.token}
	for _, m := range messages {
		e := tasks.Entry{UID: m.UID, Fingerprint: w.content(m.Content), Outline: w.outline(m.Content), Route: m.Route, Skip: m.Skip}
		if m.Unread {
			e.Fingerprint = e.Outline
		}
		if m.High {
			e.Priority = tasks.High
		}
		p.Entries, p.Cursor = append(p.Entries, e), max(p.Cursor, m.UID)
	}
	if oldEpoch {
		p.Epoch--
		allowed = append(allowed, tasks.ErrEpochChanged)
	}
	if oldScan {
		p.ScanToken--
		allowed = append(allowed, tasks.ErrScanLost)
	}
	return p, allowed
}

func (op Baseline) play(w *world) error {
	f := w.folder(op.Folder)
	p, allowed := w.page(f, op.Messages, op.OldEpoch, op.OldScan)
	err := w.Queue.Baseline(w.ctx, p)
	if len(allowed) > 0 || err != nil {
		return oneOf(err, allowed)
	}
	for _, e := range p.Entries {
		if w.at(f, e.UID) == nil {
			w.rows = append(w.rows, &row{f, f.epoch, e.UID, e.Outline, nil})
		}
	}
	f.baseline = max(f.baseline, p.Cursor)
	return nil
}

func (op Register) play(w *world) error {
	f := w.folder(op.Folder)
	p, allowed := w.page(f, op.Messages, op.OldEpoch, op.OldScan)
	p.Dedupe, p.KnownOnly, p.DryRun = op.Dedupe, op.KnownOnly, op.DryRun
	if p.KnownOnly {
		p.Cursor = 0 // what is not known has no disposition yet
	}
	regs, err := w.Queue.Register(w.ctx, p)
	if len(allowed) > 0 && !p.DryRun || err != nil {
		return oneOf(err, allowed)
	}
	if len(regs) != len(p.Entries) {
		return fmt.Errorf("%d registrations for %d entries", len(regs), len(p.Entries))
	}
	if p.DryRun {
		defer w.restore(w.save())
	} else {
		f.cursor = max(f.cursor, p.Cursor)
	}
	for i, e := range p.Entries {
		if w.unused[f.inbox] && !p.DryRun {
			e.Route = "" // it is decided on later
		}
		if err := w.register(f, p, e, regs[i]); err != nil {
			return err
		}
	}
	slices.SortStableFunc(w.tasks, func(a, b *task) int { return int(a.ID - b.ID) })
	return nil
}

func oneOf(err error, allowed []error) error {
	if slices.ContainsFunc(allowed, func(a error) bool { return errors.Is(err, a) }) {
		return nil
	}
	return fmt.Errorf("error %s, want one of %v", fmt.Sprint(err), allowed)
}

// save and restore bring the model back to where it was: a dry run changes nothing.
func (w *world) save() (rows []*row, all []*task, as []task, lines []line) {
	for _, t := range w.tasks {
		as = append(as, *t)
	}
	for _, r := range w.rows {
		same := *r
		rows = append(rows, &same)
	}
	return rows, slices.Clone(w.tasks), as, slices.Clone(w.trail)
}

func (w *world) restore(rows []*row, all []*task, as []task, lines []line) {
	w.rows, w.tasks, w.trail = rows, all, lines
	for i, t := range all {
		*t = as[i]
	}
}

// register gives one message its disposition and compares that with the queue's.
func (w *world) register(f *folder, p tasks.Page, e tasks.Entry, got tasks.Registration) error {
	fate, of, noted := w.fate(f, p, e)
	if got.UID != e.UID || got.Fate != fate {
		return fmt.Errorf("UID %d has fate %d, want UID %d with fate %d (0 new, 1 skipped, 2 duplicate, 3 known, 4 moved)", got.UID, got.Fate, e.UID, fate)
	}
	r := &row{f, f.epoch, e.UID, e.Fingerprint, of}
	switch fate {
	case tasks.Known, tasks.Moved:
		if is, want := w.byID(got.TaskID), of; is != want {
			return fmt.Errorf("UID %d is known as %s, want %s", e.UID, w.name(is), w.name(want))
		}
		if of == nil {
			r.key = e.Outline
		}
	default:
		if (got.TaskID == 0) != p.DryRun || !p.DryRun && w.byID(got.TaskID) != nil {
			return fmt.Errorf("UID %d is not registered as a task of its own", e.UID)
		}
		r.task = w.begin(f, e, p, fate, of)
		r.task.ID = got.TaskID
		w.tasks = append(w.tasks, r.task)
	}
	if noted {
		w.rows = append(w.rows, r)
		w.read(r.task, e)
	}
	if fate == tasks.Moved {
		w.move(of, f, e)
	}
	return nil
}

// fate says what becomes of a message, given all that is known; its task, or the one that it is a duplicate of; and
// whether it is known from then on.
func (w *world) fate(f *folder, p tasks.Page, e tasks.Entry) (fate tasks.Fate, of *task, noted bool) {
	if r := w.at(f, e.UID); r != nil {
		return tasks.Known, r.task, false
	}
	original := w.original(f, p, e)
	if t := w.elsewhen(f, e, original != nil); t != nil {
		if t.purged {
			return tasks.Known, t, true
		}
		return tasks.Moved, t, true
	}
	switch {
	case w.unfound(f, e.Outline) > 0:
		return tasks.Known, nil, true
	case p.KnownOnly:
		return tasks.Known, nil, false
	case e.Skip != "":
		return tasks.SkippedAt, nil, true
	}
	if original != nil {
		return tasks.Duplicate, original, true
	}
	return tasks.New, nil, true
}

// original is the task of an equal message that accounts for this one, nil when there is none.
func (w *world) original(f *folder, p tasks.Page, e tasks.Entry) *task {
	if e.Fingerprint == e.Outline || p.Dedupe == tasks.DedupeOff {
		return nil
	}
	for _, t := range w.tasks {
		if (p.Dedupe == tasks.DedupeAll || t.InboxID == f.inbox) && t.accounts() && w.knownAs(t, e.Fingerprint) {
			return t
		}
	}
	return nil
}

// at is what is known of a UID of the folder's epoch.
func (w *world) at(f *folder, uid uint32) *row {
	for _, r := range w.rows {
		if r.folder == f && r.epoch == f.epoch && r.uid == uid {
			return r
		}
	}
	return nil
}

// elsewhen is the task that had the message in an older epoch, and has none in this one: by its content, else by its outline when its
// content was never read. One that ended since the message had vanished is not found again once it is purged, nor when an equal one has been sent.
func (w *world) elsewhen(f *folder, e tasks.Entry, sent bool) *task {
	for _, key := range []message.Fingerprint{e.Fingerprint, e.Outline} {
		for _, t := range w.tasks {
			var older, here bool
			for _, r := range w.rows {
				if r.task == t && r.folder == f {
					here = here || r.epoch == f.epoch
					older = older || r.epoch != f.epoch && r.key == key
				}
			}
			if older && !here && (!t.vanished() || !t.purged && !sent) {
				return t
			}
		}
	}
	return nil
}

// read: once its content is known, a task's message is known by that alone, wherever it was.
func (w *world) read(t *task, e tasks.Entry) {
	for _, r := range w.rows {
		if t != nil && r.task == t && r.key == e.Outline {
			r.key = e.Fingerprint
		}
	}
}

// unfound is how many messages of an outline were there before the start and have not been found again: of the epoch that had most.
func (w *world) unfound(f *folder, outline message.Fingerprint) int {
	n, most := map[int64]int{}, 0
	for _, r := range w.rows {
		if r.folder == f && r.task == nil && r.key == outline {
			n[r.epoch]++
		}
	}
	for epoch := range n {
		if epoch != f.epoch {
			most = max(most, n[epoch])
		}
	}
	return most - n[f.epoch]
}

func (w *world) knownAs(t *task, key message.Fingerprint) bool {
	return slices.ContainsFunc(w.rows, func(r *row) bool { return r.task == t && r.key == key })
}

// accounts: it was forwarded, or may have been, or is going to be, be it to some alone, or a person said that it shall not be.
func (t *task) accounts() bool {
	if slices.ContainsFunc(t.Deliveries, reached) {
		return !t.purged || !t.vanished()
	}
	switch t.Status {
	case tasks.Forwarded:
		return true
	case tasks.Uncertain:
		return t.Route != "" && !t.purged
	case tasks.Skipped:
		return strings.HasPrefix(t.Reason, "by_person: ")
	}
	return t.live() && t.Route != ""
}

func (t *task) vanished() bool {
	return t.Status == tasks.Skipped && strings.HasPrefix(t.Reason, tasks.VanishedPrefix)
}

func (t *task) live() bool {
	return !t.purged && (t.Status == tasks.Received || t.Status == tasks.InProgress || t.Status == tasks.Error)
}

// begin is a new task.
func (w *world) begin(f *folder, e tasks.Entry, p tasks.Page, fate tasks.Fate, of *task) *task {
	t := &task{created: w.now, queued: w.now, read: e.Fingerprint != e.Outline}
	t.plain = e.Route == "" || p.Dedupe != tasks.DedupeOff
	t.Task = tasks.Task{
		InboxID: f.inbox, FolderID: f.id, Epoch: f.epoch, UID: e.UID, Fingerprint: e.Fingerprint, Route: e.Route, Priority: e.Priority,
	}
	switch fate {
	case tasks.SkippedAt:
		w.put(t, tasks.Skipped, e.Skip, 0)
	case tasks.Duplicate:
		w.put(t, tasks.Skipped, tasks.DuplicateOf(of.ID), 0)
	default:
		w.put(t, tasks.Received, "", 0)
	}
	return t
}

// put sets where a task stands, and since when or from when on.
func (w *world) put(t *task, status tasks.Status, reason string, delay time.Duration) {
	t.Status, t.Reason, t.settled = status, reason, false
	if t.live() {
		t.visible = w.now + delay
	} else {
		t.ended = w.now
	}
}

// move is where the task's message is now. One that had vanished is there again.
func (w *world) move(t *task, f *folder, e tasks.Entry) {
	t.Epoch, t.UID, t.read = f.epoch, e.UID, t.read || e.Fingerprint != e.Outline
	if t.vanished() {
		w.put(t, tasks.Received, "", 0)
		t.queued = w.now
		t.forget()
		w.note(t.ID, "requeued", "")
	}
}
