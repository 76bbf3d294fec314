package testserver

import (
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

// GaleraNode is one node of a cluster. What a test does to it, the end of the test undoes.
type GaleraNode struct {
	Port int

	gmcast, ist, sst int // ports: of the group, and of the two ways to transfer the state
	dir, scripts     string
	members          string
	cluster          *Galera
	proc             *process
}

// create makes the data directory and starts the node for the first time.
func (n *GaleraNode) create(first bool) error {
	data := n.path("data")
	if err := os.MkdirAll(data, 0o700); err != nil {
		return fmt.Errorf("make a data directory: %w", err)
	}
	if !first {
		return n.start()
	}
	install := []string{
		findBinary("mariadb-install-db"), "--no-defaults", "--auth-root-authentication-method=normal",
		"--skip-test-db", "--innodb-log-file-size=8M",
	}
	if err := runInstaller(n.path("log"), append(install, n.common()...)); err != nil {
		return err
	}
	return n.start("--wsrep-new-cluster")
}

func (n *GaleraNode) path(name string) string { return filepath.Join(n.dir, name) }

func (n *GaleraNode) common() []string { return commonOptions(n.path("data"), n.dir) }

// start returns when the node takes part in the cluster.
func (n *GaleraNode) start(extra ...string) error {
	provider := strings.Join([]string{
		"base_host=" + loopback, "base_port=" + strconv.Itoa(n.gmcast),
		"gmcast.listen_addr=tcp://" + address(n.gmcast), "ist.recv_addr=" + address(n.ist),
		"gcache.size=16M", "pc.recovery=no", "gmcast.time_wait=PT0.5S",
		// A node that does not answer is put out of the cluster after 2.5 seconds instead of five.
		// On a busy machine a healthy node may be silent for a second.
		"evs.keepalive_period=PT0.2S", "evs.inactive_check_period=PT0.1S",
		"evs.suspect_timeout=PT2.5S", "evs.inactive_timeout=PT7S", "evs.install_timeout=PT7S",
	}, ";")
	argv := []string{
		"env", "PATH=" + n.scripts + ":" + os.Getenv("PATH"),
		findBinary("mariadbd"), "--no-defaults", "--innodb-log-file-size=8M",
	}
	argv = append(argv, n.common()...)
	argv = append(argv, servingOptions(n.Port, n.dir)...)
	argv = append(argv,
		"--binlog-format=ROW", "--innodb-autoinc-lock-mode=2", "--innodb-flush-log-at-trx-commit=2",
		"--wsrep-on=ON", "--wsrep-provider="+galeraProvider, "--wsrep-cluster-name=test",
		"--wsrep-cluster-address=gcomm://"+n.members, "--wsrep-node-address="+address(n.gmcast),
		"--wsrep-sst-method=rsync", "--wsrep-sst-receive-address="+address(n.sst),
		"--wsrep-slave-threads=2", "--wsrep-provider-options="+provider)
	proc, err := startProcess(n.path("log"), nil, append(argv, extra...)...)
	if err != nil {
		return err
	}
	n.proc = proc
	return errors.Join(proc.waitListening(n.Port), n.waitFor(n.synced))
}

func (n *GaleraNode) synced() bool {
	return n.ask("SHOW STATUS LIKE 'wsrep_ready'") == "ON" &&
		n.ask("SHOW STATUS LIKE 'wsrep_local_state_comment'") == "Synced"
}

// waitFor waits for a condition, or for the end of the node.
func (n *GaleraNode) waitFor(condition func() bool) error {
	for deadline := time.Now().Add(startTimeout); !condition(); {
		select {
		case <-n.proc.ended:
			return fmt.Errorf("the node ended (%w); its last words:\n%s", n.proc.err, n.proc.lastWords())
		case <-time.After(10 * time.Millisecond):
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("nothing after %v; its last words:\n%s", startTimeout, n.proc.lastWords())
		}
	}
	return nil
}

func (n *GaleraNode) await(t testing.TB, what string, condition func() bool) {
	t.Helper()
	if err := n.waitFor(condition); err != nil {
		t.Fatalf("wait on a Galera node for %s: %v", what, err)
	}
}

// ask returns the last column of the only row, or an empty string.
func (n *GaleraNode) ask(query string) string {
	db, err := sql.Open("mysql", n.dsn()+"?timeout=1s&readTimeout=1s")
	if err != nil {
		return ""
	}
	defer func() { _ = db.Close() }()
	rows, err := db.Query(query)
	if err != nil {
		return ""
	}
	defer func() { _ = rows.Close() }()
	columns, err := rows.Columns()
	if err != nil || !rows.Next() {
		return ""
	}
	var last sql.NullString
	into := make([]any, len(columns))
	for i := range into {
		into[i] = new(sql.RawBytes)
	}
	into[len(into)-1] = &last
	if rows.Scan(into...) != nil {
		return ""
	}
	return last.String
}

func (n *GaleraNode) exec(t testing.TB, statement string) {
	t.Helper()
	execOn(t, n.dsn(), statement)
}

func (n *GaleraNode) dsn() string { return rootDSN(n.Port) }
