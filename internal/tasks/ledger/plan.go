package ledger

import (
	"cmp"
	"slices"

	"postrider/internal/message"
	"postrider/internal/tasks"
)

// plan decides the fate of each entry of a page from what the ledger knows. It touches nothing.
type plan struct {
	page    tasks.Page
	seen    map[uint32]int64 // uid -> task, under the page's epoch
	matches map[message.Fingerprint][]Row
	here    map[int64]bool                 // tasks that have their message in the page's epoch already
	before  map[message.Fingerprint]int    // messages from before the start that have not been found again in this epoch
	inPage  map[message.Fingerprint]uint32 // new messages of this page that will be forwarded
}

// Fate is what is to be done with one entry.
type Fate struct {
	tasks.Registration
	Entry tasks.Entry
	Why   string // for skipped, but for duplicates
	Of    int64  // for a duplicate: the task that is forwarded instead; 0 while it has no id yet
	OfUID uint32 // and then its UID in this page
	Note  bool   // the ledger has no row for it yet
	Back  bool   // for moved: the task had ended because the message was not there
	Read  bool   // for known and moved: it was known by its outline, and is known by its content from now on, wherever it was

	PurgedAs string // for known: what the ledger keeps of the task, when that is purged
}

// Decide decides on the entries of a page in their order. seen are the tasks of those that have a row under the page's
// epoch, by UID; found are the rows whose fingerprint is an entry's fingerprint or outline, ordered by task.
func Decide(page tasks.Page, seen map[uint32]int64, found []Row) []Fate {
	p := newPlan(page, seen, found)
	fates := make([]Fate, len(page.Entries))
	for i, e := range page.Entries {
		fates[i] = p.decide(e)
	}
	return fates
}

func newPlan(page tasks.Page, seen map[uint32]int64, found []Row) *plan {
	p := &plan{
		page: page, seen: seen, matches: map[message.Fingerprint][]Row{},
		here: map[int64]bool{}, before: map[message.Fingerprint]int{}, inPage: map[message.Fingerprint]uint32{},
	}
	for _, m := range found {
		p.matches[m.Fingerprint] = append(p.matches[m.Fingerprint], m)
		if m.FolderID == page.FolderID && m.Epoch == page.Epoch && m.TaskID != 0 {
			p.here[m.TaskID] = true
		}
	}
	p.countBefore(found)
	return p
}

func (p *plan) decide(e tasks.Entry) Fate {
	f := Fate{Entry: e, Note: true}
	f.UID = e.UID
	if id, ok := p.seen[e.UID]; ok {
		f.Fate, f.TaskID, f.Note = tasks.Known, id, false
		return f
	}
	if m, ok := p.earlier(e); ok {
		f.Fate, f.TaskID, f.PurgedAs = tasks.Known, m.TaskID, m.PurgedAs
		if m.Status != "" {
			f.Fate, f.Back = tasks.Moved, m.vanished()
		}
		f.Read = m.TaskID != 0 && m.Fingerprint != e.Fingerprint
		p.foundAgain(m, e)
		return f
	}
	if p.page.KnownOnly {
		f.Fate, f.Note = tasks.Known, false
		return f
	}
	if e.Skip != "" {
		f.Fate, f.Why = tasks.SkippedAt, e.Skip
		return f
	}
	if of, uid := p.duplicate(e); of != 0 || uid != 0 {
		f.Fate, f.Of, f.OfUID = tasks.Duplicate, of, uid
		return f
	}
	f.Fate = tasks.New
	if e.Route != "" {
		p.inPage[e.Fingerprint] = e.UID
	}
	return f
}

// earlier finds the message in an older epoch of the same folder: by its content, or by its outline when its content
// was never read. Two equal messages find two tasks, or two that were there before the start, one each.
func (p *plan) earlier(e tasks.Entry) (Row, bool) {
	for _, key := range []message.Fingerprint{e.Fingerprint, e.Outline} {
		for _, m := range p.matches[key] {
			if p.older(m) && m.TaskID != 0 && !p.here[m.TaskID] && m.PurgedAs != Vanished && !p.sentElsewhere(m, e) {
				p.here[m.TaskID] = true
				return m, true
			}
		}
	}
	if p.before[e.Outline] == 0 {
		return Row{}, false
	}
	p.before[e.Outline]--
	return Row{}, true
}

// sentElsewhere reports whether the row's task ended as vanished, and an equal message is accounted for since: then
// the message is that one's duplicate, and its task does not go on.
func (p *plan) sentElsewhere(m Row, e tasks.Entry) bool {
	of, uid := p.duplicate(e)
	return m.vanished() && (of != 0 || uid != 0)
}

// foundAgain has the rest of the page know a message of an older epoch by what is known of it now: its content, and that
// it is there.
func (p *plan) foundAgain(m Row, e tasks.Entry) {
	if m.vanished() {
		m.Status, m.Reason = tasks.Received, ""
		if !m.Reached {
			m.Route = "" // it is decided on anew
		}
	}
	m.Epoch, m.Fingerprint = p.page.Epoch, e.Fingerprint
	p.matches[e.Fingerprint] = append(p.matches[e.Fingerprint], m)
	slices.SortStableFunc(p.matches[e.Fingerprint], func(a, b Row) int { return cmp.Compare(a.TaskID, b.TaskID) })
}

// countBefore is how many messages of an outline were there before the start and have not been found again: those of
// the epoch that has most of them, without those of this epoch.
func (p *plan) countBefore(found []Row) {
	type place struct {
		outline message.Fingerprint
		epoch   int64
	}
	rows := map[place]int{}
	for _, m := range found {
		if m.FolderID == p.page.FolderID && m.TaskID == 0 {
			rows[place{m.Fingerprint, m.Epoch}]++
		}
	}
	for at, n := range rows {
		if at.epoch != p.page.Epoch {
			p.before[at.outline] = max(p.before[at.outline], n-rows[place{at.outline, p.page.Epoch}])
		}
	}
}

func (p *plan) older(m Row) bool {
	return m.FolderID == p.page.FolderID && m.Epoch != p.page.Epoch
}

// duplicate says which equal message accounts for this one, as a task or as a UID of this page; neither when there is
// none. One that was not forwarded, or is not going to be, makes no duplicate unless a person said so, and one whose
// content is not known is none: dropping is worse than repeating.
func (p *plan) duplicate(e tasks.Entry) (task int64, uid uint32) {
	if p.page.Dedupe == tasks.DedupeOff || e.Fingerprint == e.Outline {
		return 0, 0
	}
	for _, m := range p.matches[e.Fingerprint] {
		if m.accounts() && (p.page.Dedupe == tasks.DedupeAll || m.InboxID == p.page.InboxID) {
			return m.TaskID, 0
		}
	}
	return 0, p.inPage[e.Fingerprint]
}
