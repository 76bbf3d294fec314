package watch

import (
	"context"
	"fmt"
	"sync"
	"time"

	"postrider/internal/imapsrc"
	"postrider/internal/inbox"
	"postrider/internal/pass"
)

// Dials limits how many connections are opened at once: in all, and to one server. A server gets
// few at first, more when that works, and one at a time while it cannot be reached, so that a
// silent one keeps no others waiting.
type Dials struct {
	mu      sync.Mutex
	all     chan struct{} // holds an element for each that is being opened
	servers map[string]*line
	most    int // to one server
}

// line is what waits for one server.
type line struct {
	allowed int
	busy    int
	changed chan struct{} // closed when a place may be free
	why     error         // why it could not be reached the last time; nil if it could
}

// lineTime is how long an inbox waits at most for its turn at a server that could not be reached.
// It has its scan lease meanwhile, and another host may reach the server.
const lineTime = 10 * time.Second

// NewDials allows most connections to be opened at once, and perServer of them to one server.
func NewDials(most, perServer int) *Dials {
	return &Dials{all: make(chan struct{}, most), servers: map[string]*line{}, most: perServer}
}

// Limit changes the limits of NewDials. What is being opened already does not count in all.
func (d *Dials) Limit(most, perServer int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.most = perServer; cap(d.all) != most {
		d.all = make(chan struct{}, most)
	}
}

// firstDials is how many connections may be opened at once to a server of which nothing is known.
const firstDials = 4

// Through is dial within the limits.
func (d *Dials) Through(dial pass.Dial[pass.Source]) pass.Dial[pass.Source] {
	return func(ctx context.Context, in inbox.Inbox) (pass.Source, error) {
		leave, err := d.enter(ctx, pass.ServerOf(in))
		if err != nil {
			return nil, err
		}
		src, err := dial(ctx, in)
		leave(err)
		return src, err
	}
}

// enter waits until a connection to a server may be opened. Leave has to be called when that is
// over, with the error.
func (d *Dials) enter(ctx context.Context, server string) (leave func(err error), err error) {
	l, all, err := d.place(ctx, server)
	if err != nil {
		return nil, err
	}
	select {
	case all <- struct{}{}:
	case <-ctx.Done():
		d.leave(l, func() {})
		return nil, ctx.Err()
	}
	return func(err error) {
		<-all
		d.leave(l, func() {
			if imapsrc.KindOf(err) == imapsrc.KindNetwork {
				l.allowed, l.why = 1, err
			} else {
				l.allowed, l.why = min(2*l.allowed, d.most), nil
			}
		})
	}, nil
}

// place waits for a place in the line of a server, and returns what limits all.
func (d *Dials) place(ctx context.Context, server string) (l *line, all chan struct{}, err error) {
	began := time.Now()
	late := time.NewTimer(lineTime)
	defer late.Stop()
	for {
		d.mu.Lock()
		l, all = d.servers[server], d.all
		if l == nil {
			l = &line{allowed: min(firstDials, d.most), changed: make(chan struct{})}
			d.servers[server] = l
		}
		free, changed := l.busy < min(l.allowed, d.most), l.changed
		if free {
			l.busy++
		}
		why := l.why
		d.mu.Unlock()
		if free {
			return l, all, nil
		}
		if why != nil && time.Since(began) >= lineTime {
			return nil, nil, fmt.Errorf("not tried: another inbox could not reach the server "+
				"and is trying again: %w", why)
		}
		select {
		case <-changed:
		case <-late.C:
		case <-ctx.Done():
			return nil, nil, ctx.Err()
		}
	}
}

func (d *Dials) leave(l *line, learn func()) {
	d.mu.Lock()
	defer d.mu.Unlock()
	l.busy--
	learn()
	close(l.changed)
	l.changed = make(chan struct{})
}
