package notify

import (
	"fmt"
	"sync"
	"testing"

	"postrider/internal/db"
	"postrider/internal/testserver"
)

// TestGaleraAcquire: of runs on different nodes of a cluster only one may report to a channel.
func TestGaleraAcquire(t *testing.T) {
	var benches []*bench
	for i, dsn := range testserver.GaleraCluster(t).NewDatabase(t) {
		cfg := db.Config{Driver: db.MySQL, DSN: dsn}
		if i == 0 {
			benches = append(benches, newBench(t, cfg))
			continue
		}
		d, err := db.Open(t.Context(), cfg)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = d.Close() })
		other := *benches[0]
		notifier := *other.Notifier
		other.Notifier, notifier.Store = &notifier, NewStore(d)
		notifier.Config.Worker = fmt.Sprintf("mail-%d:1:x", i)
		benches = append(benches, &other)
	}
	for round := range 10 {
		var asked sync.WaitGroup
		mine := make([]bool, len(benches))
		for i, b := range benches {
			asked.Go(func() {
				var err error
				if mine[i], err = b.Store.acquire(b.ctx, b.Config.channels()[0], b.Config); err != nil {
					t.Errorf("node %d: %v", i+1, err)
				}
			})
		}
		asked.Wait()
		allowed := 0
		for i, b := range benches {
			if mine[i] {
				allowed++
				b.check(b.Store.release(b.ctx, b.Config.channels()[0], b.Config.Worker))
			}
		}
		if allowed != 1 {
			t.Fatalf("round %d: the runs that may report to the channel are %v, want only one", round, mine)
		}
	}
}
