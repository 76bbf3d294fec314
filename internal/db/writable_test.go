package db

import (
	"errors"
	"slices"
	"strings"
	"testing"

	mysqldriver "github.com/go-sql-driver/mysql"
)

func TestWritable(t *testing.T) {
	on(t, engines(), func(t *testing.T, cfg Config) {
		db := openMigrated(t, cfg)
		tables, err := db.migrator.tables()
		if err != nil || !slices.Contains(tables, "monitored_emails_tasks") || len(tables) < 8 {
			t.Errorf("the tables are %v (%v), want those of the migrations", tables, err)
		}
		if err := db.Writable(testContext(t)); err != nil {
			t.Errorf("got %v for a user who may do everything, want no error", err)
		}
	})
}

// TestWritableNamesTheMissingRight: the error has the statement that grants it, and with that
// right nothing is missing.
func TestWritableNamesTheMissingRight(t *testing.T) {
	on(t, servers(), func(t *testing.T, root Config) {
		openMigrated(t, root)
		for _, tt := range []struct {
			rights  string
			missing []string
		}{
			{"SELECT", []string{"INSERT", "UPDATE", "DELETE"}},
			{"SELECT, INSERT, UPDATE", []string{"DELETE"}},
		} {
			cfg := grantee(t, root, tt.rights)
			db, err := Open(testContext(t), cfg)
			if err != nil {
				t.Fatal(err)
			}
			err = db.Writable(testContext(t))
			_ = db.Close()
			var rights *RightsError
			if !errors.As(err, &rights) || !slices.Equal(rights.Missing, tt.missing) {
				t.Fatalf("with %s: got %v, want a *RightsError of %v", tt.rights, err, tt.missing)
			}
			wantText(t, err, "may not "+strings.Join(tt.missing, ", "), "monitored_emails and ", rights.Grant)
			asRoot(t, root, rights.Grant)
			if db, err = Open(testContext(t), cfg); err != nil {
				t.Fatal(err)
			}
			if err := db.Writable(testContext(t)); err != nil {
				t.Errorf("after %s: %v, want nothing to be missing", rights.Grant, err)
			}
			_ = db.Close()
			dropUser(t, root)
		}
	})
}

// TestOpenWithoutSelect: a schema that the user may not read is not one that is missing.
func TestOpenWithoutSelect(t *testing.T) {
	on(t, servers(), func(t *testing.T, root Config) {
		openMigrated(t, root)
		cfg := grantee(t, root, "EXECUTE") // which shows none of the tables in the information schema
		_, err := Open(testContext(t), cfg)
		var rights *RightsError
		if !errors.As(err, &rights) {
			t.Fatalf("got %v, want a *RightsError", err)
		}
		wantText(t, err, "may not SELECT in the table postrider_version", "run: GRANT SELECT")
		asRoot(t, root, rights.Grant)
		db, err := Open(testContext(t), cfg)
		if err != nil {
			t.Fatalf("after %s: %v", rights.Grant, err)
		}
		_ = db.Close()
	})
}

// TestWritableOnAReadOnlyServer fails at once.
func TestWritableOnAReadOnlyServer(t *testing.T) {
	on(t, servers(), func(t *testing.T, root Config) {
		openMigrated(t, root)
		db, err := Open(testContext(t), grantee(t, root, "ALL"))
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = db.Close() }()
		asRoot(t, root, "SET GLOBAL read_only = 1")
		t.Cleanup(func() { asRoot(t, root, "SET GLOBAL read_only = 0") })
		wantText(t, db.Writable(testContext(t)), "1290", "the server is read-only", "lead to the primary")
	})
}

func dropUser(t *testing.T, root Config) {
	t.Helper()
	parsed, err := mysqldriver.ParseDSN(root.DSN)
	if err != nil {
		t.Fatal(err)
	}
	asRoot(t, root, "DROP USER user_of_"+parsed.DBName+"@'%'")
}
