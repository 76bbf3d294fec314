package testserver

import (
	"strconv"
	"testing"
)

// Kill ends the node at once, as a crash does.
func (n *GaleraNode) Kill(t testing.TB) {
	t.Helper()
	t.Cleanup(func() { n.Rejoin(t) })
	n.proc.kill()
}

// Stop freezes the node; it answers nothing, and its connections stay open. The others put it out
// of the cluster.
func (n *GaleraNode) Stop(t testing.TB) {
	t.Helper()
	t.Cleanup(func() { n.Rejoin(t) })
	n.proc.freeze()
	awaitStopped(n.proc.cmd.Process.Pid)
}

// Continue lets a stopped node go on. It does not know yet that it is out of the cluster.
func (n *GaleraNode) Continue(testing.TB) { n.proc.thaw() }

// Isolate cuts the node off from the others, and returns when it has noticed: it still takes
// connections, and answers error 1047.
func (n *GaleraNode) Isolate(t testing.TB) {
	t.Helper()
	t.Cleanup(func() { n.Rejoin(t) })
	n.isolate(t, true)
	n.await(t, "its end as a part of the cluster", func() bool {
		return n.ask("SHOW STATUS LIKE 'wsrep_cluster_status'") == "non-Primary"
	})
}

// Rejoin brings the node back, whatever was done to it, and returns when the cluster is whole.
func (n *GaleraNode) Rejoin(t testing.TB) {
	t.Helper()
	select {
	case <-n.proc.ended:
		if err := n.start(); err != nil {
			t.Fatalf("start a Galera node again: %v", err)
		}
	default:
		n.proc.thaw()
		n.isolate(t, false)
	}
	for _, each := range n.cluster.Nodes {
		each.await(t, "the cluster to be whole", func() bool {
			return each.synced() && each.ask("SHOW STATUS LIKE 'wsrep_cluster_size'") == strconv.Itoa(GaleraNodes)
		})
	}
}

func (n *GaleraNode) isolate(t testing.TB, on bool) {
	t.Helper()
	n.exec(t, "SET GLOBAL wsrep_provider_options = 'gmcast.isolate="+map[bool]string{true: "1", false: "0"}[on]+"'")
}
