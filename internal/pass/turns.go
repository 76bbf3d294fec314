package pass

import (
	"slices"
	"strings"
	"sync"

	"golang.org/x/sync/errgroup"

	"postrider/internal/inbox"
)

// Turns are how many inboxes are worked on at once. One host never has more than its share of the
// workers, and neither has one account: servers limit connections, and shut out clients that ask
// for more.
type Turns struct {
	Inboxes int // at once
	PerHost int // of these, at one IMAP server
	// PerAccount is how many connections the account of an inbox may have; 0 is any number.
	PerAccount func(in inbox.Inbox) int
}

// Each calls do for every box, for several at once.
func (n Turns) Each(boxes []inbox.Inbox, do func(i int, in inbox.Inbox)) {
	t := newTurns(n, boxes)
	var group errgroup.Group
	for range min(n.Inboxes, len(boxes)) {
		group.Go(func() error {
			for i, done, ok := t.next(); ok; i, done, ok = t.next() {
				do(i, boxes[i])
				done()
			}
			return nil
		})
	}
	_ = group.Wait()
}

// turns gives inboxes out to workers. The next inbox is one of the host that has the fewest in
// work, so a slow host does not keep the others waiting.
type turns struct {
	limits Turns
	boxes  []inbox.Inbox

	mu    sync.Mutex
	ended *sync.Cond     // an inbox
	lines []*line        // one for each host with inboxes to come, in the order of their first inboxes
	busy  map[string]int // inboxes in work, by account
}

// line is the inboxes of one host.
type line struct {
	rest []int // indexes of the inboxes to come
	busy int   // inboxes in work
}

func newTurns(limits Turns, boxes []inbox.Inbox) *turns {
	t := &turns{limits: limits, boxes: boxes, busy: map[string]int{}}
	t.ended = sync.NewCond(&t.mu)
	lines := map[string]*line{}
	for i, in := range boxes {
		host := strings.ToLower(in.Host)
		if lines[host] == nil {
			lines[host] = &line{}
			t.lines = append(t.lines, lines[host])
		}
		lines[host].rest = append(lines[host].rest, i)
	}
	return t
}

// next waits for an inbox that may be worked on. The worker calls done after the work. ok is false
// when none is left.
func (t *turns) next() (i int, done func(), ok bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for len(t.lines) > 0 {
		if l, at := t.choose(); l != nil {
			i = t.take(l, at)
			return i, func() { t.end(l, i) }, true
		}
		t.ended.Wait()
	}
	return 0, nil, false
}

// choose is the first line with the fewest inboxes in work, of those that have one which may be
// worked on, and the index of that one in the line.
func (t *turns) choose() (best *line, at int) {
	for _, l := range t.lines {
		if l.busy >= t.limits.PerHost || best != nil && l.busy >= best.busy {
			continue
		}
		if i := t.free(l); i >= 0 {
			best, at = l, i
		}
	}
	return best, at
}

// free is the index of the first inbox of a line whose account may have another connection; -1 when
// there is none.
func (t *turns) free(l *line) int {
	for at, i := range l.rest {
		in := t.boxes[i]
		if limit := t.limits.PerAccount(in); limit == 0 || t.busy[in.Account()] < limit {
			return at
		}
	}
	return -1
}

// take takes an inbox of a line.
func (t *turns) take(l *line, at int) int {
	i := l.rest[at]
	l.busy++
	t.busy[t.boxes[i].Account()]++
	if l.rest = slices.Delete(l.rest, at, at+1); len(l.rest) == 0 {
		t.lines = slices.DeleteFunc(t.lines, func(other *line) bool { return other == l })
	}
	return i
}

func (t *turns) end(l *line, i int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	l.busy--
	t.busy[t.boxes[i].Account()]--
	t.ended.Broadcast()
}
