package pass

import (
	"strings"
	"sync"

	"golang.org/x/sync/errgroup"

	"postrider/internal/inbox"
)

// turns gives inboxes out to workers. One host never has more than its share of the workers:
// servers limit connections, and shut out clients that ask for more. The next inbox is one of the
// host that has the fewest in work, so a slow host does not keep the others waiting.
type turns struct {
	perHost int

	mu    sync.Mutex
	ended *sync.Cond // an inbox
	lines []*line    // one for each host with inboxes to come, in the order of their first inboxes
}

// line is the inboxes of one host.
type line struct {
	rest []int // indexes of the inboxes to come
	busy int   // inboxes in work
}

func newTurns(boxes []inbox.Inbox, perHost int) *turns {
	t := &turns{perHost: perHost}
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
		at := t.shortest()
		if l := t.lines[at]; l.busy < t.perHost {
			return t.take(at), func() { t.end(l) }, true
		}
		t.ended.Wait()
	}
	return 0, nil, false
}

// shortest is the index of the first line with the fewest inboxes in work.
func (t *turns) shortest() int {
	at := 0
	for i, l := range t.lines {
		if l.busy < t.lines[at].busy {
			at = i
		}
	}
	return at
}

// take takes the next inbox of a line.
func (t *turns) take(at int) int {
	l := t.lines[at]
	i := l.rest[0]
	l.busy++
	if l.rest = l.rest[1:]; len(l.rest) == 0 {
		t.lines = append(t.lines[:at], t.lines[at+1:]...)
	}
	return i
}

func (t *turns) end(l *line) {
	t.mu.Lock()
	defer t.mu.Unlock()
	l.busy--
	t.ended.Broadcast()
}

// each calls do for every box, for several at once.
func (p *Pass) each(boxes []inbox.Inbox, do func(i int, in inbox.Inbox)) {
	t := newTurns(boxes, p.Config.PerHost)
	var group errgroup.Group
	for range min(p.Config.Inboxes, len(boxes)) {
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
