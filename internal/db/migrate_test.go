package db

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pressly/goose/v3/lock"
)

// migrateChildEnv holds the Config that this test binary, run as a process of its own, migrates.
const migrateChildEnv = "POSTRIDER_TEST_MIGRATE"

// migrateChild migrates and prints how many migrations it ran.
func migrateChild(config string) int {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	var cfg Config
	err := json.Unmarshal([]byte(config), &cfg)
	var applied []Applied
	if err == nil {
		var db *DB
		if db, err = OpenAnySchema(ctx, cfg); err == nil {
			applied, err = db.Migrate(ctx)
		}
	}
	if err != nil {
		fmt.Println(err)
		return 1
	}
	fmt.Printf("applied %d\n", len(applied))
	return 0
}

func TestMigrateFromSeveralProcesses(t *testing.T) {
	const processes = 8
	on(t, engines(), func(t *testing.T, cfg Config) {
		config, err := json.Marshal(cfg)
		if err != nil {
			t.Fatal(err)
		}
		outputs := make([]bytes.Buffer, processes)
		var wg sync.WaitGroup
		for i := range outputs {
			cmd := exec.CommandContext(testContext(t), os.Args[0])
			cmd.Env = append(os.Environ(), migrateChildEnv+"="+string(config))
			cmd.Stdout, cmd.Stderr = &outputs[i], &outputs[i]
			wg.Go(func() {
				if err := cmd.Run(); err != nil {
					t.Errorf("process %d: %v: %s", i, err, outputs[i].String())
				}
			})
		}
		wg.Wait()
		var ran, idle int
		for i := range outputs {
			ran += strings.Count(outputs[i].String(), fmt.Sprintf("applied %d\n", len(migrationFiles(t, cfg.Driver))))
			idle += strings.Count(outputs[i].String(), "applied 0\n")
		}
		if ran != 1 || idle != processes-1 {
			t.Errorf("%d of %d processes ran all migrations and %d none, want 1 and all others", ran, processes, idle)
		}
		checkMigrated(t, cfg)
	})
}

// SQLite migrates in Open, which has to be safe for many as well.
func TestOpenNewSQLiteFromManyGoroutines(t *testing.T) {
	cfg := freshSQLite(t)
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			db, err := Open(testContext(t), cfg)
			if err != nil {
				t.Errorf("open: %v", err)
				return
			}
			_ = db.Close()
		})
	}
	wg.Wait()
	checkMigrated(t, cfg)
}

func checkMigrated(t *testing.T, cfg Config) {
	t.Helper()
	db, err := Open(testContext(t), cfg)
	if err != nil {
		t.Fatalf("open after the migration: %v", err)
	}
	defer func() { _ = db.Close() }()
	for _, table := range []string{"monitored_emails", "monitored_emails_seen"} {
		if _, err := db.pool.ExecContext(t.Context(), "DELETE FROM "+table); err != nil {
			t.Errorf("table %s is not there: %v", table, err)
		}
	}
}

func TestMigrateReports(t *testing.T) {
	on(t, engines(), func(t *testing.T, cfg Config) {
		db := openAny(t, cfg)
		if current, latest, err := db.Version(testContext(t)); current != 0 || latest < 1 || err != nil {
			t.Errorf("before: version %d of %d (%v), want 0 of at least 1", current, latest, err)
		}
		applied, err := db.Migrate(testContext(t))
		if err != nil || len(applied) == 0 || applied[0].Version != 1 || applied[0].Name != "00001_schema.sql" {
			t.Errorf("applied %v (%v), want 00001_schema.sql first", applied, err)
		}
		if applied, err = db.Migrate(testContext(t)); err != nil || len(applied) != 0 {
			t.Errorf("the second time applied %v (%v), want nothing", applied, err)
		}
		if current, latest, err := db.Version(testContext(t)); current != latest || err != nil {
			t.Errorf("after: version %d of %d (%v), want the latest", current, latest, err)
		}
	})
}

func TestOpenRefusesASchemaThatIsBehind(t *testing.T) {
	on(t, servers(), func(t *testing.T, cfg Config) {
		_, err := Open(testContext(t), cfg)
		var schema *SchemaError
		if !errors.As(err, &schema) {
			t.Fatalf("got %v, want a *SchemaError", err)
		}
		wantText(t, err, schema.Where, "restore it from a backup", "database.dsn", "postrider migrate")
	})
}

func TestSchemaNewerThanTheBinary(t *testing.T) {
	on(t, engines(), func(t *testing.T, cfg Config) {
		db := openMigrated(t, cfg)
		const newer = "INSERT INTO postrider_version (version_id, is_applied) VALUES (4711, 1)"
		if _, err := db.pool.ExecContext(t.Context(), newer); err != nil {
			t.Fatal(err)
		}
		_, openErr := Open(testContext(t), cfg)
		_, migrateErr := db.Migrate(testContext(t))
		for doing, err := range map[string]error{"open": openErr, "migrate": migrateErr} {
			var schema *SchemaError
			if !errors.As(err, &schema) {
				t.Errorf("%s: got %v, want a *SchemaError", doing, err)
				continue
			}
			if want := schema.Where; strings.Count(err.Error(), want) != 1 {
				t.Errorf("%s: %v; want it to name the database %s once", doing, err, want)
			}
			wantText(t, err, "4711", "upgrade postrider")
		}
	})
}

// MySQL commits DDL statement by statement, so a kill leaves any prefix of them.
func TestMigrateAgainAfterAKill(t *testing.T) {
	on(t, servers(), func(t *testing.T, cfg Config) {
		for name, left := range map[string]string{
			"version table without a row": "DELETE FROM postrider_version",
			"some tables":                 "DELETE FROM postrider_version WHERE version_id >= 1",
		} {
			db := openMigrated(t, cfg)
			for _, statement := range []string{left, "DROP TABLE monitored_emails_seen"} {
				if _, err := db.pool.ExecContext(t.Context(), statement); err != nil {
					t.Fatal(err)
				}
			}
			if applied, err := db.Migrate(testContext(t)); err != nil || len(applied) != len(migrationFiles(t, MySQL)) {
				t.Errorf("%s: applied %v (%v), want all migrations again", name, applied, err)
			}
			checkMigrated(t, cfg)
		}
	})
}

// TestMigrateBesideAnotherProgram: its tables of goose are not ours, and its tables with our names
// are not used.
func TestMigrateBesideAnotherProgram(t *testing.T) {
	on(t, engines(), func(t *testing.T, cfg Config) {
		db := openAny(t, cfg)
		exec := func(statements ...string) {
			t.Helper()
			for _, statement := range statements {
				if _, err := db.pool.ExecContext(t.Context(), statement); err != nil {
					t.Fatal(err)
				}
			}
		}
		exec("CREATE TABLE goose_lock (n INT)", "CREATE TABLE goose_db_version (n INT)",
			"CREATE TABLE contacts (n INT)")
		_, err := db.Migrate(testContext(t))
		wantText(t, err, "the table contacts is there, but not postrider_version", "an empty database of its own")
		if current, _, err := db.Version(testContext(t)); current != 0 || err != nil {
			t.Errorf("the version is %d (%v), want none", current, err)
		}
		exec("DROP TABLE contacts")
		if applied, err := db.Migrate(testContext(t)); err != nil || len(applied) == 0 {
			t.Errorf("without that table: applied %v (%v), want all", applied, err)
		}
		checkMigrated(t, cfg)
	})
}

// TestMigrateBesideAnotherSpelling: to SQLite Contacts and contacts are one name.
func TestMigrateBesideAnotherSpelling(t *testing.T) {
	db := openAny(t, freshSQLite(t))
	if _, err := db.pool.ExecContext(t.Context(), "CREATE TABLE Contacts (n INT)"); err != nil {
		t.Fatal(err)
	}
	_, err := db.Migrate(testContext(t))
	wantText(t, err, "the table contacts is there, but not postrider_version")
	if got := column(t, db.pool, "SELECT name FROM sqlite_master"); !slices.Equal(got, []string{"Contacts"}) {
		t.Errorf("the database has %v now, want nothing but its own table", got)
	}
}

func TestMigrateAfterALockWasLeftBehind(t *testing.T) {
	on(t, servers(), func(t *testing.T, cfg Config) {
		db := openMigrated(t, cfg)
		// The holder is gone; its lease is about to run out.
		start := time.Now()
		_, err := db.pool.ExecContext(t.Context(),
			`UPDATE postrider_lock SET locked = true, locked_at = now(6), locked_by = 'gone',
			lease_expires_at = now(6) + INTERVAL 1 SECOND WHERE lock_id = ?`, lock.DefaultLockID)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := db.Migrate(testContext(t)); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(start); took < 500*time.Millisecond || took > 20*time.Second {
			t.Errorf("took %s, want until shortly after the lease ran out", took)
		}
	})
}

func TestMigrateWaitsNoLongerThanItsContext(t *testing.T) {
	on(t, engines(), func(t *testing.T, cfg Config) {
		db := openAny(t, cfg)
		unlock, err := db.migrator.lock(testContext(t), db.pool)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		if _, err := db.Migrate(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v, want the context's end", err)
		}
		if err := unlock(); err != nil {
			t.Errorf("unlock: %v", err)
		}
		if _, err := db.Migrate(testContext(t)); err != nil {
			t.Errorf("after the lock was given back: %v", err)
		}
	})
}

// A user without the rights gets the error at once instead of waiting for the lock.
func TestMigrateWithoutRights(t *testing.T) {
	on(t, servers(), func(t *testing.T, cfg Config) {
		db := openMigrated(t, cfg)
		name := cfg.DSN[strings.LastIndex(cfg.DSN, "/")+1:]
		user := "reader_of_" + name
		for _, statement := range []string{
			"CREATE USER " + user + "@'%' IDENTIFIED BY 'x'", "GRANT SELECT ON " + name + ".* TO " + user + "@'%'",
		} {
			if _, err := db.pool.ExecContext(t.Context(), statement); err != nil {
				t.Fatal(err)
			}
		}
		cfg.DSN = strings.Replace(cfg.DSN, "root@", user+":x@", 1)
		_, err := openAny(t, cfg).Migrate(testContext(t))
		wantText(t, err, "denied", "migrate the mysql database", "grant the user of database.dsn all privileges")
	})
}
