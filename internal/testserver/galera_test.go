package testserver

import "testing"

// TestGalera harms each node in a way of its own. The others go on, and the cluster is whole again
// afterwards.
func TestGalera(t *testing.T) {
	g := GaleraCluster(t)
	for _, dsn := range g.NewDatabase(t) {
		execOn(t, dsn, "CREATE TABLE IF NOT EXISTS t (n INT AUTO_INCREMENT PRIMARY KEY)")
		execOn(t, dsn, "INSERT INTO t () VALUES ()")
	}
	for i, harm := range []func(*GaleraNode, testing.TB){
		(*GaleraNode).Kill, (*GaleraNode).Stop, (*GaleraNode).Isolate,
	} {
		n, other := g.Nodes[i], g.Nodes[(i+1)%GaleraNodes]
		harm(n, t)
		other.await(t, "the others to go on without it", func() bool {
			return other.ask("SHOW STATUS LIKE 'wsrep_cluster_size'") == "2" && other.synced()
		})
		n.Rejoin(t)
	}
	for i, n := range g.Nodes {
		if got := n.ask("SELECT COUNT(*) FROM test1.t"); got != "3" {
			t.Errorf("node %d has %s rows, want the 3 that were written, one on each node", i+1, got)
		}
	}
}
