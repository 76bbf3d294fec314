package db

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"gorm.io/driver/sqlite"
	"gorm.io/gorm"
	modernc "modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"postrider/migrations"
)

// openSQLite opens the file, creating it readable by its owner alone.
func (db *DB) openSQLite(ctx context.Context, path string) (gorm.Dialector, error) {
	db.dialect, db.where = SQLite, path
	if path == "" {
		return nil, errors.New("database.path is empty; name the SQLite file")
	}
	abs, err := filepath.Abs(path)
	if err != nil {
		return nil, fmt.Errorf("find the SQLite file %s: %w", path, err)
	}
	uri := sqliteURI(abs) + "&_journal_mode=WAL"
	if db.there {
		_, err = os.Stat(abs)
		uri = sqliteURI(abs) + "&mode=rw" // one with a schema has its journal mode
	} else {
		err = createPrivate(abs)
	}
	if err != nil {
		return nil, db.unreachable(err)
	}
	pool, err := sql.Open("sqlite", uri)
	if err != nil {
		return nil, db.unreachable(err)
	}
	// Writers of one process queue up in database/sql, which is fair, instead of polling a busy file.
	pool.SetMaxOpenConns(1)
	// Switching a new file to WAL meets the other processes that are doing the same.
	if err := db.retry(ctx, false, func() error { return pool.PingContext(ctx) }); err != nil {
		_ = pool.Close()
		return nil, db.unreachable(err)
	}
	db.pool = pool
	db.migrator = migrator{
		dialect: "sqlite3", files: migrations.SQLite, dir: "sqlite", exists: sqlVersionTableSQLite,
		pool: func() (*sql.DB, error) { return pool, nil },
		lock: func(ctx context.Context, _ *sql.DB) (func() error, error) { return lockFile(ctx, abs+".migrate-lock") },
	}
	return translatingDialector{sqlite.Dialector{DriverName: "sqlite", Conn: pool}}, nil
}

// createPrivate makes the file with mode 0600 unless it exists. It never opens an existing file: closing it would drop
// the POSIX locks that this process holds on it through SQLite.
func createPrivate(path string) error {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	if err != nil {
		return err
	}
	return f.Close()
}

// sqliteURI is the file as a URI (https://www.sqlite.org/uri.html), so that a space, ?, # or % in the path is no syntax.
//
// synchronous=FULL: a commit that is lost after the relay's 250 is a message sent twice. txlock=immediate: a deferred
// transaction that reads and then writes fails with BUSY at once. The busy timeout is short because Tx tries again
// and, unlike SQLite's wait, can be cancelled.
func sqliteURI(abs string) string {
	path := filepath.ToSlash(abs)
	if !strings.HasPrefix(path, "/") {
		path = "/" + path // C:/x becomes file:///C:/x
	}
	u := url.URL{Scheme: "file", Path: path}
	u.RawQuery = "_busy_timeout=500&_synchronous=FULL&_foreign_keys=1" +
		"&_txlock=immediate&_time_format=sqlite&_timezone=UTC&_error_rc=1"
	return u.String()
}

// translatingDialector gives SQLite's constraint errors the names that gorm has for them: gorm's own translation
// knows the cgo driver's error type alone.
type translatingDialector struct{ sqlite.Dialector }

// Translate is called by gorm for every error.
func (translatingDialector) Translate(err error) error {
	var e *modernc.Error
	if !errors.As(err, &e) {
		return err
	}
	switch e.Code() {
	case sqlite3.SQLITE_CONSTRAINT_UNIQUE, sqlite3.SQLITE_CONSTRAINT_PRIMARYKEY:
		return gorm.ErrDuplicatedKey
	case sqlite3.SQLITE_CONSTRAINT_FOREIGNKEY:
		return gorm.ErrForeignKeyViolated
	}
	return err
}
