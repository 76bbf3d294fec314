package pass

import (
	"sync"
	"testing"

	"postrider/internal/inbox"
)

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
		t.Errorf("%d inboxes of one account were in work at once, and %d in all; want 2 and %d", most["shared"], done, len(boxes))
	}
}
