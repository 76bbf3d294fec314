package sqlqueue

import (
	"bytes"
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"

	"gorm.io/gorm"

	"postrider/internal/address"
	"postrider/internal/db"
	"postrider/internal/message"
	"postrider/internal/tasks"
)

// onceKey is owned by at most one task: through it the recipient gets this content in this scope.
type onceKey struct {
	scope   int64
	content message.Fingerprint
	mailbox string
}

// everywhere is the scope of tasks.DedupeAll. The scope of tasks.DedupeInbox is the inbox.
const everywhere = 0

// keysOf is what a task has to own before its deliveries go out. It is empty while the content is
// not known: to drop a message is worse than to send it twice.
func keysOf(t tasks.Task, dedupe tasks.Dedupe) (keys []onceKey) {
	if dedupe == tasks.DedupeOff || !t.Read {
		return nil
	}
	scope := t.InboxID
	if dedupe == tasks.DedupeAll {
		scope = everywhere
	}
	for _, d := range t.Deliveries {
		keys = append(keys, onceKey{scope, t.Identity.Fingerprint, address.Mailbox(d.Recipient)})
	}
	return keys
}

// owners says which tasks own some keys, and which keys this transaction takes.
type owners struct {
	by    map[onceKey]tasks.Owner
	lost  map[onceKey]int64 // free: something other than the queue deleted these tasks
	taken []onceRow
}

// ownersOf reads which tasks own the keys. With a lock, the rows of the owners and their deliveries
// stay as they are until the transaction ends: an owner does not give up a recipient between the
// two reads, and one that settles a delivery later finds the tasks that wait for it. On another
// database node it may not find them; that is what tasks.WaitRecheck is for.
func ownersOf(tx *gorm.DB, keys []onceKey, lock func(string) string) (*owners, error) {
	rows, err := ownerRows(tx, keys, lock)
	if err != nil {
		return nil, err
	}
	var ids []int64
	for _, r := range rows {
		ids = append(ids, r.taskID)
	}
	s, err := progressOf(tx, ids, lock)
	if err != nil {
		return nil, err
	}
	o := &owners{by: map[onceKey]tasks.Owner{}, lost: map[onceKey]int64{}}
	for _, r := range rows {
		switch status, there := s.status[r.taskID]; {
		case r.taskID < 0: // purged
			o.by[r.onceKey] = tasks.Owner{TaskID: -r.taskID}
		case there:
			o.by[r.onceKey] = tasks.OwnerOf(r.taskID, status, s.deliveries[r.taskID], r.mailbox)
		default:
			o.lost[r.onceKey] = r.taskID
		}
	}
	return o, nil
}

// unlocked is the lock of a transaction that only reads.
func unlocked(query string) string { return query }

// ownerRows reads at most a thousand keys at once: with too many of them MySQL reads the whole
// table.
func ownerRows(tx *gorm.DB, keys []onceKey, lock func(string) string) (rows []onceRow, _ error) {
	scopes, contents, mailboxes := map[int64]bool{}, map[message.Fingerprint]bool{}, map[string]bool{}
	for _, k := range keys {
		scopes[k.scope], contents[k.content], mailboxes[k.mailbox] = true, true, true
	}
	prints := slices.SortedFunc(maps.Keys(contents), compare)
	for part := range slices.Chunk(prints, max(1, 1000/max(1, len(mailboxes)))) {
		found, err := db.Query(tx, (*onceRow).into, lock(sqlOwners),
			slices.Sorted(maps.Keys(scopes)), part, slices.Sorted(maps.Keys(mailboxes)))
		if err != nil {
			return nil, err
		}
		rows = append(rows, found...)
	}
	return rows, nil
}

// own has a task take the keys that it needs to own.
func (o *owners) own(t *tasks.Task, dedupe tasks.Dedupe) {
	keys, of := map[string]onceKey{}, map[string]tasks.Owner{}
	for _, k := range keysOf(*t, dedupe) {
		keys[k.mailbox] = k
		if owner, owned := o.by[k]; owned {
			of[k.mailbox] = owner
		}
	}
	ds, take := tasks.Own(t.ID, t.Deliveries, of)
	t.Deliveries = ds
	for _, mailbox := range take {
		if k, ok := keys[mailbox]; ok {
			o.take(k, t.ID)
		}
	}
}

// take has a task own a key that is free.
func (o *owners) take(k onceKey, taskID int64) {
	if _, owned := o.by[k]; !owned {
		o.by[k] = tasks.Owner{TaskID: taskID, Open: true}
		o.taken = append(o.taken, onceRow{k, taskID})
	}
}

// save inserts what was taken, in the order of the keys. It returns gorm.ErrDuplicatedKey when a
// key was taken concurrently; then this transaction decides again.
func (o *owners) save(tx *gorm.DB) error {
	slices.SortFunc(o.taken, func(a, b onceRow) int {
		return cmp.Or(cmp.Compare(a.scope, b.scope), compare(a.content, b.content),
			strings.Compare(a.mailbox, b.mailbox))
	})
	for _, t := range o.taken {
		if id, ok := o.lost[t.onceKey]; ok {
			if err := db.Run(tx, sqlDropOwned, t.scope, t.content, t.mailbox, id); err != nil {
				return err
			}
		}
	}
	return db.Insert(tx, tableOnce, onceColumns, values(o.taken, (*onceRow).into))
}

func compare(a, b message.Fingerprint) int { return bytes.Compare(a[:], b[:]) }

// progress is how far tasks got. It has no deleted tasks.
type progress struct {
	status     map[int64]tasks.Status
	deliveries map[int64][]tasks.Delivery
}

func progressOf(tx *gorm.DB, ids []int64, lock func(string) string) (s progress, err error) {
	if len(ids) == 0 {
		return s, nil
	}
	slices.Sort(ids)
	ids = slices.Compact(ids)
	if s.deliveries, err = lockedDeliveries(tx, ids, lock); err != nil {
		return s, err
	}
	rows, err := statuses(tx, ids)
	s.status = map[int64]tasks.Status{}
	for _, r := range rows {
		s.status[r.ID] = r.Status
	}
	return s, err
}

// giveUp has tasks give up recipients.
func giveUp(tx *gorm.DB, recipients map[int64][]string) error {
	same := map[string][]int64{} // most tasks have the same recipients
	for id, rs := range recipients {
		if len(rs) > 0 {
			mailboxes := mailboxesOf(rs)
			same[strings.Join(mailboxes, "\n")] = append(same[strings.Join(mailboxes, "\n")], id)
		}
	}
	for _, mailboxes := range slices.Sorted(maps.Keys(same)) {
		ids := same[mailboxes]
		slices.Sort(ids)
		if err := db.Run(tx, sqlGiveUp, ids, strings.Split(mailboxes, "\n")); err != nil {
			return err
		}
	}
	return nil
}

func mailboxesOf(recipients []string) []string {
	out := make([]string, len(recipients))
	for i, r := range recipients {
		out[i] = address.Mailbox(r)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// around reads the deliveries of tasks, and the deliveries of other tasks that wait for them.
func around(tx *gorm.DB, ids []int64) (own map[int64][]tasks.Delivery, waiting []deliveryRow, _ error) {
	rows, err := db.Query(tx, (*aroundRow).into, sqlAround, ids, ids)
	slices.SortFunc(rows, func(a, b aroundRow) int {
		return cmp.Or(cmp.Compare(a.taskID, b.taskID), strings.Compare(a.Recipient, b.Recipient))
	})
	own = map[int64][]tasks.Delivery{}
	for _, r := range rows {
		if r.waits {
			waiting = append(waiting, r.deliveryRow)
		} else {
			own[r.taskID] = append(own[r.taskID], r.Delivery)
		}
	}
	return own, waiting, err
}

// aroundRow is a row of sqlAround.
type aroundRow struct {
	waits bool
	deliveryRow
}

func (r *aroundRow) into() []any { return append([]any{&r.waits}, r.deliveryRow.into()...) }

// waitingFor reads the deliveries that wait for one of the tasks.
func waitingFor(tx *gorm.DB, ids []int64) ([]deliveryRow, error) {
	return db.Query(tx, (*deliveryRow).into, sqlWaiting, ids)
}

// wake makes a task due when one of its deliveries waits for a settled one. settled has the settled
// recipients by task.
func wake(tx *gorm.DB, now time.Time, waiting []deliveryRow, settled map[int64][]string) error {
	for _, w := range waiting {
		if !slices.Contains(mailboxesOf(settled[w.DuplicateOf]), address.Mailbox(w.Recipient)) {
			continue
		}
		if err := db.Run(tx, sqlWake, now.UnixMicro(), w.taskID, now.UnixMicro()); err != nil {
			return err
		}
	}
	return nil
}

// settle updates the deliveries of tasks. Those whose claims have ended give up what they no longer
// own, and make the tasks due that wait for what is settled. It returns all deliveries of these
// tasks.
//
// It gives up ownership before it changes the deliveries. Every transaction locks owners before
// deliveries, so they do not deadlock. The waiting tasks are read last: by then no one else reads
// the deliveries.
func settle(tx *gorm.DB, now time.Time, changes []*change) (map[int64][]tasks.Delivery, error) {
	var ids []int64
	var rows []deliveryRow
	before, more, settled := map[int64][]string{}, map[int64][]string{}, map[int64][]string{}
	for _, c := range changes {
		id := c.receipt.TaskID
		rows = append(rows, deliveryRows(id, c.deliveries, now)...)
		if c.target != tasks.InProgress {
			ids = append(ids, id)
			before[id] = tasks.GivesUp(c.target, c.deliveries)
		}
	}
	if err := giveUp(tx, before); err != nil {
		return nil, err
	}
	if err := upsert(tx, rows); err != nil || len(ids) == 0 {
		return nil, err
	}
	all, waiting, err := around(tx, ids)
	if err != nil {
		return nil, err
	}
	for _, c := range changes {
		if c.target == tasks.InProgress {
			continue
		}
		id := c.receipt.TaskID
		gone := tasks.GivesUp(c.target, all[id])
		if len(gone) > len(before[id]) {
			more[id] = gone
		}
		settled[id] = append(gone, tasks.Settles(c.target, all[id])...)
	}
	if err := giveUp(tx, more); err != nil {
		return nil, err
	}
	return all, wake(tx, now, waiting, settled)
}
