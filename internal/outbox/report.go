package outbox

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"postrider/internal/db"
)

// Standing is the state of a destination. Its JSON is what `status --json` prints.
type Standing struct {
	Name   string         `json:"name"`
	Counts map[Status]int `json:"counts"` // events by status
	// OldestWaitingAt is when it was made; null when none waits, and for imap, where waiting may be
	// on purpose.
	OldestWaitingAt *time.Time `json:"oldest_waiting_at"`
	Failing         int        `json:"failing,omitempty"`  // events that wait, and whose last try failed
	LastError       string     `json:"last_error"`         // empty when the last try did not fail
	RetryAt         *time.Time `json:"retry_at,omitempty"` // nothing is sent before
	Gone            bool       `json:"gone,omitempty"`     // it wants no more events (HTTP 410)
	Removed         bool       `json:"removed,omitempty"`  // it is no longer in the configuration

	OldestWaiting time.Duration `json:"-"` // its age by the database's clock
}

// Title names a destination and what is sent there.
func (st Standing) Title() string {
	if st.Name == Server {
		return "actions on the servers"
	}
	return "events for " + st.Name
}

// Stopped says why nothing is sent to a destination, and what to do; empty if that is not so.
func (st Standing) Stopped() string {
	switch {
	case st.Removed:
		return "it " + RemovedHelp(st.Name)
	case st.Gone:
		return "it wants no more events, so none are sent; to resume: postrider event enable " + st.Name
	}
	return ""
}

// RemovedHelp says what to do about a destination that has events and is not in the configuration;
// its name comes first.
func RemovedHelp(name string) string {
	return "is no longer in the section events of the configuration, so nothing is sent to it; " +
		"to drop its events: postrider event skip --destination " + name
}

// Live is how many entries have not ended.
func (st Standing) Live() int { return st.Counts[Waiting] + st.Counts[InProgress] }

// Dead is how many entries were given up.
func (st Standing) Dead() int { return st.Counts[DeadLetter] }

// count is how many entries of a destination are in a status.
type count struct {
	destination string
	status      Status
	n, failing  int     // failing: those whose last try failed
	oldest      db.Time // when the oldest of them was made
}

func (c *count) into() []any { return []any{&c.destination, &c.status, &c.n, &c.failing, &c.oldest} }

func (s *Store) counts(ctx context.Context) ([]count, error) {
	counts, err := db.Read(ctx, s.db, (*count).into, sqlStats)
	if err != nil {
		return nil, fmt.Errorf("count the outbox: %w", err)
	}
	return counts, nil
}

// Standings returns the states of the configured destinations, and of other destinations with
// waiting or dead events, by name. If a destination had another target before, the failures of that
// target do not count. It takes a few queries.
func (s *Store) Standings(ctx context.Context, configured ...Destination) ([]Standing, error) {
	now, err := s.db.Clock(ctx)
	if err != nil {
		return nil, err
	}
	counts, err := s.counts(ctx)
	if err != nil {
		return nil, err
	}
	states, err := s.Destinations(ctx)
	if err != nil {
		return nil, err
	}
	by := map[string]*Standing{}
	for _, d := range configured {
		by[d.Name] = &Standing{Name: d.Name, Counts: map[Status]int{}}
		if states[d.Name].Target != d.Target {
			delete(states, d.Name)
		}
	}
	live := func(c count) bool { return c.status == Waiting || c.status == InProgress }
	for _, c := range counts {
		if by[c.destination] == nil && (live(c) || c.status == DeadLetter) {
			by[c.destination] = &Standing{
				Name: c.destination, Counts: map[Status]int{}, Removed: c.destination != Server,
			}
		}
	}
	for _, c := range counts {
		if st := by[c.destination]; st != nil {
			st.Counts[c.status] = c.n
			if c.status == Waiting {
				st.Failing = c.failing
			}
			oldest, first := c.oldest.UTC(), st.OldestWaitingAt
			if live(c) && c.destination != Server && (first == nil || oldest.Before(*first)) {
				st.OldestWaitingAt, st.OldestWaiting = &oldest, now.Sub(oldest)
			}
		}
	}
	out := []Standing{}
	for name, st := range by {
		d := states[name]
		st.LastError, st.Gone = d.LastError, d.Gone
		if d.RetryIn > 0 && !d.Gone {
			at := now.Add(d.RetryIn)
			st.RetryAt = &at
		}
		out = append(out, *st)
	}
	slices.SortFunc(out, func(a, b Standing) int { return cmp.Compare(a.Name, b.Name) })
	return out, nil
}
