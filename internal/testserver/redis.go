package testserver

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// Redis starts a Redis server that writes each change to disk before it answers.
func Redis(t testing.TB) *Broker {
	t.Helper()
	binary := brokerBinary(t, "redis-server", "redis-server")
	return newBroker(t, func(port int, dir string) []string { return redisArgs(binary, port, dir) })
}

func redisArgs(binary string, port int, dir string, more ...string) []string {
	return append([]string{
		binary, "--port", fmt.Sprint(port), "--bind", loopback, "--dir", dir, "--save", "",
		"--appendonly", "yes", "--appendfsync", "always",
	}, more...)
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
	command := exec.Command(cli, create...)
	command.Env = append(os.Environ(), "HOME="+filepath.Dir(nodes[0].dir))
	if out, err := command.CombinedOutput(); err != nil {
		t.Fatalf("create a cluster of Redis: %v\n%s", err, out)
	}
	return nodes
}
