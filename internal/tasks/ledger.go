package tasks

import (
	"cmp"
	"slices"

	"postrider/internal/message"
)

// Seen is one row of the ledger and the task it belongs to.
type Seen struct {
	FolderID    int64
	Epoch       int64
	TaskID      int64               // 0: there before the start
	Fingerprint message.Fingerprint // the outline of a message that was there before the start
	Status      Status              // of the task; empty when that is gone
	Skip        SkipReason          // of the task
	PurgedAs    string              // see PurgedAs; empty when something other than the queue deleted the task
}

// Gone reports whether the task ended because the message was gone.
func (r Seen) Gone() bool { return r.Skip == SkipVanished }

// purgedVanished is PurgedAs of a task whose message was gone: if the message reappears, it is new.
const purgedVanished = string(SkipVanished)

// PurgedAs is what the ledger keeps of a task that is deleted.
func PurgedAs(s Status, skip SkipReason) string {
	if skip == SkipVanished {
		return purgedVanished
	}
	return string(s)
}

// EndedAs is what the ledger says of a purged task by PurgedAs: the state in which it ended, and
// SkipVanished if its message was gone.
func EndedAs(as string) (Status, SkipReason) {
	if as == purgedVanished {
		return Skipped, SkipVanished
	}
	return Status(as), ""
}

// Planned is what is to be done with one entry of a page.
type Planned struct {
	Entry    Entry
	Fate     Fate
	TaskID   int64  // of Known and Moved
	Note     bool   // the ledger has no row for it yet
	Back     bool   // Moved: the task had ended because the message was gone
	Read     bool   // it was known by its outline, and is known by its content from now on
	PurgedAs string // Known: how its purged task ended
}

// Plan decides what to do with the entries of a page, in order. seen are the rows of the entries
// that have one under the page's epoch, by UID; found are the rows whose fingerprint is that of
// an entry, or its outline, ordered by task. Losing a message is worse than repeating it, so a
// message that is not certainly the same counts as new.
func Plan(page Page, seen map[uint32]Seen, found []Seen) []Planned {
	p := newPlanner(page, found)
	out := make([]Planned, len(page.Entries))
	for i, e := range page.Entries {
		switch r, ok := seen[e.UID]; {
		case !ok:
			out[i] = p.plan(e)
		case r.Gone() && (e.Read() || e.Decision != nil): // else nothing of it came
			out[i] = Planned{Entry: e, Fate: Moved, TaskID: r.TaskID, Back: true}
		default:
			out[i] = Planned{Entry: e, Fate: Known, TaskID: r.TaskID}
		}
	}
	return out
}

// planner finds the messages of a page in older epochs of its folder.
type planner struct {
	page   Page
	rows   map[message.Fingerprint][]Seen
	here   map[int64]bool              // tasks that have their message in the page's epoch already
	before map[message.Fingerprint]int // messages from before the start, not found again in this epoch
}

func newPlanner(page Page, found []Seen) *planner {
	p := &planner{
		page: page, rows: map[message.Fingerprint][]Seen{}, here: map[int64]bool{},
		before: countBefore(page, found),
	}
	for _, r := range found {
		p.rows[r.Fingerprint] = append(p.rows[r.Fingerprint], r)
		if r.FolderID == page.FolderID && r.Epoch == page.Epoch && r.TaskID != 0 {
			p.here[r.TaskID] = true
		}
	}
	return p
}

func (p *planner) plan(e Entry) Planned {
	out := Planned{Entry: e, Fate: New, Note: true}
	r, ok := p.earlier(e)
	switch {
	case ok && r.Status != "":
		out.Fate, out.TaskID, out.Back = Moved, r.TaskID, r.Gone()
	case ok:
		out.Fate, out.TaskID, out.PurgedAs = Known, r.TaskID, r.PurgedAs
	case p.page.KnownOnly:
		out.Fate, out.Note = Known, false
	}
	out.Read = ok && r.TaskID != 0 && r.Fingerprint != e.Identity.Fingerprint
	return out
}

// earlier finds the message in an older epoch of its folder: by its content, or by its outline if
// its content was never read. Of two equal messages, each finds a different task, or a different
// message from before the start. Tasks that still need their message come first.
func (p *planner) earlier(e Entry) (Seen, bool) {
	outline := e.Outline()
	for _, key := range []message.Fingerprint{e.Identity.Fingerprint, outline} {
		left := slices.DeleteFunc(slices.Clone(p.rows[key]), func(r Seen) bool {
			return r.FolderID != p.page.FolderID || r.Epoch == p.page.Epoch || r.TaskID == 0 ||
				p.here[r.TaskID] || r.PurgedAs == purgedVanished
		})
		if len(left) > 0 {
			r := slices.MinFunc(left, func(a, b Seen) int { return cmp.Compare(a.turn(), b.turn()) })
			p.here[r.TaskID] = true
			return r, true
		}
	}
	if p.before[outline] == 0 {
		return Seen{}, false
	}
	p.before[outline]--
	return Seen{}, true
}

// turn orders the tasks of equal messages, of which some may be gone: first those that are still to
// be sent, then those that an operator may requeue. Tasks whose message was gone come last.
func (r Seen) turn() int {
	switch {
	case !r.Status.Ended():
		return 0
	case r.Status == Uncertain, r.Status == Dead:
		return 1
	case r.Gone():
		return 3
	}
	return 2
}

// countBefore is how many messages with an outline were there before the start and have not been
// found again: the number in the epoch that has most of them, minus the number in this epoch.
func countBefore(page Page, found []Seen) map[message.Fingerprint]int {
	type key struct {
		outline message.Fingerprint
		epoch   int64
	}
	rows, before := map[key]int{}, map[message.Fingerprint]int{}
	for _, r := range found {
		if r.FolderID == page.FolderID && r.TaskID == 0 {
			rows[key{r.Fingerprint, r.Epoch}]++
		}
	}
	for at, n := range rows {
		if at.epoch != page.Epoch {
			n -= rows[key{at.outline, page.Epoch}]
			before[at.outline] = max(before[at.outline], n)
		}
	}
	return before
}
