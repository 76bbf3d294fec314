package db

import (
	"os"
	"testing"
)

// TestLogDeletedByAnother: the index of the old log is still in use, so the new one is too short.
func TestLogDeletedByAnother(t *testing.T) {
	cfg := freshSQLite(t)
	withRows(t, cfg)
	if err := os.Remove(cfg.Path + "-wal"); err != nil {
		t.Fatal(err)
	}
	_, err := Open(testContext(t), cfg)
	wantText(t, err, "(522)", "its -wal was deleted while another process had it open: stop every process of postrider")
}

// TestLogThatCannotBeOpened: SQLite does not say why, and access rights are not the reason.
func TestLogThatCannotBeOpened(t *testing.T) {
	cfg := freshSQLite(t)
	checkMigrated(t, cfg)
	if err := os.Mkdir(cfg.Path+"-wal", 0o700); err != nil {
		t.Fatal(err)
	}
	_, err := Open(testContext(t), cfg)
	wantText(t, err, "(14)", "if too many files are open, raise the limit of open files")
}
