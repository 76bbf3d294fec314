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
	maxCached = 4 << 20                // octets of names and answers; then the cache is emptied
	maxSilent = 3                      // domains in a row without an answer: the DNS is down
	maxAnswer = 16 << 10               // octets of one answer; a longer one is not used
	patience  = Patience - time.Second // what a question may take: the message that puts it first sees its end
	pause     = time.Minute            // before a name that failed, or a DNS that was down, is asked again
)

var (
	errDown = errors.New("the DNS does not answer")
	errLong = errors.New("its answer is longer than 16 KiB")
)

// cache asks for each name once. It keeps failures for a while, too: a message does not wait again
// for a name that another message has waited for.
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
	failed time.Time // when the question failed; zero before, and when it succeeded
}

func newCache(dns Resolver) *cache { return &cache{dns: dns, answers: map[string]*answer{}} }

// lookup asks for the TXT records of a name as it is, without search domains. Its errors are
// *net.DNSError, errDown, errLong or those of the context. A timeout counts against the DNS only if
// counts is set.
func (c *cache) lookup(ctx context.Context, name string, counts bool) ([]string, error) {
	if ctx.Err() != nil {
		return nil, ctx.Err() // which says nothing about the name
	}
	name = strings.ToLower(strings.TrimSuffix(name, ".")) + "."
	a, known := c.find(name)
	switch {
	case a == nil:
		return nil, errDown
	case !known:
		go c.ask(context.WithoutCancel(ctx), name, a, counts)
	}
	select {
	case <-a.done:
		return a.texts, a.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// ask puts a question, also for those who will ask when the first one has no more time.
func (c *cache) ask(ctx context.Context, name string, a *answer, counts bool) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	a.texts, a.err = c.dns.LookupTXT(ctx, name)
	if size(a.texts) > maxAnswer {
		a.texts, a.err = nil, errLong
	}
	c.note(name, a, counts)
	close(a.done)
}

// find is the answer for a name, or a new one to ask for; nil when the name is not known and the
// DNS is down.
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

// size is that of an answer, with what DNS and memory take for each text.
func size(texts []string) int {
	n := 0
	for _, t := range texts {
		n += len(t) + 16
	}
	return n
}

func (c *cache) note(name string, a *answer, counts bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.size += len(name) + size(a.texts); c.size > maxCached {
		c.answers, c.size = map[string]*answer{}, 0
	}
	e, ok := errors.AsType[*net.DNSError](a.err)
	if a.err != nil && (!ok || !e.IsNotFound) {
		a.failed = time.Now()
	}
	switch {
	// "No such name" is an answer, and a server that refuses or fails is there.
	case a.err == nil || ok && !e.IsTimeout:
		c.silent = 0
	case counts:
		c.silent++
		c.since = time.Now()
	}
}

// Keys asks for the keys of one message.
type Keys struct {
	dns     *cache
	counted bool
}

// Keys are the keys that the signatures of one message name. They come from the cache of the Judge.
func (j *Judge) Keys() *Keys { return &Keys{dns: j.dns} }

// LookupTXT asks for the TXT records of a name. A message may ask for many keys, so silence about
// them counts once against the DNS. It is not safe for concurrent use.
func (k *Keys) LookupTXT(ctx context.Context, name string) ([]string, error) {
	first := !k.counted
	k.counted = true
	return k.dns.lookup(ctx, name, first)
}
