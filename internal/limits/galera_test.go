package limits

import (
	"testing"
	"time"

	"postrider/internal/db"
	"postrider/internal/testserver"
)

// TestGaleraHosts is TestHosts with hosts on different nodes of a cluster, which do not see each
// other's locks.
func TestGaleraHosts(t *testing.T) {
	const limit = 60
	var all []*Quota
	var first *db.DB
	for _, dsn := range testserver.GaleraCluster(t).NewDatabase(t) {
		for range 2 {
			d := open(t, db.Config{Driver: db.MySQL, DSN: dsn})
			if first == nil {
				first = d
			}
			all = append(all, quota(d, "a", Limits{PerHour: limit}))
		}
	}
	for round := range 2 {
		if granted := drain(t, all); granted != limit {
			t.Errorf("round %d: %d recipients were granted, want %d", round, granted, limit)
		}
		age(t, first, time.Hour+time.Minute)
	}
}
