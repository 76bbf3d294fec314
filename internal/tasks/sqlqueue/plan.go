package sqlqueue

import (
	"postrider/internal/message"
	"postrider/internal/tasks"
)

// plan decides the fate of each entry of a page from what the ledger knows. It touches nothing.
type plan struct {
	page    tasks.Page
	seen    map[uint32]int64 // uid -> task, under the page's epoch
	matches map[message.Fingerprint][]match
	here    map[int64]bool                 // tasks that have their message in the page's epoch already
	before  map[message.Fingerprint]int    // messages from before the start that have not been found again in this epoch
	inPage  map[message.Fingerprint]uint32 // new messages of this page that will be forwarded
}

// fate is what is to be done with one entry.
type fate struct {
	tasks.Registration
	entry tasks.Entry
	why   string // for skipped, but for duplicates
	of    int64  // for a duplicate: the task that is forwarded instead; 0 while it has no id yet
	ofUID uint32 // and then its UID in this page
	note  bool   // the ledger has no row for it yet
	back  bool   // for moved: the task had ended because the message was not there
}

func newPlan(page tasks.Page, seen map[uint32]int64, found []match) *plan {
	p := &plan{
		page: page, seen: seen, matches: map[message.Fingerprint][]match{},
		here: map[int64]bool{}, before: map[message.Fingerprint]int{}, inPage: map[message.Fingerprint]uint32{},
	}
	for _, m := range found {
		p.matches[m.key()] = append(p.matches[m.key()], m)
		if m.FolderID == page.FolderID && m.UIDValidity == page.Epoch && m.TaskID != 0 {
			p.here[m.TaskID] = true
		}
	}
	p.countBefore(found)
	return p
}

func (p *plan) decide(e tasks.Entry) fate {
	f := fate{entry: e, note: true}
	f.UID = e.UID
	if id, ok := p.seen[e.UID]; ok {
		f.Fate, f.TaskID, f.note = tasks.Known, id, false
		return f
	}
	if m, ok := p.earlier(e); ok {
		f.Fate, f.TaskID = tasks.Known, m.TaskID
		if m.Status != "" {
			f.Fate, f.back = tasks.Moved, m.vanished()
		}
		return f
	}
	if p.page.KnownOnly {
		f.Fate, f.note = tasks.Known, false
		return f
	}
	if e.Skip != "" {
		f.Fate, f.why = tasks.SkippedAt, e.Skip
		return f
	}
	if of, uid := p.duplicate(e); of != 0 || uid != 0 {
		f.Fate, f.of, f.ofUID = tasks.Duplicate, of, uid
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
func (p *plan) earlier(e tasks.Entry) (match, bool) {
	for _, key := range []message.Fingerprint{e.Fingerprint, e.Outline} {
		for _, m := range p.matches[key] {
			if p.older(m) && m.TaskID != 0 && !p.here[m.TaskID] {
				p.here[m.TaskID] = true
				return m, true
			}
		}
	}
	if p.before[e.Outline] == 0 {
		return match{}, false
	}
	p.before[e.Outline]--
	return match{}, true
}

// countBefore is how many messages of an outline were there before the start and have not been found again: those of
// the epoch that has most of them, without those of this epoch.
func (p *plan) countBefore(found []match) {
	type place struct {
		outline message.Fingerprint
		epoch   int64
	}
	rows := map[place]int{}
	for _, m := range found {
		if m.FolderID == p.page.FolderID && m.TaskID == 0 {
			rows[place{m.key(), m.UIDValidity}]++
		}
	}
	for at, n := range rows {
		if at.epoch != p.page.Epoch {
			p.before[at.outline] = max(p.before[at.outline], n-rows[place{at.outline, p.page.Epoch}])
		}
	}
}

func (p *plan) older(m match) bool {
	return m.FolderID == p.page.FolderID && m.UIDValidity != p.page.Epoch
}

// duplicate says which equal message is forwarded instead of this one, as a task or as a UID of this page; neither
// when there is none. One that was not forwarded, or is not going to be, makes no duplicate, and one whose content is
// not known is none: dropping is worse than repeating.
func (p *plan) duplicate(e tasks.Entry) (task int64, uid uint32) {
	if p.page.Dedupe == tasks.DedupeOff || e.Fingerprint == e.Outline {
		return 0, 0
	}
	for _, m := range p.matches[e.Fingerprint] {
		if m.forwards() && (p.page.Dedupe == tasks.DedupeAll || m.InboxID == p.page.InboxID) {
			return m.TaskID, 0
		}
	}
	return 0, p.inPage[e.Fingerprint]
}
