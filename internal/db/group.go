package db

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"time"
)

// Group lets many callers share a transaction. The caller whose turn it is commits all changes that
// are waiting, including its own. While changes come from many callers, a batch waits until it is
// as large as the larger of the last two batches, for at most 4 ms (about a commit). Otherwise the
// callers would split into two groups that wait for each other.
type Group[C any] struct {
	commit  func(context.Context, []C) []error
	turn    chan struct{} // full while a batch is being committed
	last    [2]int        // how many urgent changes the last two batches had; for who has the turn
	mu      sync.Mutex
	waiting []*grouped[C]
	urgent  int // how many of these are of Commit
	enough  int // full is closed when this many urgent changes wait
	full    chan struct{}
}

const (
	// groupPatience is how long a batch waits for others at most.
	groupPatience = 4 * time.Millisecond
	// joinPatience is how long a change of Join waits at most for a batch.
	joinPatience = 8 * time.Millisecond
)

// grouped is a change in a group.
type grouped[C any] struct {
	change C
	err    error // what came of it, when done is closed
	done   chan struct{}
}

// NewGroup returns a Group that calls commit for one batch of changes after the other. commit
// returns the result of each change. Its context does not end.
func NewGroup[C any](commit func(context.Context, []C) []error) *Group[C] {
	return &Group[C]{commit: commit, turn: make(chan struct{}, 1)}
}

// Commit commits a change, and returns its result. It returns early only if ctx has already ended.
func (g *Group[C]) Commit(ctx context.Context, change C) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	c := g.add(change, true)
	g.await(ctx, c)
	return c.err
}

// Join is Commit for a change that can wait: it goes with the next batch. If none begins
// within 8 ms, it begins one.
func (g *Group[C]) Join(ctx context.Context, change C) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	c := g.add(change, false)
	select {
	case <-c.done:
	case <-time.After(joinPatience):
		g.await(ctx, c)
	}
	return c.err
}

func (g *Group[C]) add(change C, urgent bool) *grouped[C] {
	c := &grouped[C]{change: change, done: make(chan struct{})}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.waiting = append(g.waiting, c)
	if urgent {
		g.urgent++
		if g.urgent == g.enough {
			close(g.full)
		}
	}
	return c
}

// await waits until a change has been committed, in the batch of another one or its own.
func (g *Group[C]) await(ctx context.Context, c *grouped[C]) {
	select {
	case <-c.done:
	case g.turn <- struct{}{}:
		if !c.over() {
			g.commitWaiting(context.WithoutCancel(ctx))
		}
		<-g.turn
		<-c.done
	}
}

// over reports that the change was committed, or has failed.
func (c *grouped[C]) over() bool {
	select {
	case <-c.done:
		return true
	default:
		return false
	}
}

// commitWaiting commits the changes that wait; at least one does.
func (g *Group[C]) commitWaiting(ctx context.Context) {
	runtime.Gosched() // whoever is ready to bring a change does, even on a single processor
	batch := g.gather()
	changes := make([]C, len(batch))
	for i, c := range batch {
		changes[i] = c.change
	}
	for i, err := range g.commit(ctx, changes) {
		batch[i].err = err
		close(batch[i].done)
	}
}

// gather takes the changes that wait, when there are as many as in the larger of the last two
// batches, or 4 ms have passed.
func (g *Group[C]) gather() []*grouped[C] {
	g.mu.Lock()
	defer g.mu.Unlock()
	if most := max(g.last[0], g.last[1]); 0 < g.urgent && g.urgent < most {
		full := make(chan struct{})
		g.enough, g.full = most, full
		g.mu.Unlock()
		select {
		case <-full:
		case <-time.After(groupPatience):
		}
		g.mu.Lock()
	}
	batch := g.waiting
	g.last = [2]int{g.urgent, g.last[0]}
	g.waiting, g.urgent, g.enough = nil, 0, 0
	return batch
}

// ErrApart is for a batch of which one change cannot be committed.
var ErrApart = errors.New("these changes cannot be committed together")

// OrApart commits a batch in one transaction, with together. If that fails, it commits each change
// alone, so that a change that cannot be recorded does not block the others. It does not try that
// when nothing can be written at all.
func OrApart[C any](ctx context.Context, batch []C, together func(context.Context, []C) error) []error {
	err := together(ctx, batch)
	apart := err != nil && len(batch) > 1 && classify(err) != unwritable
	errs := make([]error, len(batch))
	for i, change := range batch {
		errs[i] = err
		if apart {
			errs[i] = together(ctx, []C{change})
		}
	}
	return errs
}
