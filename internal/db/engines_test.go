package db

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"postrider/internal/testserver"
)

func TestMain(m *testing.M) {
	if cfg := os.Getenv(migrateChildEnv); cfg != "" {
		os.Exit(migrateChild(cfg))
	}
	testserver.Main(m)
}

// An engine is one kind of database, with a fresh and empty database for a test.
type engine struct {
	name  string
	fresh func(t *testing.T) Config
}

func engines() []engine { return append([]engine{{"sqlite", freshSQLite}}, servers()...) }

func servers() []engine {
	return []engine{
		{"mariadb", func(t *testing.T) Config {
			return Config{Driver: MySQL, DSN: testserver.MariaDB(t).NewDatabase(t)}
		}},
		{"mysql", func(t *testing.T) Config {
			return Config{Driver: MySQL, DSN: testserver.MySQL(t).NewDatabase(t)}
		}},
	}
}

func freshSQLite(t *testing.T) Config {
	return Config{Driver: SQLite, Path: filepath.Join(t.TempDir(), "postrider.db")}
}

// on runs a test on each of the engines.
func on(t *testing.T, engines []engine, test func(t *testing.T, cfg Config)) {
	t.Helper()
	for _, e := range engines {
		t.Run(e.name, func(t *testing.T) { test(t, e.fresh(t)) })
	}
}

// testContext ends well before the test binary does.
func testContext(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	t.Cleanup(cancel)
	return ctx
}

// openAny opens a database whatever its schema, and closes it with the test.
func openAny(t *testing.T, cfg Config, opts ...Option) *DB {
	t.Helper()
	db, err := OpenAnySchema(testContext(t), cfg, opts...)
	if err != nil {
		t.Fatalf("open: %v", err)
	}
	t.Cleanup(func() { _ = db.Close() })
	return db
}

// openMigrated opens a database with the current schema.
func openMigrated(t *testing.T, cfg Config, opts ...Option) *DB {
	t.Helper()
	if _, err := openAny(t, cfg).Migrate(testContext(t)); err != nil {
		t.Fatalf("migrate: %v", err)
	}
	db, err := Open(testContext(t), cfg, opts...)
	if err != nil {
		t.Fatalf("open: %v", err)
	}
	t.Cleanup(func() { _ = db.Close() })
	return db
}

func wantText(t *testing.T, err error, parts ...string) {
	t.Helper()
	if err == nil {
		t.Fatalf("no error; want one that says %q", parts)
	}
	for _, part := range parts {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("the error does not say %q: %v", part, err)
		}
	}
}
