package db

import (
	"context"
	"database/sql"
	"strings"
	"testing"
	"time"

	mysqldriver "github.com/go-sql-driver/mysql"
	"gorm.io/gorm"
)

// grantee makes a user with these rights on the database, and returns the DSN to log in with.
func grantee(t *testing.T, cfg Config, rights string) Config {
	t.Helper()
	parsed, err := mysqldriver.ParseDSN(cfg.DSN)
	if err != nil {
		t.Fatal(err)
	}
	user := "user_of_" + parsed.DBName
	asRoot(t, cfg, "CREATE USER "+user+"@'%' IDENTIFIED BY 'x'")
	asRoot(t, cfg, "GRANT "+rights+" ON "+parsed.DBName+".* TO "+user+"@'%'")
	cfg.DSN = strings.Replace(cfg.DSN, "root@", user+":x@", 1)
	return cfg
}

func asRoot(t *testing.T, cfg Config, statement string) {
	t.Helper()
	pool, err := sql.Open("mysql", cfg.DSN)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = pool.Close() }()
	if _, err := pool.Exec(statement); err != nil {
		t.Fatalf("%s: %v", statement, err)
	}
}

// TestTxOnAReadOnlyServer: a read-only server is waited for, and then the error says what it
// is.
func TestTxOnAReadOnlyServer(t *testing.T) {
	on(t, servers(), func(t *testing.T, root Config) {
		withRows(t, root)
		asRoot(t, root, "SET GLOBAL read_only = 1")
		t.Cleanup(func() { asRoot(t, root, "SET GLOBAL read_only = 0") })
		db, err := Open(testContext(t), grantee(t, root, "ALL"), WithRetryFor(300*time.Millisecond))
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = db.Close() }()
		change := func(tx *gorm.DB) error { return bump(tx, 1) }
		err = db.Tx(testContext(t), change)
		wantUnavailable(t, err, "1290", "tried for 300ms", "a primary that was demoted", "lead to the primary")
		wantRow(t, db, 1, 0)
		asRoot(t, root, "SET GLOBAL read_only = 0")
		if err := db.Tx(testContext(t), change); err != nil {
			t.Errorf("the server takes writes again: %v", err)
		}
		wantRow(t, db, 1, 1)
	})
}

// TestMigrateOnAReadOnlyServer: that is not a migration that another process runs.
func TestMigrateOnAReadOnlyServer(t *testing.T) {
	on(t, servers(), func(t *testing.T, root Config) {
		openMigrated(t, root)
		asRoot(t, root, "SET GLOBAL read_only = 1")
		t.Cleanup(func() { asRoot(t, root, "SET GLOBAL read_only = 0") })
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()
		_, err := openAny(t, grantee(t, root, "ALL")).Migrate(ctx)
		wantText(t, err, "take the lock of migrations", "1290", "a primary that was demoted", "lead to the primary")
	})
}

// TestTxFindsTheNewPrimary: the connection to a read-only server is not used again.
func TestTxFindsTheNewPrimary(t *testing.T) {
	on(t, servers(), func(t *testing.T, cfg Config) {
		db := withRows(t, cfg)
		var first, second int64
		err := db.Tx(testContext(t), func(tx *gorm.DB) error {
			id := &second
			if first == 0 {
				id = &first
			}
			if err := tx.Raw("SELECT CONNECTION_ID()").Scan(id).Error; err != nil {
				return err
			}
			if second == 0 {
				return errReadOnly
			}
			return bump(tx, 1)
		})
		if err != nil || first == second {
			t.Errorf("got %v on connection %d after %d, want success on another connection", err, second, first)
		}
	})
}
