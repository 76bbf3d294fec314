package db

import (
	"context"
	"database/sql"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"gorm.io/gorm"
)

// TestReadersHoldUpNoWriter: while the rows of a query are being read, a transaction commits, and
// the next query sees what it wrote.
func TestReadersHoldUpNoWriter(t *testing.T) {
	on(t, engines(), func(t *testing.T, cfg Config) {
		db := withRows(t, cfg)
		err := db.View(testContext(t), func(tx *gorm.DB) error {
			rows, err := tx.Raw(`SELECT n FROM rows_of_test`).Rows()
			if err != nil {
				return err
			}
			defer func() { _ = rows.Close() }()
			if !rows.Next() {
				t.Error("the query has no rows")
			}
			ctx, cancel := context.WithTimeout(testContext(t), 10*time.Second)
			defer cancel()
			return db.Tx(ctx, func(tx *gorm.DB) error { return bump(tx, 1) })
		})
		if err != nil {
			t.Fatalf("a transaction beside an open query: %v", err)
		}
		wantRow(t, db, 1, 1)
	})
}

// TestViewOnlyReads: on SQLite a function given to View cannot write by mistake.
func TestViewOnlyReads(t *testing.T) {
	db := withRows(t, freshSQLite(t))
	err := db.View(testContext(t), func(tx *gorm.DB) error { return bump(tx, 1) })
	wantText(t, err, "readonly")
	wantRow(t, db, 1, 0)
}

// TestLogShrinks: SQLite's log grows while somebody reads, and shrinks after that.
func TestLogShrinks(t *testing.T) {
	cfg := freshSQLite(t)
	db := withRows(t, cfg)
	if _, err := db.pool.ExecContext(t.Context(), `CREATE TABLE large (octets BLOB NOT NULL)`); err != nil {
		t.Fatal(err)
	}
	add := func() error {
		return db.Tx(testContext(t), func(tx *gorm.DB) error {
			_, err := Exec(tx, `INSERT INTO large VALUES (?)`, make([]byte, 4<<20))
			return err
		})
	}
	size := func() int64 {
		is, err := os.Stat(cfg.Path + "-wal")
		if err != nil {
			t.Fatal(err)
		}
		return is.Size()
	}
	err := db.View(testContext(t), func(tx *gorm.DB) error {
		rows, err := tx.Raw(`SELECT n FROM rows_of_test`).Rows()
		if err != nil {
			return err
		}
		defer func() { _ = rows.Close() }()
		if !rows.Next() {
			t.Error("the query has no rows")
		}
		for range 8 {
			if err := add(); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil || size() < 32<<20 {
		t.Fatalf("beside a reader, 32 MiB were written: the log has %d octets, %v", size(), err)
	}
	for range 3 {
		if err := add(); err != nil {
			t.Fatal(err)
		}
	}
	if got := size(); got > 17<<20 {
		t.Errorf("the log has %d octets after the reader, want at most 17 MiB", got)
	}
}

// TestReplacedFile: no connection, open or new, goes on in a file that its path does not name any
// more.
func TestReplacedFile(t *testing.T) {
	cfg, other := freshSQLite(t), freshSQLite(t)
	db := withRows(t, cfg)
	withRows(t, other)
	uses := map[string]func() error{
		"View": func() error {
			return db.View(testContext(t), func(tx *gorm.DB) error { return tx.Exec(`SELECT 1`).Error })
		},
		"Tx": func() error {
			return db.Tx(testContext(t), func(tx *gorm.DB) error { return tx.Exec(`SELECT 1`).Error })
		},
	}
	for name, use := range uses {
		if err := use(); err != nil {
			t.Fatalf("%s before: %v", name, err)
		}
	}
	away := cfg.Path + ".away"
	if err := os.Rename(cfg.Path, away); err != nil {
		t.Fatal(err)
	}
	for _, use := range uses {
		wantText(t, use(), cfg.Path, "was deleted or moved", "put it back", "delete the -wal")
	}
	if err := os.Rename(other.Path, cfg.Path); err != nil {
		t.Fatal(err)
	}
	for _, use := range uses {
		for range 2 { // with the open connection, and with a new one
			wantText(t, use(), cfg.Path, "was replaced", "run postrider again")
		}
	}
	if err := os.Rename(away, cfg.Path); err != nil {
		t.Fatal(err)
	}
	for name, use := range uses {
		if err := use(); err != nil {
			t.Errorf("%s after the file is back: %v", name, err)
		}
	}
}

// TestDeletedLog: after -wal or -shm was deleted, no connection, open or new, writes, because other
// processes would not see it. What was committed stays if there is no other process. The path is a
// link; the log is beside the file that it leads to.
func TestDeletedLog(t *testing.T) {
	for _, end := range []string{"-wal", "-shm"} {
		t.Run(end, func(t *testing.T) {
			cfg := freshSQLite(t)
			checkMigrated(t, cfg)
			linked := Config{Driver: SQLite, Path: filepath.Join(t.TempDir(), "linked.db")}
			if err := os.Symlink(cfg.Path, linked.Path); err != nil {
				t.Fatal(err)
			}
			db, err := Open(testContext(t), linked)
			if err != nil {
				t.Fatal(err)
			}
			if err := errors.Join(addContact(t, db), db.Replaced(), os.Remove(cfg.Path+end)); err != nil {
				t.Fatal(err)
			}
			for range 2 { // with the open connection, and with a new one
				wantText(t, addContact(t, db), linked.Path, "was deleted while postrider had", "run postrider again")
			}
			wantText(t, db.Replaced(), "was deleted while postrider had the database open")
			if err := db.Close(); err != nil {
				t.Fatal(err)
			}
			var rows int
			err = openMigrated(t, cfg).pool.QueryRow("SELECT COUNT(*) FROM contacts").Scan(&rows)
			if err != nil || rows != 1 {
				t.Errorf("there are %d rows (%v), want what was committed", rows, err)
			}
		})
	}
}

func addContact(t *testing.T, db *DB) error {
	return db.Tx(testContext(t), func(tx *gorm.DB) error {
		return Run(tx, "INSERT INTO contacts (name, email, keywords, is_active) VALUES ('', '', '', 1)")
	})
}

// TestLogThatComesBack: a directory that was moved away and back with all its files lost nothing.
func TestLogThatComesBack(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "disk")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	db := openMigrated(t, Config{Driver: SQLite, Path: filepath.Join(dir, "postrider.db")})
	if err := errors.Join(addContact(t, db), os.Rename(dir, dir+".away")); err != nil {
		t.Fatal(err)
	}
	wantText(t, addContact(t, db), "was deleted or moved", "put it back")
	if err := errors.Join(os.Rename(dir+".away", dir), addContact(t, db)); err != nil {
		t.Errorf("after it is back: %v", err)
	}
}

// TestLogOfAnother: another process creates and removes a log. A connection that did not read
// meanwhile never used that log, and goes on.
func TestLogOfAnother(t *testing.T) {
	cfg := freshSQLite(t)
	checkMigrated(t, cfg)
	set := func(mode string) *sql.DB {
		other, err := sql.Open("sqlite", cfg.Path)
		if err == nil {
			_, err = other.ExecContext(t.Context(), "PRAGMA journal_mode = "+mode+"; SELECT 1 FROM sqlite_schema")
		}
		if err != nil {
			t.Fatal(err)
		}
		return other
	}
	if err := set("DELETE").Close(); err != nil {
		t.Fatal(err)
	}
	db, err := Open(testContext(t), cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	other := set("WAL")
	if err := errors.Join(db.pool.PingContext(t.Context()), other.Close(), addContact(t, db)); err != nil {
		t.Error(err)
	}
}
