package db

import (
	"context"
	"errors"
	"os"
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

// TestDeletedLog: no connection, open or new, goes on with a log that other processes do not find:
// each would write to a log of its own. What was committed stays if there is no other process.
func TestDeletedLog(t *testing.T) {
	for _, end := range []string{"-wal", "-shm"} {
		t.Run(end, func(t *testing.T) {
			cfg := freshSQLite(t)
			db, err := Open(testContext(t), cfg)
			if err != nil {
				t.Fatal(err)
			}
			change := func() error {
				return db.Tx(testContext(t), func(tx *gorm.DB) error {
					return Run(tx, "INSERT INTO contacts (name, email, keywords, is_active) VALUES ('', '', '', 1)")
				})
			}
			if err := errors.Join(change(), db.Replaced(), os.Remove(cfg.Path+end)); err != nil {
				t.Fatal(err)
			}
			for range 2 { // with the open connection, and with a new one
				wantText(t, change(), cfg.Path+end, "was deleted while postrider had", "run postrider again")
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
