package inbox

import (
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"gorm.io/gorm"

	"postrider/internal/db"
	"postrider/internal/testserver"
)

// nodes are stores on the same database, one on each node of a cluster.
func nodes(t *testing.T) (all []bench) {
	t.Helper()
	for _, dsn := range testserver.GaleraCluster(t).NewDatabase(t) {
		all = append(all, newBench(t, db.Config{Driver: db.MySQL, DSN: dsn}))
	}
	return all
}

// TestGaleraScanLease: of runs on different nodes one gets the lease, with a token of its own.
func TestGaleraScanLease(t *testing.T) {
	all := nodes(t)
	id := all[0].add("desk@firm.example").ID
	for round := range 10 {
		all[0].expire(id)
		var asked sync.WaitGroup
		tokens := make([]int64, len(all))
		for i, b := range all {
			asked.Go(func() {
				lease, _, err := b.AcquireScan(b.ctx, id, fmt.Sprintf("run-%d-%d", round, i), time.Minute)
				if tokens[i] = lease.Token; err != nil {
					t.Errorf("node %d: %v", i+1, err)
				}
			})
		}
		asked.Wait()
		held := 0
		for _, token := range tokens {
			if token > 0 {
				held++
			}
		}
		if held != 1 {
			t.Fatalf("round %d: the tokens are %v, want one run to have the lease", round, tokens)
		}
	}
}

// TestGaleraLeaseTakenOver: what is changed under a lease fails when another node gives the lease
// to somebody else before COMMIT.
func TestGaleraLeaseTakenOver(t *testing.T) {
	all := nodes(t)
	id := all[0].add("desk@firm.example").ID
	by := Scan{id, all[0].acquire(id, "run-1")}
	all[0].expire(id)
	taken := false
	err := all[0].db.Tx(all[0].ctx, func(tx *gorm.DB) error {
		err := by.held(tx)
		if !taken {
			taken = true
			all[1].acquire(id, "run-2")
		}
		return err
	})
	if !errors.Is(err, ErrScanLost) {
		t.Errorf("got %v, want ErrScanLost", err)
	}
}
