package testserver

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
)

// rabbitScript is Debian's: the rabbitmq-server on the PATH starts that of the host.
const rabbitScript = "/usr/lib/rabbitmq/bin/rabbitmq-server"

// RabbitMQ starts a RabbitMQ server with the user guest. It has nothing in common with that of the
// host: neither its folders, nor its name, nor the port mapper of Erlang.
func RabbitMQ(t testing.TB) *Broker {
	t.Helper()
	mapper, env := brokerBinary(t, "epmd", "erlang-base"), brokerBinary(t, "env", "coreutils")
	if _, err := os.Stat(rabbitScript); err != nil {
		t.Skipf("%s is not there; get it with: apt-get install --no-install-recommends rabbitmq-server", rabbitScript)
	}
	ports, err := freePorts(2)
	if err != nil {
		t.Fatal(err)
	}
	startMapper(t, mapper, ports[0])
	return newBroker(t, func(port int, dir string) []string {
		at := func(name string) string { return filepath.Join(dir, name) }
		return []string{
			env, "HOME=" + dir, "ERL_EPMD_PORT=" + fmt.Sprint(ports[0]), "ERL_EPMD_ADDRESS=" + loopback,
			"RABBITMQ_NODENAME=" + fmt.Sprintf("test%d@localhost", port),
			"RABBITMQ_NODE_IP_ADDRESS=" + loopback,
			"RABBITMQ_NODE_PORT=" + fmt.Sprint(port), "RABBITMQ_DIST_PORT=" + fmt.Sprint(ports[1]),
			"RABBITMQ_BASE=" + dir, "RABBITMQ_MNESIA_BASE=" + at("mnesia"),
			"RABBITMQ_LOG_BASE=" + at("logs"), "RABBITMQ_LOGS=-",
			"RABBITMQ_CONFIG_FILE=" + at("rabbitmq"), "RABBITMQ_ADVANCED_CONFIG_FILE=" + at("advanced"),
			"RABBITMQ_CONF_ENV_FILE=" + at("env"),
			"RABBITMQ_ENABLED_PLUGINS_FILE=" + at("plugins"), "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS=+S 1:1 +sbwt none",
			rabbitScript,
		}
	})
}

// startMapper starts the port mapper of Erlang, which a node would start for good.
func startMapper(t testing.TB, binary string, port int) {
	t.Helper()
	log := filepath.Join(t.TempDir(), "log")
	proc, err := startProcess(log, nil, binary, "-port", fmt.Sprint(port), "-address", loopback)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(proc.kill)
	if err := proc.waitListening(port); err != nil {
		t.Fatal(err)
	}
}
