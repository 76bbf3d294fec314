package db

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"os"
	"path/filepath"
	"testing"
)

// TestOpenRefusesAnEmptiedFile: a registry that lost its content would have all mail forwarded
// again.
func TestOpenRefusesAnEmptiedFile(t *testing.T) {
	for name, empty := range map[string]func(t *testing.T, path string){
		"no octet": func(t *testing.T, path string) { write(t, path, nil) },
		"another program's": func(t *testing.T, path string) {
			execFile(t, path, "CREATE TABLE theirs (n INT)")
		},
		"no version": func(t *testing.T, path string) {
			execFile(t, path, `CREATE TABLE postrider_version (id INTEGER PRIMARY KEY AUTOINCREMENT,
				version_id INTEGER NOT NULL, is_applied INTEGER NOT NULL, tstamp TIMESTAMP DEFAULT (datetime('now')))`)
		},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := freshSQLite(t)
			empty(t, cfg.Path)
			before, err := os.ReadFile(cfg.Path)
			if err != nil {
				t.Fatal(err)
			}
			for range 2 {
				_, err := Open(testContext(t), cfg)
				var schema *SchemaError
				if !errors.As(err, &schema) || schema.Current != 0 {
					t.Fatalf("got %v, want a *SchemaError of version 0", err)
				}
				wantText(t, err, cfg.Path, "exists but has no tables of postrider",
					"from a backup", "postrider migrate", "--start")
			}
			after, err := os.ReadFile(cfg.Path)
			if err != nil || !bytes.Equal(before, after) {
				t.Errorf("the file was changed (%v), want it as it was", err)
			}
			openMigrated(t, cfg) // which is what `postrider migrate` does
		})
	}
}

func write(t *testing.T, path string, content []byte) {
	t.Helper()
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
}

func execFile(t *testing.T, path, statement string) {
	t.Helper()
	pool, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = pool.Close() }()
	if _, err := pool.Exec(statement); err != nil {
		t.Fatal(err)
	}
}

// TestOpenAfterAKilledCreation: what a process left that was killed while it created the file, or
// that a deleted file left, is no part of the new one.
func TestOpenAfterAKilledCreation(t *testing.T) {
	cfg := freshSQLite(t)
	old, err := Open(testContext(t), cfg)
	if err != nil {
		t.Fatal(err)
	}
	_, err = old.pool.Exec("INSERT INTO contacts (name, email, keywords, is_active) VALUES ('old', 'a@x', '', 1)")
	if err != nil {
		t.Fatal(err)
	}
	log, err := os.ReadFile(cfg.Path + "-wal")
	if err != nil || len(log) == 0 {
		t.Fatalf("the log of the old file has %d octets (%v), want some", len(log), err)
	}
	if err := errors.Join(old.Close(), os.Remove(cfg.Path)); err != nil {
		t.Fatal(err)
	}
	write(t, cfg.Path+"-wal", log)
	write(t, cfg.Path+".new", []byte("half a file"))
	checkMigrated(t, cfg)
	db := openMigrated(t, cfg)
	var rows int
	if err := db.pool.QueryRow("SELECT COUNT(*) FROM contacts").Scan(&rows); err != nil || rows != 0 {
		t.Errorf("the new file has %d rows (%v), want none of the deleted one", rows, err)
	}
	left, err := filepath.Glob(cfg.Path + ".new*")
	if err != nil || len(left) != 0 {
		t.Errorf("left behind: %v (%v), want nothing", left, err)
	}
}

// TestOpenRestoredCopy: one whose journal mode is not WAL any more has it again.
func TestOpenRestoredCopy(t *testing.T) {
	cfg := freshSQLite(t)
	checkMigrated(t, cfg)
	execFile(t, cfg.Path, "PRAGMA journal_mode = DELETE")
	db, err := Open(testContext(t), cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	var mode string
	if err := db.pool.QueryRow("PRAGMA journal_mode").Scan(&mode); err != nil || mode != "wal" {
		t.Errorf("the journal mode is %q (%v), want wal", mode, err)
	}
}

// TestOpenADirectory: also by the commands that create the file.
func TestOpenADirectory(t *testing.T) {
	for _, open := range []func(context.Context, Config, ...Option) (*DB, error){Open, OpenAnySchema} {
		for _, existing := range []bool{true, false} {
			dir := t.TempDir()
			_, err := open(testContext(t), Config{Driver: SQLite, Path: dir, Existing: existing})
			wantText(t, err, dir+": database.path is a directory; name the file in it")
		}
	}
}
