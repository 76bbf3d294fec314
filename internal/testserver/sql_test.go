package testserver

import (
	"database/sql"
	"strings"
	"testing"
)

func TestMain(m *testing.M) {
	Main(m)
}

func TestSQL(t *testing.T) {
	servers := map[string]struct {
		start func(testing.TB) *SQL
		isIts func(version string) bool
	}{
		"MariaDB": {start: MariaDB, isIts: func(v string) bool { return strings.Contains(v, "MariaDB") }},
		"MySQL":   {start: MySQL, isIts: func(v string) bool { return !strings.Contains(v, "MariaDB") }},
	}
	for name, server := range servers {
		t.Run(name, func(t *testing.T) {
			s := server.start(t)
			if again := server.start(t); again != s {
				t.Fatal("a second call started a second server; want the first one")
			}
			dsn := s.NewDatabase(t)
			if other := s.NewDatabase(t); other == dsn {
				t.Fatalf("two databases have the DSN %s", dsn)
			}
			db, err := sql.Open("mysql", dsn)
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = db.Close() }()
			var version, durable string
			row := db.QueryRow("SELECT VERSION(), @@innodb_flush_log_at_trx_commit")
			if err := row.Scan(&version, &durable); err != nil {
				t.Fatal(err)
			}
			if !server.isIts(version) || durable != "1" {
				t.Errorf("version %s, innodb_flush_log_at_trx_commit %s; want a %s with 1", version, durable, name)
			}
			testRestart(t, s, db)
		})
	}
}

func testRestart(t *testing.T, s *SQL, db *sql.DB) {
	t.Helper()
	if _, err := db.Exec("CREATE TABLE t (n INT PRIMARY KEY)"); err != nil {
		t.Fatal(err)
	}
	if _, err := db.Exec("INSERT INTO t VALUES (7)"); err != nil {
		t.Fatal(err)
	}
	s.Stop(t)
	if err := db.Ping(); err == nil {
		t.Error("the stopped server still answers")
	}
	s.Start(t)
	s.Restart(t)
	var n int
	if err := db.QueryRow("SELECT n FROM t").Scan(&n); err != nil || n != 7 {
		t.Errorf("after a restart: n = %d, %v; want the 7 of before", n, err)
	}
}

func TestSharedServerNeedsMain(t *testing.T) {
	sharedServers.Lock()
	sharedServers.underMain = false
	sharedServers.Unlock()
	defer func() {
		sharedServers.Lock()
		sharedServers.underMain = true
		sharedServers.Unlock()
	}()
	if rec := record(func(tb testing.TB) { shared[*SQL](tb, "x", nil) }); !strings.Contains(rec.fatal, "TestMain") {
		t.Errorf("a server without Main: %q; want a fatal error that names TestMain", rec.fatal)
	}
}
