package testserver

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
)

// GaleraNodes is how many nodes the cluster has: the fewest of which one can fail.
const GaleraNodes = 3

// Galera is a running cluster of MariaDB nodes, all of them writable, shared by the tests of this
// process. A test that harms a node must not run beside others that use the cluster.
type Galera struct {
	Nodes [GaleraNodes]*GaleraNode

	databases atomic.Int64
}

// galeraProvider is where Debian's package galera-4 puts the replication.
const galeraProvider = "/usr/lib/galera/libgalera_smm.so"

// GaleraCluster returns this test process's cluster. Not every system can have one, so without it a
// test is skipped, whatever is required.
func GaleraCluster(t testing.TB) *Galera {
	t.Helper()
	scripts := filepath.Join(cacheDir(), "galera-root", "usr", "bin")
	for _, needed := range []string{galeraProvider, filepath.Join(scripts, "wsrep_sst_rsync")} {
		if _, err := os.Stat(needed); err != nil {
			t.Skipf("Galera is not installed: as root, run scripts/test (%v)", err)
		}
	}
	if findBinary("rsync") == "" || findBinary("mariadbd") == "" {
		t.Skip("Galera needs rsync and MariaDB: as root, run scripts/test")
	}
	return shared(t, "galera", func(dir string) (*Galera, error) { return newGalera(dir, scripts) })
}

// newGalera starts the first node on a new data directory. The others copy it from there.
func newGalera(dir, scripts string) (*Galera, error) {
	if err := copyScripts(scripts, dir); err != nil {
		return nil, err
	}
	g := &Galera{}
	var members []string
	for i := range g.Nodes {
		ports, err := freePorts(4)
		if err != nil {
			return nil, err
		}
		n := &GaleraNode{Port: ports[0], gmcast: ports[1], ist: ports[2], sst: ports[3]}
		n.dir = filepath.Join(dir, fmt.Sprintf("node%d", i+1))
		n.scripts, n.cluster = dir, g
		members = append(members, address(n.gmcast))
		g.Nodes[i] = n
	}
	for i, n := range g.Nodes {
		n.members = strings.Join(members, ",")
		if err := n.create(i == 0); err != nil {
			g.kill()
			return nil, fmt.Errorf("node %d: %w", i+1, err)
		}
	}
	return g, nil
}

// copyScripts copies the scripts that transfer the state. By default rsync serves as nobody when
// root starts it, who may not write the data.
func copyScripts(from, to string) error {
	for _, name := range []string{"wsrep_sst_common", "wsrep_sst_rsync"} {
		text, err := os.ReadFile(filepath.Join(from, name))
		if err != nil {
			return fmt.Errorf("copy a script of Galera: %w", err)
		}
		script := string(text)
		if os.Getuid() == 0 {
			const part = "use chroot = no\n"
			script = strings.Replace(script, part, part+"uid = root\ngid = root\n", 1)
		}
		if err := os.WriteFile(filepath.Join(to, name), []byte(script), 0o700); err != nil {
			return fmt.Errorf("copy a script of Galera: %w", err)
		}
	}
	return nil
}

// NewDatabase makes an empty database and returns its DSN on each node. It goes when the cluster
// goes.
func (g *Galera) NewDatabase(t testing.TB) (dsns [GaleraNodes]string) {
	t.Helper()
	name := fmt.Sprintf("test%d", g.databases.Add(1))
	g.Nodes[0].exec(t, "CREATE DATABASE "+name)
	for i, n := range g.Nodes {
		n.await(t, "the database "+name, func() bool {
			return n.ask("SELECT COUNT(*) FROM information_schema.schemata WHERE schema_name = '"+name+"'") == "1"
		})
		dsns[i] = n.dsn() + name
	}
	return dsns
}

func (g *Galera) kill() {
	for _, n := range g.Nodes {
		if n.proc != nil {
			n.proc.kill()
		}
	}
}
