package sqlqueue

import (
	"time"

	"gorm.io/gorm"

	"postrider/internal/db"
	"postrider/internal/outbox"
	"postrider/internal/tasks"
)

// batch is a page of which it is decided what becomes of each entry. Its new tasks have no ids yet:
// until they are inserted, each goes by a negative one.
type batch struct {
	page   tasks.Page
	now    time.Time
	plan   []tasks.Planned
	tasks  []newTask
	owners *owners
}

// newTask is a task that is being registered.
type newTask struct {
	tasks.Task
	entry    int             // its place in the plan
	decision *tasks.Decision // nil: not decided yet
}

// add makes a task. In an inbox that is not active it is not decided yet: it would own recipients
// that others can send to now.
func (b *batch) add(entry int, e tasks.Entry, in inboxRow) {
	t := newTask{entry: entry, Task: tasks.Task{
		ID: -int64(len(b.tasks) + 1), InboxID: b.page.InboxID, Inbox: in.Address,
		FolderID: b.page.FolderID, Epoch: b.page.Epoch, UID: e.UID, Identity: e.Identity, Read: e.Read(),
		CreatedAt: b.now, QueuedAt: b.now, UpdatedAt: b.now, Form: tasks.Form{Mode: e.Mode},
	}}
	if d := e.Decision; d != nil && in.IsActive {
		t.decision = d
		t.Revision, t.Route, t.Priority, t.Keep = d.Revision, d.Route, d.Priority, d.Keep
		t.Deliveries = tasks.Decided(d)
	}
	b.tasks = append(b.tasks, t)
}

// decide has the new tasks take what they need to own, in the order of the page, and decides where
// they begin.
func (b *batch) decide(tx *gorm.DB, lock func(string) string) (err error) {
	var keys []onceKey
	for _, t := range b.tasks {
		keys = append(keys, keysOf(t.Task, b.page.Dedupe)...)
	}
	if b.owners, err = ownersOf(tx, keys, lock); err != nil {
		return err
	}
	for i := range b.tasks {
		t := &b.tasks[i]
		if t.decision != nil {
			b.owners.own(&t.Task, b.page.Dedupe)
		}
		due, wait := b.now, false
		t.Status, t.Skip, t.Reason, wait = tasks.Begin(t.decision, t.Deliveries)
		if wait {
			due = due.Add(tasks.WaitRecheck)
		}
		if t.Status == tasks.Received {
			t.VisibleAt = &due
		} else {
			t.FinishedAt = &b.now
		}
	}
	return nil
}

// registrations are what becomes of the entries.
func (b *batch) registrations() []tasks.Registration {
	var out []tasks.Registration
	for _, p := range b.plan {
		out = append(out, tasks.Registration{UID: p.Entry.UID, TaskID: p.TaskID, Fate: p.Fate})
	}
	for _, t := range b.tasks {
		reg := &out[t.entry]
		reg.TaskID, reg.Status, reg.Skip = max(t.ID, 0), t.Status, t.Skip
		if t.ID > 0 && t.CanOffer() {
			reg.Task = &t.Task
		}
	}
	return out
}

// occurrences are the registrations, and the ends of what ended at once. The tasks have their ids.
func (b *batch) occurrences() (out []outbox.Occurrence) {
	for _, t := range b.tasks {
		out = append(out, outbox.Occurrence{Kind: outbox.Registered, TaskID: t.ID})
		if t.Status.Ended() {
			out = append(out, outbox.Occurrence{Kind: outbox.Kind(t.Status), TaskID: t.ID})
		}
	}
	return out
}

// carryOut writes the batch.
func (b *batch) carryOut(tx *gorm.DB) ([]tasks.Registration, error) {
	for _, p := range b.plan {
		if p.Fate == tasks.Moved {
			if err := b.move(tx, p); err != nil {
				return nil, err
			}
		}
	}
	if err := b.insertTasks(tx); err != nil {
		return nil, err
	}
	if err := b.owners.save(tx); err != nil {
		return nil, err
	}
	out := b.registrations()
	return out, b.enter(tx, out)
}

// move notes where the message of a task was found again. A task that was purged since the plan was
// made is not there: the message is new then. One that was requeued since goes on as it is.
func (b *batch) move(tx *gorm.DB, p tasks.Planned) error {
	there, err := update(tx, sqlMove, b.page.Epoch, p.Entry.UID, b.now, p.TaskID)
	if err == nil && !there {
		err = errChanged
	}
	if err != nil || !p.Back {
		return err
	}
	t, err := taskByID(tx, p.TaskID)
	if err != nil || t.Skip != tasks.SkipVanished {
		return err
	}
	if err := restart(tx, b.now, p.TaskID); err != nil {
		return err
	}
	return event(tx, b.now, p.TaskID, "", "requeued", "its message is there again")
}

// insertTasks inserts the tasks and what belongs to them. The ids are looked up: no dialect
// promises that those of one INSERT follow one another.
func (b *batch) insertTasks(tx *gorm.DB) error {
	var rows [][]any
	var uids []uint32
	for _, t := range b.tasks {
		rows, uids = append(rows, newRow(t.Task).columns()), append(uids, t.UID)
	}
	if err := db.Insert(tx, tableTasks, taskColumns, rows); err != nil {
		return err
	}
	ids, err := byUID(tx, sqlTaskIDs, b.page.FolderID, b.page.Epoch, uids)
	if err != nil {
		return err
	}
	b.rename(ids)
	var ds []deliveryRow
	for _, t := range b.tasks {
		ds = append(ds, deliveryRows(t.ID, t.Deliveries, b.now)...)
		if _, _, reason, _ := tasks.Begin(t.decision, t.Deliveries); reason != t.Reason { // it names one of these tasks
			if err := db.Run(tx, sqlReason, cut(reason), t.ID); err != nil {
				return err
			}
		}
		if t.decision == nil {
			continue
		}
		for _, n := range t.decision.Notes {
			if err := event(tx, b.now, t.ID, "", n.Event, n.Detail); err != nil {
				return err
			}
		}
	}
	return db.Insert(tx, tableDeliveries, deliveryKeys+", "+deliveryColumns, values(ds, (*deliveryRow).into))
}

// rename gives the tasks the ids that they have in the database, wherever they are named.
func (b *batch) rename(ids map[uint32]tasks.Seen) {
	id := func(of int64) int64 {
		if of < 0 {
			return ids[b.tasks[-of-1].UID].TaskID
		}
		return of
	}
	for i := range b.tasks {
		t := &b.tasks[i]
		for j := range t.Deliveries {
			t.Deliveries[j].DuplicateOf = id(t.Deliveries[j].DuplicateOf)
		}
	}
	for i := range b.owners.taken {
		b.owners.taken[i].taskID = id(b.owners.taken[i].taskID)
	}
	for i := range b.tasks {
		b.tasks[i].ID = id(b.tasks[i].ID)
	}
}

// enter enters the page into the ledger.
func (b *batch) enter(tx *gorm.DB, regs []tasks.Registration) error {
	var rows [][]any
	for i, p := range b.plan {
		if p.Note {
			rows = append(rows, newSeen(b.page, p.Entry, regs[i].TaskID, p.PurgedAs))
		}
	}
	if err := db.Insert(tx, tableSeen, seenColumns, rows); err != nil {
		return err
	}
	for i, p := range b.plan {
		if !p.Read {
			continue
		}
		content, outline := p.Entry.Identity.Fingerprint, p.Entry.Outline()
		if err := db.Run(tx, sqlReadSeen, content, outline, regs[i].TaskID); err != nil {
			return err
		}
	}
	return nil
}
