package db

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"gorm.io/gorm"

	"postrider/internal/testserver"
)

// cluster is a fresh database with two rows to fight over, and a handle on each node.
func cluster(t *testing.T, opts ...Option) (*testserver.Galera, []*DB, Config) {
	t.Helper()
	g := testserver.GaleraCluster(t)
	dsns := g.NewDatabase(t)
	nodes := []*DB{withRows(t, Config{Driver: MySQL, DSN: dsns[0]}, opts...)}
	for _, dsn := range dsns[1:] {
		nodes = append(nodes, openMigrated(t, Config{Driver: MySQL, DSN: dsn}, opts...))
	}
	return g, nodes, Config{Driver: MySQL, DSN: g.Balancer(t, dsns[0])}
}

func TestGaleraSession(t *testing.T) {
	_, nodes, _ := cluster(t)
	for i, db := range nodes {
		var wait int
		row := db.pool.QueryRowContext(t.Context(), "SELECT @@session.wsrep_sync_wait")
		if err := row.Scan(&wait); err != nil || wait != 7 {
			t.Errorf("node %d: wsrep_sync_wait is %d (%v), want 7", i+1, wait, err)
		}
	}
}

// TestGaleraReadsWhatOthersCommitted: a node that has not applied a write yet does not answer with
// old data.
func TestGaleraReadsWhatOthersCommitted(t *testing.T) {
	_, nodes, _ := cluster(t)
	late, err := nodes[1].pool.Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = late.Close() }()
	exec := func(statement string) {
		if _, err := late.ExecContext(context.Background(), statement); err != nil {
			t.Errorf("%s: %v", statement, err)
		}
	}
	exec("FLUSH TABLES WITH READ LOCK") // the node applies nothing now
	unlocked := make(chan struct{})
	time.AfterFunc(300*time.Millisecond, func() { exec("UNLOCK TABLES"); close(unlocked) })
	if err := nodes[0].Tx(testContext(t), func(tx *gorm.DB) error { return bump(tx, 1) }); err != nil {
		t.Error(err)
	}
	wantRow(t, nodes[1], 1, 1)
	<-unlocked
}

// TestGaleraConflict: two nodes change the same row; each change is made once.
func TestGaleraConflict(t *testing.T) {
	_, nodes, _ := cluster(t)
	var runs [2]int
	var both, ended sync.WaitGroup
	both.Add(2)
	for i := range runs {
		ended.Go(func() {
			err := nodes[i].Tx(testContext(t), func(tx *gorm.DB) error {
				runs[i]++
				err := bump(tx, 1)
				if runs[i] == 1 {
					both.Done()
					both.Wait()
				}
				return err
			})
			if err != nil {
				t.Errorf("node %d: %v", i+1, err)
			}
		})
	}
	ended.Wait()
	if runs[0]+runs[1] < 3 {
		t.Errorf("the transactions ran %v times: there was no conflict", runs)
	}
	for _, db := range nodes {
		wantRow(t, db, 1, 2)
	}
}

// TestGaleraSameKey: two nodes insert the same key; one has it, and the other gets
// gorm.ErrDuplicatedKey.
func TestGaleraSameKey(t *testing.T) {
	_, nodes, _ := cluster(t)
	var both, ended sync.WaitGroup
	both.Add(2)
	var results [2]error
	for i := range results {
		ended.Go(func() {
			first := true
			results[i] = nodes[i].Tx(testContext(t), func(tx *gorm.DB) error {
				err := tx.Exec(`INSERT INTO rows_of_test VALUES (77, ?)`, i).Error
				if first {
					first = false
					both.Done()
					both.Wait()
				}
				return err
			})
		})
	}
	ended.Wait()
	winner, loser := results[0], results[1]
	if winner != nil {
		winner, loser = loser, winner
	}
	if winner != nil || !errors.Is(loser, gorm.ErrDuplicatedKey) {
		t.Errorf("the inserts ended with %v, want one success and one gorm.ErrDuplicatedKey", results)
	}
}

// TestGaleraBehindABalancer: many writers whose connections are spread over the nodes count every
// change once, and each reads what it has written.
func TestGaleraBehindABalancer(t *testing.T) {
	const writers, each = 4, 15
	_, _, balanced := cluster(t)
	db := openMigrated(t, balanced)
	var all sync.WaitGroup
	for range writers {
		all.Go(func() {
			var last int
			for range each {
				err := db.Tx(testContext(t), func(tx *gorm.DB) error { return bump(tx, 1) })
				var now int
				err = errors.Join(err, db.View(testContext(t), func(tx *gorm.DB) error {
					return tx.Raw(`SELECT n FROM rows_of_test WHERE id = 1`).Scan(&now).Error
				}))
				if err != nil || now <= last {
					t.Errorf("read %d after %d and one more change (%v), want a larger number", now, last, err)
				}
				last = now
			}
		})
	}
	all.Wait()
	wantRow(t, db, 1, writers*each)
}

// TestGaleraKilledNode: behind a balancer the others take over.
func TestGaleraKilledNode(t *testing.T) {
	g, nodes, balanced := cluster(t)
	db := openMigrated(t, balanced)
	g.Nodes[1].Kill(t)
	for range 6 {
		if err := db.Tx(testContext(t), func(tx *gorm.DB) error { return bump(tx, 1) }); err != nil {
			t.Error(err)
		}
	}
	wantRow(t, db, 1, 6)
	g.Nodes[1].Rejoin(t)
	wantRow(t, nodes[1], 1, 6)
}

// TestGaleraStoppedNode: the others go on, and when it is back it answers with what they wrote.
func TestGaleraStoppedNode(t *testing.T) {
	g, nodes, _ := cluster(t)
	g.Nodes[2].Stop(t)
	if err := nodes[0].Tx(testContext(t), func(tx *gorm.DB) error { return bump(tx, 1) }); err != nil {
		t.Error(err)
	}
	g.Nodes[2].Continue(t)
	wantRow(t, nodes[2], 1, 1)
	if err := nodes[2].Tx(testContext(t), func(tx *gorm.DB) error { return bump(tx, 1) }); err != nil {
		t.Error(err)
	}
	wantRow(t, nodes[0], 1, 2)
}

// TestGaleraIsolatedNode: a transaction on it is tried again, and behind a balancer on another
// node. Without one the error says what is wrong and how to fix it.
func TestGaleraIsolatedNode(t *testing.T) {
	g, nodes, balanced := cluster(t)
	db := openMigrated(t, balanced)
	var back sync.WaitGroup
	runs := 0
	err := nodes[2].Tx(testContext(t), func(tx *gorm.DB) error {
		if runs++; runs == 1 {
			g.Nodes[2].Isolate(t)
			back.Go(func() { g.Nodes[2].Rejoin(t) })
		}
		return bump(tx, 1)
	})
	if err != nil || runs != 2 {
		t.Errorf("a transaction whose node was isolated meanwhile: %v after %d runs, want success after 2", err, runs)
	}
	back.Wait()
	wantRow(t, nodes[0], 1, 1)
	g.Nodes[2].Isolate(t)
	nodes[2].retryFor = 300 * time.Millisecond
	err = nodes[2].Tx(testContext(t), func(tx *gorm.DB) error { return bump(tx, 1) })
	wantUnavailable(t, err, "Galera", "wsrep_cluster_status is Primary")
	for range 6 {
		if err := db.Tx(testContext(t), func(tx *gorm.DB) error { return bump(tx, 1) }); err != nil {
			t.Errorf("behind the balancer: %v", err)
		}
	}
	wantRow(t, nodes[0], 1, 7)
	for range 6 {
		err := db.View(testContext(t), func(tx *gorm.DB) error {
			_, err := db.Now(tx) // without a table
			return err
		})
		if err != nil {
			t.Errorf("the time, behind the balancer: %v", err)
		}
	}
	g.Nodes[2].Rejoin(t)
	wantRow(t, nodes[2], 1, 7)
}

// TestGaleraOpenOnANodeThatIsNotReady waits for it, or says what it is.
func TestGaleraOpenOnANodeThatIsNotReady(t *testing.T) {
	g := testserver.GaleraCluster(t)
	cfg := Config{Driver: MySQL, DSN: g.NewDatabase(t)[1]}
	openMigrated(t, cfg)
	g.Nodes[1].Isolate(t)
	_, err := Open(testContext(t), cfg, WithRetryFor(300*time.Millisecond))
	wantUnavailable(t, err, "1047", "wsrep_cluster_status is Primary")
	var back sync.WaitGroup
	back.Go(func() { g.Nodes[1].Rejoin(t) })
	db, err := Open(testContext(t), cfg)
	if err != nil {
		t.Fatalf("the node comes back meanwhile: %v", err)
	}
	_ = db.Close()
	back.Wait()
}

// TestGaleraMigrateOnEveryNodeAtOnce: one of them migrates.
func TestGaleraMigrateOnEveryNodeAtOnce(t *testing.T) {
	dsns := testserver.GaleraCluster(t).NewDatabase(t)
	files := len(migrationFiles(t, MySQL))
	ran := make([]int, 2*len(dsns))
	var all sync.WaitGroup
	for i := range ran {
		db := openAny(t, Config{Driver: MySQL, DSN: dsns[i%len(dsns)]})
		all.Go(func() {
			applied, err := db.Migrate(testContext(t))
			if ran[i] = len(applied); err != nil {
				t.Errorf("migration %d: %v", i, err)
			}
		})
	}
	all.Wait()
	var sum int
	for _, n := range ran {
		sum += n
		if n != 0 && n != files {
			t.Errorf("a migration ran %d of %d files, want all or none", n, files)
		}
	}
	if sum != files {
		t.Errorf("the migrations ran %v files, want that one ran %d and the others none", ran, files)
	}
	for _, dsn := range dsns {
		checkMigrated(t, Config{Driver: MySQL, DSN: dsn})
	}
}

// TestGaleraMigrationIsLockedOnEveryNode: the lock is a row that is written, so it holds on all
// nodes.
func TestGaleraMigrationIsLockedOnEveryNode(t *testing.T) {
	const rounds = 10
	_, nodes, _ := cluster(t)
	var inside sync.Mutex
	var all sync.WaitGroup
	for i, db := range nodes {
		all.Go(func() {
			for range rounds {
				unlock, err := db.migrator.lock(testContext(t), db.pool)
				if err != nil {
					t.Errorf("node %d: %v", i+1, err)
					return
				}
				if !inside.TryLock() {
					t.Errorf("node %d has the lock while another node has it", i+1)
				} else {
					inside.Unlock()
				}
				if err := unlock(); err != nil {
					t.Errorf("node %d: unlock: %v", i+1, err)
				}
			}
		})
	}
	all.Wait()
}
