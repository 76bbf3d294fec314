package dmarc

import (
	"context"
	"errors"
	"net"
	"strings"
	"sync"
)

const (
	maxCached = 4 << 20 // octets of names and answers; then the cache begins anew
	maxSilent = 3       // names in a row without an answer: the DNS is down
)

var errDown = errors.New("the DNS does not answer")

// cache asks each name once, and remembers failures, too: a message that is in a hurry does not wait for a name again
// that another one has waited for.
type cache struct {
	dns Resolver

	mu      sync.Mutex
	answers map[string]*answer
	size    int
	silent  int
}

type answer struct {
	done  chan struct{}
	texts []string
	err   error
}

func newCache(dns Resolver) *cache { return &cache{dns: dns, answers: map[string]*answer{}} }

// LookupTXT asks for the name as it is, without search domains. Its errors are *net.DNSError, errDown or the context's.
func (c *cache) LookupTXT(ctx context.Context, name string) ([]string, error) {
	if ctx.Err() != nil {
		return nil, ctx.Err() // which says nothing about the name
	}
	name = strings.ToLower(strings.TrimSuffix(name, ".")) + "."
	c.mu.Lock()
	a, known := c.answers[name]
	down := c.silent >= maxSilent
	if !known && !down {
		a = &answer{done: make(chan struct{})}
		c.answers[name] = a
	}
	c.mu.Unlock()
	switch {
	case known:
		select {
		case <-a.done:
			return a.texts, a.err
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	case down:
		return nil, errDown
	}
	a.texts, a.err = c.dns.LookupTXT(ctx, name)
	close(a.done)
	c.note(name, a)
	return a.texts, a.err
}

func (c *cache) note(name string, a *answer) {
	size := len(name)
	for _, t := range a.texts {
		size += len(t)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.size += size; c.size > maxCached {
		c.answers, c.size = map[string]*answer{}, 0
	}
	if c.silent++; answered(a.err) {
		c.silent = 0
	}
}

// answered: that there is no such name is an answer, and a server that refuses or fails is there.
func answered(err error) bool {
	e, ok := errors.AsType[*net.DNSError](err)
	return err == nil || ok && !e.IsTimeout
}
