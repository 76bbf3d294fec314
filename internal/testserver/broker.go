package testserver

import (
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
)

// Broker is a message broker that tests can kill and start again. What it has acknowledged is on
// disk, and on the same port after a restart.
type Broker struct {
	Address string // host:port

	argv []string
	dir  string
	port int
	proc *process
}

// newBroker starts argv, and stops it when the test is over. argv says where: port and dir.
func newBroker(t testing.TB, argv func(port int, dir string) []string) *Broker {
	t.Helper()
	port, err := freePort()
	if err != nil {
		t.Fatal(err)
	}
	dir, err := newDir("broker")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	b := &Broker{Address: address(port), argv: argv(port, dir), dir: dir, port: port}
	b.Start(t)
	t.Cleanup(func() { b.proc.stop() })
	return b
}

// Start starts the broker after Kill, and waits until it listens.
func (b *Broker) Start(t testing.TB) {
	t.Helper()
	proc, err := startProcess(filepath.Join(b.dir, "log"), nil, b.argv...)
	if err != nil {
		t.Fatal(err)
	}
	b.proc = proc
	if err := proc.waitListening(b.port); err != nil {
		proc.kill()
		t.Fatal(err)
	}
}

// Kill ends the broker at once.
func (b *Broker) Kill() { b.proc.kill() }

// Freeze stops the broker where it is: connections stay open, and nothing is answered.
func (b *Broker) Freeze() {
	b.proc.freeze()
	awaitStopped(b.proc.cmd.Process.Pid)
}

// Thaw lets a frozen broker go on.
func (b *Broker) Thaw() { b.proc.thaw() }

// brokerBinary finds a broker, or skips the test: no machine has to have one.
func brokerBinary(t testing.TB, name, pkg string) string {
	t.Helper()
	binary := findBinary(name)
	if binary == "" {
		t.Skipf("%s is not installed; get it with: apt-get install --no-install-recommends %s", name, pkg)
	}
	return binary
}

// NATS starts a NATS server with JetStream.
func NATS(t testing.TB) *Broker {
	t.Helper()
	binary := brokerBinary(t, "nats-server", "nats-server")
	return newBroker(t, func(port int, dir string) []string {
		return []string{binary, "--addr", loopback, "--port", fmt.Sprint(port), "--jetstream", "--store_dir", dir}
	})
}

// Kafka starts a broker of Kafka's protocol, see the command kafkabroker. It has these topics, with
// four partitions each.
func Kafka(t testing.TB, topics ...string) *Broker {
	t.Helper()
	binary, err := buildKafka()
	if err != nil {
		missing(t, err.Error())
	}
	return newBroker(t, func(port int, dir string) []string {
		return append([]string{binary, fmt.Sprint(port), filepath.Join(dir, "data")}, topics...)
	})
}

// buildKafka builds the broker once for all tests of a process.
var buildKafka = sync.OnceValues(func() (string, error) { return buildCommand("kafkabroker") })
