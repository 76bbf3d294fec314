package testserver

import "testing"

// MariaDB returns this test process's MariaDB.
func MariaDB(t testing.TB) *SQL {
	t.Helper()
	server, installer := findBinary("mariadbd"), findBinary("mariadb-install-db")
	// The installer needs my_print_defaults.
	if server == "" || installer == "" || findBinary("my_print_defaults") == "" {
		missing(t, "MariaDB is not installed: apt-get install mariadb-server-core mariadb-client-core, or run scripts/test")
	}
	return shared(t, "mariadb", func(dir string) (*SQL, error) {
		return newSQL(dir,
			[]string{installer, "--no-defaults", "--auth-root-authentication-method=normal", "--skip-test-db", "--innodb-log-file-size=8M"},
			[]string{server, "--no-defaults", "--innodb-log-file-size=8M"})
	})
}
