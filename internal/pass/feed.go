package pass

import (
	"context"
	"sync"
)

// feed tells the deliverer of an inbox that there may be something to claim. At most one deliverer
// works for a feed.
type feed struct {
	mu       sync.Mutex
	changed  chan struct{} // closed when one of these has changed
	scanning bool          // more may come
	news     bool          // there may be something to claim
	working  bool          // a deliverer
	inFlight int           // claims in work
}

func newFeed() *feed { return &feed{changed: make(chan struct{})} }

func (f *feed) change(to func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	to()
	close(f.changed)
	f.changed = make(chan struct{})
}

// begin says that a scan begins, end that it has ended.
func (f *feed) begin() { f.change(func() { f.scanning = true }) }

func (f *feed) end() { f.change(func() { f.scanning = false }) }

// employ says that a deliverer is started now.
func (f *feed) employ() { f.change(func() { f.working = true }) }

// took says that a claim is being processed, ended that it no longer is.
func (f *feed) took() { f.change(func() { f.inFlight++ }) }

func (f *feed) ended() { f.change(func() { f.inFlight-- }) }

// registered says that there may be something to claim. start means that no deliverer is at work:
// the caller has to start one.
func (f *feed) registered() (start bool) {
	f.change(func() {
		start = !f.working
		f.news, f.working = true, true
	})
	return start
}

// next waits for news. Without any, it waits until no scan is under way and no claim is in work:
// what was in work may make others due that waited for it.
func (f *feed) next(ctx context.Context) (news bool, err error) {
	for {
		f.mu.Lock()
		news, idle, changed := f.news, !f.scanning && f.inFlight == 0, f.changed
		f.news = false
		f.mu.Unlock()
		if news || idle {
			return news, nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return false, ctx.Err()
		}
	}
}

// reading reports whether a scan is under way.
func (f *feed) reading() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.scanning
}

// retire ends the work of a deliverer that found nothing more, unless there is news.
func (f *feed) retire() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.news || f.scanning {
		return false
	}
	f.working = false
	return true
}

// stop ends the work of a deliverer that failed.
func (f *feed) stop() { f.change(func() { f.working = false }) }

// waits reports whether there is news that no deliverer works on.
func (f *feed) waits() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.news && !f.working
}
