package sqlqueue

import (
	"testing"

	"postrider/internal/db"
	"postrider/internal/tasks/taskstest"
	"postrider/internal/testserver"
)

// cluster is a fresh database on each node of a cluster, and behind a balancer that gives each new
// connection to another node.
func cluster(t *testing.T) (nodes []registry, balanced registry) {
	t.Helper()
	g := testserver.GaleraCluster(t)
	dsns := g.NewDatabase(t)
	for _, dsn := range dsns {
		nodes = append(nodes, openRegistry(t, db.Config{Driver: db.MySQL, DSN: dsn}))
	}
	return nodes, openRegistry(t, db.Config{Driver: db.MySQL, DSN: g.Balancer(t, dsns[0])})
}

// TestGaleraRaces: the two processes of the suite have a node each, or share a balancer.
func TestGaleraRaces(t *testing.T) {
	t.Run("nodes", func(t *testing.T) {
		nodes, _ := cluster(t)
		taskstest.RunRaces(t, func(t *testing.T) taskstest.Fixture {
			f := nodes[0].fixture(t)
			f.Other = small(nodes[1].DB)
			return f
		})
	})
	t.Run("balancer", func(t *testing.T) {
		_, balanced := cluster(t)
		taskstest.RunRaces(t, balanced.fixture)
	})
}
