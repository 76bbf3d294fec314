package testserver

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// Redis starts a Redis server that writes each change to disk before it answers.
func Redis(t testing.TB) *Broker {
	t.Helper()
	binary := brokerBinary(t, "redis-server", "redis-server")
	return newBroker(t, func(port int, dir string) []string { return redisArgs(binary, port, dir) })
}

func redisArgs(binary string, port int, dir string, more ...string) []string {
	return append(ownClock(
		binary, "--port", fmt.Sprint(port), "--bind", loopback, "--dir", dir, "--save", "",
		"--appendonly", "yes", "--appendfsync", "always",
	), more...)
}

// RedisCluster starts a cluster of three masters with a replica each.
func RedisCluster(t testing.TB) []*Broker {
	t.Helper()
	binary, cli := brokerBinary(t, "redis-server", "redis-server"), brokerBinary(t, "redis-cli", "redis-tools")
	const size = 6
	nodes := make([]*Broker, size)
	create := []string{"--cluster", "create", "--cluster-replicas", "1", "--cluster-yes"}
	for i := range nodes {
		nodes[i] = newBroker(t, func(port int, dir string) []string {
			bus, err := freePort()
			if err != nil {
				t.Fatal(err)
			}
			return redisArgs(binary, port, dir, "--cluster-enabled", "yes", "--cluster-port", fmt.Sprint(bus),
				"--cluster-node-timeout", "1000", "--repl-diskless-sync-delay", "0")
		})
		create = append(create[:2], append([]string{nodes[i].Address}, create[2:]...)...)
	}
	command := commandWithOwnClock(append([]string{cli}, create...)...)
	command.Env = append(os.Environ(), "HOME="+filepath.Dir(nodes[0].dir))
	if out, err := command.CombinedOutput(); err != nil {
		t.Fatalf("create a cluster of Redis: %v\n%s", err, out)
	}
	deadline := time.Now().Add(startTimeout)
	for _, node := range nodes {
		for !redisReady(cli, node.port) {
			if time.Now().After(deadline) {
				t.Fatalf("create a cluster of Redis: %s is not ready after %v", node.Address, startTimeout)
			}
			time.Sleep(20 * time.Millisecond)
		}
	}
	return nodes
}

// redisReady reports whether a node of a cluster can be written to, and its replica has what it
// has.
func redisReady(cli string, port int) bool {
	state, err1 := commandWithOwnClock(cli, "-p", fmt.Sprint(port), "cluster", "info").Output()
	links, err2 := commandWithOwnClock(cli, "-p", fmt.Sprint(port), "info", "replication").Output()
	linked := bytes.Contains(links, []byte("state=online")) || bytes.Contains(links, []byte("master_link_status:up"))
	return err1 == nil && err2 == nil && linked && bytes.Contains(state, []byte("cluster_state:ok"))
}
