//go:build unix

package sqlqueue

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"postrider/internal/db"
	"postrider/internal/tasks"
)

// account checks, against the notebook, that
//   - every message up to the cursor is accounted for, ended as the notebook says, and reached each of
//     its recipients at least once; so did the copy of a refused message, and no other copy did;
//   - each content reached each recipient through one task;
//   - a receipt finishes once, and one receipt ends a task: the one that the registry has;
//   - no one claims a task during another worker's lease, and no one registers under a scan lease
//     that was taken over;
//   - a worker that acted on a lost lease is in the audit trail of the task, and no other worker is;
//     only such a worker gets ErrLeaseLost;
//   - a recipient that was `sending` when its worker died is `sending` for the next worker, and only
//     such a recipient is sent to twice;
//   - attempts and lost leases add up;
//   - a recipient that is known as delivered is not sent to again.
func (s *storm) account(t *testing.T, kind string) {
	t.Helper()
	a := &audit{
		T: t, notes: readNotebook(t, s.notebook),
		receipts: map[string]*history{}, byTask: map[int64][]*history{},
	}
	a.read()
	messages, missing := 0, 0
	for inboxID, folderID := range s.folders {
		n, m := s.accountFolder(a, inboxID, folderID)
		messages, missing = messages+n, missing+m
	}
	repeated := a.repeats()
	a.scans()
	f := s.faults
	t.Logf("faults: %s: %d messages, %d kills, %d stops past the lease, %d cuts, %d restarts; "+
		"%d leases lost, %d calls on a lost lease, %d claimed as they went out: "+
		"%d lost, %d repeated%s",
		kind, messages, f.kills, f.stops, f.cuts, f.restarts, a.leases, a.stale, a.offers, missing, repeated, a.where())
}

// audit is the notebook, sorted.
type audit struct {
	*testing.T
	notes    []note
	receipts map[string]*history
	byTask   map[int64][]*history // by the time of the claim
	arrivals map[[2]string][]*history
	leases   int // lost
	stale    int // calls that reported a lost lease
	outside  int // repeats that were not marked as sending
	offers   int // that became claims
}

// history is what was done with one receipt.
type history struct {
	task     int64
	token    string
	offered  bool // and not claimed, as far as is known
	worker   string
	at       int64 // of the claim
	until    int64 // the lease's end, or earlier
	seen     map[string]tasks.DeliveryStatus
	sending  map[string]tasks.DeliveryStatus // committed
	settling bool                            // finish or release was begun
	begun    tasks.Status                    // of the finish, if one was begun
	finished int                             // times that a finish or release succeeded
	ended    bool                            // by one of these
	calls    int                             // begun on the receipt
	lost     int                             // calls that returned ErrLeaseLost
	unheard  int                             // calls whose outcome is unknown
}

// read goes through the notebook in its order.
func (a *audit) read() {
	a.arrivals = map[[2]string][]*history{}
	delivered := map[int64]map[string]bool{}
	again := map[*history]string{} // sent after the delivery was known
	for _, n := range a.notes {
		h := a.receipts[n.Receipt]
		if h == nil && n.What != "claimed" && n.What != "offered" && n.What != "register" {
			a.Fatalf("%s by a receipt that was not claimed: %+v", n.What, n)
		}
		switch {
		case n.What == "claimed" || n.What == "offered":
			h = &history{
				task: n.Task, token: n.Receipt, worker: n.Worker,
				at: n.At, until: n.At + shortLease.Microseconds(), seen: n.To,
			}
			a.receipts[n.Receipt] = h
			if h.offered = n.What == "offered"; !h.offered {
				a.byTask[n.Task] = append(a.byTask[n.Task], h)
			}
		case n.What == "extend":
			h.until = max(h.until, n.At+shortLease.Microseconds())
		case n.What == "arrived":
			key := [2]string{n.Message, n.Recipient}
			a.arrivals[key] = append(a.arrivals[key], h)
		case n.What != "register":
			h.call(n)
			if h.offered && n.Outcome == done { // from here on it is a claim
				a.byTask[n.Task] = append(a.byTask[n.Task], h)
				h.offered = false
				a.offers++
			}
		}
		switch {
		case n.What == "sending" && n.Outcome == begun:
			for to := range n.To {
				if delivered[n.Task][to] {
					again[h] = to
				}
			}
		case n.What == "sending" && n.Outcome == done && again[h] != "":
			a.Errorf("task %d: %s was let send to %s again, though that was delivered", n.Task, n.Worker, again[h])
		case n.What == "finish" && n.Outcome == done:
			for to, status := range n.To {
				if status == tasks.Delivered {
					if delivered[n.Task] == nil {
						delivered[n.Task] = map[string]bool{}
					}
					delivered[n.Task][to] = true
				}
			}
		}
	}
	for _, hs := range a.byTask {
		slices.SortFunc(hs, func(x, y *history) int { return cmp.Compare(x.at, y.at) })
	}
}

// call enters a reserve, sending, finish or release.
func (h *history) call(n note) {
	settles := n.What == "finish" || n.What == "release"
	switch n.Outcome {
	case begun:
		h.calls++
		h.unheard++
		h.settling = h.settling || settles
		if settles {
			h.begun = n.Status
		}
	case lost:
		h.unheard--
		h.lost++
	case taken:
		h.unheard--
	case done:
		h.unheard--
		switch {
		case settles:
			h.finished++
			h.ended = h.ended || n.Status.Ended()
		case n.What == "sending":
			h.sending = n.To
		}
	}
}

// accountFolder checks each message up to the cursor, and returns how many there are and how many
// are lost.
func (s *storm) accountFolder(a *audit, inboxID, folderID int64) (messages, missing int) {
	a.Helper()
	var cursor uint32
	s.query(a, &cursor, "SELECT last_seen_uid FROM monitored_folders WHERE id = ?", folderID)
	found, err := New(s.DB).Dispositions(a.Context(), folderID, 1, 1, cursor)
	if err != nil {
		a.Fatal(err)
	}
	if len(found) != int(cursor) {
		a.Errorf("inbox %d: %d of %d messages are accounted for, want all", inboxID, len(found), cursor)
	}
	byUID := map[uint32]tasks.Disposition{}
	for _, d := range found {
		byUID[d.UID] = d
	}
	for uid := uint32(1); uid <= cursor; uid++ {
		d, f := byUID[uid], fateOf(uid)
		ok := d.Status == f.ends()
		if !ok {
			a.Errorf("message %s ended %q (%s), want %q", messageName(folderID, uid), d.Status, d.Reason, f.ends())
		}
		for _, to := range recipientsOf(uid) {
			arrived := 0
			for _, h := range a.arrivals[[2]string{messageName(folderID, contentOf(uid)), to}] {
				if h.task == d.TaskID {
					arrived++
				}
			}
			known := byRecipient(d.Deliveries)[to] == tasks.Delivered
			if f.arrives() && (arrived == 0 || !known) || !f.arrives() && arrived > 0 {
				a.Errorf("message %s arrived %d times at %s, delivered is %t in the registry; "+
					"want it there if it is to be forwarded (%t)",
					messageName(folderID, uid), arrived, to, known, f.arrives())
				ok = ok && arrived > 0
			}
		}
		if !ok {
			missing++
		}
		s.accountTask(a, d.TaskID)
	}
	return int(cursor), missing
}

// accountTask checks one task against its receipts and its audit trail.
func (s *storm) accountTask(a *audit, id int64) {
	a.Helper()
	rows, err := db.Read(a.Context(), s.DB, (*taskRow).into, sqlTask, id)
	if err != nil || len(rows) != 1 {
		a.Fatalf("task %d: %d rows, %v", id, len(rows), err)
	}
	row := rows[0]
	events, err := New(s.DB).Events(a.Context(), id)
	if err != nil {
		a.Fatal(err)
	}
	count, conflicts, takenOver := map[string]int{}, map[string]int{}, map[string]bool{}
	for _, e := range events {
		if e.Event == "lease_lost" {
			from, _, _ := strings.Cut(strings.TrimPrefix(e.Detail, "taken over from "), ",")
			takenOver[from] = true
		}
		count[e.Event]++
		if e.Event == "conflict" {
			conflicts[e.Worker]++
		}
	}
	a.leases += row.LostLeases
	attempts := 0
	if row.receipt != "" {
		// The claim that ended it, those that deferred it, and those that lost their lease.
		attempts = 1 + count["error"] + row.LostLeases
	}
	if row.Attempts != attempts || row.LostLeases != count["lease_lost"] {
		a.Errorf("task %d: %d attempts, %d lost leases; want %d, and as many as its trail has: %v",
			id, row.Attempts, row.LostLeases, attempts, count)
	}
	a.conflicts(id, conflicts)
	for _, h := range a.byTask[id] {
		// A worker that deferred the task may have lost the answer, and another one went on.
		if h.lost > 0 && h.begun.Ended() && !takenOver[h.worker] {
			a.Errorf("task %d: %s got ErrLeaseLost, but no one took the task over", id, h.worker)
		}
	}
	a.oneEnd(id, row.receipt, row.Status)
	a.leasesHeld(id)
	a.sendingSeen(id)
}

// conflicts compares the calls that returned ErrLeaseLost with the trail's conflicts by worker.
func (a *audit) conflicts(id int64, inTrail map[string]int) {
	lost, possible := map[string]int{}, map[string]bool{}
	for _, h := range a.byTask[id] {
		lost[h.worker] += h.lost
		possible[h.worker] = possible[h.worker] || h.lost+h.unheard > 0
		a.stale += h.lost
	}
	for worker, n := range lost {
		if inTrail[worker] < n {
			a.Errorf("task %d: %s got ErrLeaseLost %d times, the trail has it %d times", id, worker, n, inTrail[worker])
		}
	}
	for worker := range inTrail {
		if !possible[worker] {
			a.Errorf("task %d: the trail has a conflict by %s, but all its calls succeeded", id, worker)
		}
	}
}

func (a *audit) oneEnd(id int64, receipt string, status tasks.Status) {
	ends := 0
	for _, h := range a.byTask[id] {
		if h.finished > 1 {
			a.Errorf("task %d: receipt %s finished %d times, want once", id, h.token, h.finished)
		}
		if h.ended {
			ends++
		}
		if h.ended && h.token != receipt {
			a.Errorf("task %d: receipt %s ended it, the registry has %s", id, h.token, receipt)
		}
	}
	if ends > 1 {
		a.Errorf("task %d: ended by %d receipts, want one", id, ends)
	}
	if h := a.receipts[receipt]; receipt != "" && (h == nil || h.begun != status) {
		a.Errorf("task %d is %s by receipt %s, whose holder did not say so: %+v", id, status, receipt, h)
	}
}

func (a *audit) leasesHeld(id int64) {
	hs := a.byTask[id]
	for i := 1; i < len(hs); i++ {
		if before := hs[i-1]; !before.settling && hs[i].at < before.until {
			a.Errorf("task %d: %s claimed it %v before the lease of %s ended", id, hs[i].worker,
				time.Duration(before.until-hs[i].at)*time.Microsecond, before.worker)
		}
	}
}

// sendingSeen checks that the next claim has the `sending` recipients of a process that died.
func (a *audit) sendingSeen(id int64) {
	hs := a.byTask[id]
	for i, before := range hs {
		for to := range before.sending {
			for _, after := range hs[i+1:] {
				if status := after.seen[to]; !before.settling && status != tasks.Sending && status != tasks.Delivered {
					a.Errorf("task %d: %s was sending to %s and did not say what came of it; "+
						"%s found it %q, want sending or delivered",
						id, before.worker, to, after.worker, status)
				}
			}
		}
	}
}

// repeats counts the arrivals of a message at a recipient after the first. A worker that sent again
// must have found the recipient `sending`.
func (a *audit) repeats() (n int) {
	for key, hs := range a.arrivals {
		slices.SortFunc(hs, func(x, y *history) int { return cmp.Compare(x.at, y.at) })
		for i := 1; i < len(hs); i++ {
			n++
			if status := hs[i].seen[key[1]]; status != tasks.Sending {
				a.outside++
				a.Errorf("message %s arrived at %s again, from %s, which had found it %q; want sending",
					key[0], key[1], hs[i].worker, status)
			}
			if hs[i-1].task != hs[i].task {
				a.Errorf("message %s arrived by tasks %d and %d, want one", key[0], hs[i-1].task, hs[i].task)
			}
		}
	}
	return n
}

func (a *audit) where() string {
	if a.outside > 0 {
		return fmt.Sprintf(", %d of them not while sending", a.outside)
	}
	return ", all while sending"
}

// scans checks that whoever registered did so under the last scan lease given.
func (a *audit) scans() {
	newest, began := map[int64]int64{}, map[string]int64{}
	for _, n := range a.notes {
		if n.What != "register" {
			continue
		}
		switch n.Outcome {
		case begun:
			began[n.Worker] = newest[n.Inbox]
		case done:
			if n.Token < began[n.Worker] {
				a.Errorf("%s registered under scan lease %d of inbox %d after another run had under %d",
					n.Worker, n.Token, n.Inbox, began[n.Worker])
			}
			newest[n.Inbox] = max(newest[n.Inbox], n.Token)
		}
	}
}
