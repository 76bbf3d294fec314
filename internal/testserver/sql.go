package testserver

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"

	_ "github.com/go-sql-driver/mysql" // the driver of NewDatabase
)

// SQL is a running MariaDB or MySQL, shared by the tests of this process. A test that stops or
// restarts it must not run beside others that use it.
type SQL struct {
	Port int

	argv      []string
	logFile   string
	proc      *process
	databases atomic.Int64
}

// NewDatabase makes an empty database and returns its DSN, `root@tcp(127.0.0.1:port)/name`. It goes
// when the server goes.
func (s *SQL) NewDatabase(t testing.TB) string {
	t.Helper()
	name := fmt.Sprintf("test%d", s.databases.Add(1))
	s.exec(t, "CREATE DATABASE "+name)
	return s.dsn() + name
}

// Unsynced has commits not wait for the disk any more, until the server is started again: they
// survive its death, but not the machine's. For tests in which neither that nor speed is at stake.
func (s *SQL) Unsynced(t testing.TB) *SQL {
	t.Helper()
	s.exec(t, "SET GLOBAL innodb_flush_log_at_trx_commit = 2, GLOBAL sync_binlog = 0")
	return s
}

func (s *SQL) exec(t testing.TB, statement string) {
	t.Helper()
	execOn(t, s.dsn(), statement)
}

func execOn(t testing.TB, dsn, statement string) {
	t.Helper()
	db, err := sql.Open("mysql", dsn)
	if err != nil {
		t.Fatalf("%s: %v", statement, err)
	}
	defer func() { _ = db.Close() }()
	// What a test did is undone when its context has ended.
	if _, err := db.ExecContext(context.WithoutCancel(t.Context()), statement); err != nil {
		t.Fatalf("%s: %v", statement, err)
	}
}

// Start starts the server again, on the same port and data, and returns when it takes connections.
func (s *SQL) Start(t testing.TB) {
	t.Helper()
	if err := s.start(); err != nil {
		t.Fatal(err)
	}
}

// Stop shuts the server down in good order; it cuts all connections. The end of the test starts it
// again for the next one.
func (s *SQL) Stop(t testing.TB) {
	s.proc.stop()
	t.Cleanup(func() {
		select {
		case <-s.proc.ended:
			s.Start(t)
		default:
		}
	})
}

// Restart is Stop and Start.
func (s *SQL) Restart(t testing.TB) {
	t.Helper()
	s.Stop(t)
	s.Start(t)
}

func (s *SQL) start() error {
	proc, err := startProcess(s.logFile, nil, s.argv...)
	if err != nil {
		return err
	}
	// Listening is not enough: MariaDB loses a SIGTERM that comes before it takes connections.
	if err := errors.Join(proc.waitListening(s.Port), s.ping()); err != nil {
		proc.kill()
		return err
	}
	s.proc = proc
	return nil
}

func (s *SQL) ping() error {
	db, err := sql.Open("mysql", s.dsn())
	if err != nil {
		return fmt.Errorf("connect to a database server: %w", err)
	}
	defer func() { _ = db.Close() }()
	if err := db.Ping(); err != nil {
		return fmt.Errorf("connect to a database server: %w", err)
	}
	return nil
}

func (s *SQL) dsn() string { return rootDSN(s.Port) }

func rootDSN(port int) string { return fmt.Sprintf("root@tcp(%s)/", address(port)) }

func (s *SQL) kill() { s.proc.kill() }

// PID is the server's process.
func (s *SQL) PID() int { return s.proc.cmd.Process.Pid }

// newSQL makes a data directory in dir with the command install and starts a server on it with the
// command serve; both get the data directory and options that all of them share appended.
func newSQL(dir string, install, serve []string) (*SQL, error) {
	port, err := freePort()
	if err != nil {
		return nil, err
	}
	data, logFile := filepath.Join(dir, "data"), filepath.Join(dir, "log")
	common := commonOptions(data, dir)
	if err := runInstaller(logFile, append(install, common...)); err != nil {
		return nil, err
	}
	serve = append(append(serve, common...), servingOptions(port, dir)...)
	s := &SQL{Port: port, argv: serve, logFile: logFile}
	return s, s.start()
}

// commonOptions gives a server a tmpdir of its own, also while it is installed: MariaDB, when it
// starts, deletes what it finds of others in a shared one.
func commonOptions(data, dir string) []string {
	common := []string{"--datadir=" + data, "--tmpdir=" + dir}
	if os.Getuid() == 0 {
		common = append(common, "--user=root") // refused otherwise
	}
	return common
}

func servingOptions(port int, dir string) []string {
	return []string{
		fmt.Sprintf("--port=%d", port), "--bind-address=" + loopback,
		"--socket=" + filepath.Join(dir, "socket"), "--pid-file=" + filepath.Join(dir, "pid"),
		"--secure-file-priv=", "--max-connections=500",
	}
}

// runInstaller makes a data directory.
func runInstaller(logFile string, argv []string) error {
	installer, err := startProcess(logFile, nil, argv...)
	if err != nil {
		return err
	}
	<-installer.ended
	if installer.err != nil {
		return fmt.Errorf("make a data directory with %s: %w; its last words:\n%s",
			argv[0], installer.err, installer.lastWords())
	}
	return nil
}

// sharedServers are the database servers of this test process. They outlive the single test, so
// something that does too has to hold them: this is the one variable of its kind here.
var sharedServers struct {
	sync.Mutex
	underMain bool
	servers   map[string]killer // by name
	dirs      []string
}

// killer is a server, or a cluster of them, that runs.
type killer interface{ kill() }

// TestingM is *testing.M, or what wraps it.
type TestingM interface{ Run() int }

// Main runs the tests of a package with their temporary files in memory, if there is room, stops
// the servers that they shared, and exits. It is the whole of a TestMain.
func Main(m TestingM) {
	os.Exit(M{m}.Run())
}

// M is Main for a package whose TestMain is taken: testscript.Main(testserver.M{m}, ...).
type M struct{ TestingM }

// Run runs the tests and stops the servers that they shared.
func (m M) Run() int {
	plainUmask()
	sharedServers.Lock()
	sharedServers.underMain = true
	sharedServers.Unlock()
	defer inMemory()()
	defer stopShared()
	return m.TestingM.Run()
}

func stopShared() {
	sharedServers.Lock()
	defer sharedServers.Unlock()
	for _, s := range sharedServers.servers {
		s.kill()
	}
	for _, dir := range sharedServers.dirs {
		if err := os.RemoveAll(dir); err != nil {
			fmt.Fprintln(os.Stderr, "remove the folder of a database server:", err)
		}
	}
}

// shared returns the server of that name, which the first caller makes in a folder of its own.
func shared[S killer](t testing.TB, name string, start func(dir string) (S, error)) S {
	t.Helper()
	sharedServers.Lock()
	defer sharedServers.Unlock()
	if !sharedServers.underMain {
		t.Fatalf("start %s: the package needs `func TestMain(m *testing.M) { testserver.Main(m) }`, "+
			"or nothing would stop it", name)
	}
	if s := sharedServers.servers[name]; s != nil {
		return s.(S)
	}
	dir, err := newDir(name)
	if err != nil {
		t.Fatal(err)
	}
	sharedServers.dirs = append(sharedServers.dirs, dir)
	s, err := start(dir)
	if err != nil {
		t.Fatalf("start %s: %v", name, err)
	}
	if sharedServers.servers == nil {
		sharedServers.servers = map[string]killer{}
	}
	sharedServers.servers[name] = s
	return s
}
