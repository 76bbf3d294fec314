package pass

import (
	"sync"
	"testing"

	"postrider/internal/inbox"
)

// anyNumber is a Turns.PerAccount without limits.
func anyNumber(inbox.Inbox) int { return 0 }

// TestTurnsOfAnAccount: an account never has more inboxes in work than its provider allows, and
// others do not wait for it.
func TestTurnsOfAnAccount(t *testing.T) {
	var boxes []inbox.Inbox
	for range 6 {
		boxes = append(boxes, inbox.Inbox{Host: "imap.big.example", Username: "shared"})
	}
	for _, name := range []string{"ann", "bob"} {
		boxes = append(boxes, inbox.Inbox{Host: "IMAP.big.example", Username: name})
	}
	limits := Turns{Inboxes: 8, PerHost: 8, PerAccount: func(inbox.Inbox) int { return 2 }}
	var mu sync.Mutex
	busy, most, done := map[string]int{}, map[string]int{}, 0
	var all sync.WaitGroup // the first four work at once: two of the account, and the others
	all.Add(4)
	started := 0
	limits.Each(boxes, func(_ int, in inbox.Inbox) {
		mu.Lock()
		busy[in.Username]++
		most[in.Username] = max(most[in.Username], busy[in.Username])
		started++
		first := started <= 4
		mu.Unlock()
		if first {
			all.Done()
			all.Wait()
		}
		mu.Lock()
		defer mu.Unlock()
		busy[in.Username]--
		done++
	})
	if most["shared"] != 2 || done != len(boxes) {
		t.Errorf("%d inboxes of one account were in work at once, and %d in all; want 2 and %d",
			most["shared"], done, len(boxes))
	}
}

// TestTurnsOfHosts: the next inbox is one of the host with the fewest in work, in their order, and
// no host or account has more than its share, however its name is written.
func TestTurnsOfHosts(t *testing.T) {
	boxes := []inbox.Inbox{
		{Host: "imap.big.example", Username: "ann"},
		{Host: "IMAP.big.example", Username: "Ann"},
		{Host: "imap.big.example", Username: "bob"},
		{Host: "IMAP.big.example", Username: "cyd"},
		{Host: "imap.small.example", Username: "ann"},
	}
	turns := newTurns(Turns{PerHost: 2, PerAccount: func(inbox.Inbox) int { return 1 }}, boxes)
	var dones []func()
	for _, want := range []int{0, 4, 2} {
		i, done, ok := turns.next()
		if !ok || i != want {
			t.Fatalf("the next inbox is %d (%t), want %d", i, ok, want)
		}
		dones = append(dones, done)
	}
	if l, at := turns.choose(); l != nil {
		t.Errorf("inbox %d may be worked on, want none: its host has its share", l.rest[at])
	}
	dones[2]()
	if i, _, _ := turns.next(); i != 3 {
		t.Errorf("the next inbox is %d, want 3: the account of 1 is in work", i)
	}
}
