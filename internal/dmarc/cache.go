package dmarc

import (
	"context"
	"errors"
	"net"
	"strings"
	"sync"
	"time"
)

const (
	maxCached = 4 << 20     // octets of names and answers; then the cache begins anew
	maxSilent = 3           // domains in a row without an answer: the DNS is down
	pause     = time.Minute // then a name that failed is asked for again, and so is the DNS when it was down
)

var errDown = errors.New("the DNS does not answer")

// cache asks for each name once, and remembers failures, too, for a while: a message that is in a hurry does not wait for a
// name again that another one has waited for.
type cache struct {
	dns Resolver

	mu      sync.Mutex
	answers map[string]*answer
	size    int
	silent  int       // domains in a row
	since   time.Time // the last of them
}

type answer struct {
	done   chan struct{}
	texts  []string
	err    error
	failed time.Time // when it turned out that nothing is known; zero while it is asked for, and when something is
}

func newCache(dns Resolver) *cache { return &cache{dns: dns, answers: map[string]*answer{}} }

// lookup asks for the TXT records of the name as it is, without search domains. Its errors are *net.DNSError, errDown or the
// context's. That it is silent counts against the DNS only if counts is set.
func (c *cache) lookup(ctx context.Context, name string, counts bool) ([]string, error) {
	if ctx.Err() != nil {
		return nil, ctx.Err() // which says nothing about the name
	}
	name = strings.ToLower(strings.TrimSuffix(name, ".")) + "."
	a, known := c.find(name)
	switch {
	case a == nil:
		return nil, errDown
	case known:
		select {
		case <-a.done:
			return a.texts, a.err
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	a.texts, a.err = c.dns.LookupTXT(ctx, name)
	c.note(name, a, counts)
	close(a.done)
	return a.texts, a.err
}

// find is the answer for a name, or a new one to be asked for; nil when it is not known and the DNS is down.
func (c *cache) find(name string) (a *answer, known bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	a, known = c.answers[name]
	if known && (a.failed.IsZero() || time.Since(a.failed) < pause) {
		return a, true
	}
	if c.silent >= maxSilent && time.Since(c.since) < pause {
		return nil, false
	}
	a = &answer{done: make(chan struct{})}
	c.answers[name] = a
	return a, false
}

func (c *cache) note(name string, a *answer, counts bool) {
	size := len(name)
	for _, t := range a.texts {
		size += len(t)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.size += size; c.size > maxCached {
		c.answers, c.size = map[string]*answer{}, 0
	}
	e, ok := errors.AsType[*net.DNSError](a.err)
	if a.err != nil && (!ok || !e.IsNotFound) {
		a.failed = time.Now()
	}
	switch {
	case a.err == nil || ok && !e.IsTimeout: // that there is no such name is an answer, and a server that refuses or fails is there
		c.silent = 0
	case counts:
		c.silent++
		c.since = time.Now()
	}
}
