// Command kafkabroker speaks the protocol of Kafka, for tests: kafkabroker PORT DIR TOPIC...
//
// It is a module of its own, so that postrider does not depend on what it needs. It writes each
// batch to disk before it acknowledges it.
package main

import (
	"fmt"
	"os"
	"os/signal"
	"strconv"
	"syscall"

	"github.com/twmb/franz-go/pkg/kfake"
)

const partitions = 4

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) < 3 {
		return fmt.Errorf("usage: kafkabroker PORT DIR TOPIC...")
	}
	port, err := strconv.Atoi(args[0])
	if err != nil {
		return fmt.Errorf("read the port %q: %w", args[0], err)
	}
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.Ports(port), kfake.DataDir(args[1]), kfake.SyncWrites(),
		kfake.SeedTopics(partitions, args[2:]...))
	if err != nil {
		return fmt.Errorf("start the broker: %w", err)
	}
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, syscall.SIGTERM, os.Interrupt)
	<-stop
	cluster.Close()
	return nil
}
