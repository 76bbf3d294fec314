package db

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"

	"gorm.io/driver/sqlite"
	"gorm.io/gorm"
	modernc "modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"postrider/internal/secret"
	"postrider/migrations"
)

// openSQLite opens the file, and creates it so that only its owner can read it.
func (db *DB) openSQLite(ctx context.Context, cfg Config) (gorm.Dialector, error) {
	path := cfg.Path
	db.dialect, db.where = SQLite, path
	if path == "" {
		return nil, errors.New("database.path is empty; name the SQLite file")
	}
	abs, err := filepath.Abs(path)
	if err != nil {
		return nil, fmt.Errorf("find the SQLite file %s: %w", path, err)
	}
	if !cfg.Existing {
		if err := createPrivate(abs); err != nil {
			return nil, db.unreachable(err)
		}
	}
	is, err := os.Stat(abs)
	if errors.Is(err, fs.ErrNotExist) && exists(filepath.Dir(abs)) {
		return nil, &MissingError{Path: path, Link: exists(abs)}
	}
	if err != nil {
		return nil, db.unreachable(err)
	}
	if is.IsDir() {
		return nil, cannotOpen(SQLite, path, errors.New("database.path is a directory"), "name the file in it")
	}
	file := &sqliteFile{path: abs, real: abs, is: is}
	if real, err := filepath.EvalSymlinks(abs); err == nil {
		file.real = real
	}
	db.file = file
	pool, err := db.sqlitePool(ctx, file, "", "BEGIN IMMEDIATE")
	if err != nil {
		return nil, db.unreachable(err)
	}
	db.pool = pool
	if !cfg.Existing {
		err = db.writeAhead(ctx)
	}
	if err == nil {
		db.readers, err = db.sqlitePool(ctx, file, forReading, "")
	}
	if err != nil {
		_ = pool.Close()
		return nil, db.unreachable(err)
	}
	db.migrator = migrator{
		dialect: "sqlite3", files: migrations.SQLite, dir: "sqlite", exists: sqlTableExistsSQLite,
		pool: func() (*sql.DB, error) { return pool, nil },
		lock: func(ctx context.Context, _ *sql.DB) (func() error, error) { return lockFile(ctx, abs+migrateLock) },
	}
	return translatingDialector{sqlite.Dialector{DriverName: "sqlite", Conn: pool}}, nil
}

// sqlitePool opens a pool of one connection. Writers of one process queue up in database/sql, which
// is fair, instead of polling a busy file.
func (db *DB) sqlitePool(ctx context.Context, file *sqliteFile, options, begin string) (*sql.DB, error) {
	connector, err := modernc.NewConnector(sqliteURI(file.path) + options)
	if err != nil {
		return nil, err
	}
	pool := sql.OpenDB(preparing{sameFile{connector, file}, sqliteStatements, begin})
	pool.SetMaxOpenConns(1)
	if err := db.retry(ctx, false, func() error { return pool.PingContext(ctx) }); err != nil {
		_ = pool.Close()
		return nil, err
	}
	return pool, nil
}

// sqliteFile is the file that the path named first.
type sqliteFile struct {
	path    string
	real    string // the path without links: -wal and -shm are beside it
	is      os.FileInfo
	logGone atomic.Bool // -wal or -shm was deleted or replaced while a connection had it open
}

// check returns an error if the path no longer names the file, or if its log is gone.
func (f *sqliteFile) check() error {
	now, err := os.Stat(f.path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		err = fmt.Errorf("the database file %s was deleted or moved while postrider had it open; "+
			"put it back, or mount its disk; or "+restoreFile, f.path)
	case err == nil && !os.SameFile(now, f.is):
		err = fmt.Errorf("the database file %s was replaced while postrider had it open; run postrider again", f.path)
	case err == nil && f.logGone.Load():
		err = fmt.Errorf("the -wal or -shm of %s was deleted while postrider had the database open; "+
			"run postrider again; the last commits may be lost, and their messages may be sent again", f.path)
	}
	return err
}

// Replaced returns an error if the path no longer names the SQLite file that was opened, or if its
// log is gone: then nothing is read or written until it is opened again. It is nil for MySQL.
func (db *DB) Replaced() error {
	if db.file == nil {
		return nil
	}
	return db.file.check()
}

// sameFile opens and uses connections to a file only while its path still names it, because
// everything written to a replaced file is lost. The same is true of the files -wal and -shm, which
// SQLite keeps while a connection that has read is open.
type sameFile struct {
	driver.Connector
	file *sqliteFile
}

// Connect opens a connection and reads, so that -wal and -shm are open, too.
func (c sameFile) Connect(ctx context.Context) (driver.Conn, error) {
	if err := c.file.check(); err != nil {
		return nil, err
	}
	conn, err := c.Connector.Connect(ctx)
	if err != nil {
		return nil, err
	}
	inner := conn.(preparer)
	if _, err := inner.ExecContext(ctx, "SELECT 1 FROM sqlite_schema", nil); err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	logs := map[string]os.FileInfo{}
	for _, name := range []string{c.file.real + "-wal", c.file.real + "-shm"} {
		if is, err := os.Stat(name); err == nil {
			logs[name] = is
		}
	}
	return &fileConn{inner, c.file, logs}, nil
}

// fileConn is a connection of sameFile.
type fileConn struct {
	preparer
	file *sqliteFile
	logs map[string]os.FileInfo // of -wal and -shm; empty in another journal mode
}

// logGone reports whether -wal or -shm is no longer the file that the connection opened.
func (c *fileConn) logGone() bool {
	for name, is := range c.logs {
		now, err := os.Stat(name)
		if errors.Is(err, fs.ErrNotExist) || err == nil && !os.SameFile(is, now) {
			return true
		}
	}
	return false
}

// ResetSession is called before each use but the first. Instead of a connection that it refuses,
// database/sql opens one: its error says why.
func (c *fileConn) ResetSession(ctx context.Context) error {
	switch {
	case c.file.check() != nil:
		return driver.ErrBadConn
	case c.logGone():
		c.file.logGone.Store(true)
		return driver.ErrBadConn
	}
	return c.preparer.ResetSession(ctx)
}

// sqliteStatements is how many statements the connection keeps. The queue has about a hundred;
// those with lists of different lengths count as different ones.
const sqliteStatements = 300

// createSQLite creates a missing file. The file gets its name only when it has the schema, so a
// file without a schema is never one that is being created.
func createSQLite(ctx context.Context, cfg Config, opts []Option) error {
	if exists(cfg.Path) {
		return fileWritable(cfg.Path)
	}
	unlock, err := lockFile(ctx, cfg.Path+migrateLock)
	if err == nil {
		if !exists(cfg.Path) { // no other process made it meanwhile
			err = createUnderLock(ctx, cfg, opts)
		}
		err = errors.Join(err, unlock())
	}
	if err == nil || ctx.Err() != nil {
		return err
	}
	return cannotOpen(SQLite, cfg.Path, err, fixSQLite(cfg.Path, err))
}

func createUnderLock(ctx context.Context, cfg Config, opts []Option) error {
	made := Config{Driver: SQLite, Path: cfg.Path + ".new"}
	// These were left by a killed process, or belong to a deleted file: SQLite would apply the old
	// log to the new file.
	for _, left := range []string{
		made.Path, made.Path + "-wal", made.Path + "-shm",
		cfg.Path + "-wal", cfg.Path + "-shm",
	} {
		if err := os.Remove(left); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	db, err := OpenAnySchema(ctx, made, opts...)
	if err != nil {
		return err
	}
	_, err = db.migrateLocked(ctx, db.pool)
	if err = errors.Join(err, db.Close()); err != nil {
		return err
	}
	return os.Rename(made.Path, cfg.Path)
}

func exists(path string) bool {
	_, err := os.Lstat(path) // a link to nowhere is not replaced
	return !errors.Is(err, fs.ErrNotExist)
}

// migrateLock ends the name of the file that is locked while a migration runs.
const migrateLock = ".migrate-lock"

// writeAhead sets the journal mode, which stays in the file. Switching a new file meets the other
// processes that do the same.
func (db *DB) writeAhead(ctx context.Context) error {
	return db.retry(ctx, false, func() error {
		_, err := db.pool.ExecContext(ctx, "PRAGMA journal_mode = WAL")
		return err
	})
}

// createPrivate makes the file with mode 0600 unless it exists. It never opens an existing file:
// closing it would drop the POSIX locks that this process holds on it through SQLite.
func createPrivate(path string) error {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	if err != nil {
		return err
	}
	secret.GiveToDirectoryOwner(f)
	return f.Close()
}

// forReading is added to the URI for the connection of View, which has a small page cache, because
// it rarely reads a page twice.
const forReading = "&_query_only=1&_pragma=cache_size(-512)"

// sqliteURI is the file as a URI (https://www.sqlite.org/uri.html), so that a space, ?, # or % in
// the path is no syntax.
//
// synchronous=FULL: a commit that is lost after the relay's 250 is a message sent twice.
// txlock=immediate: a deferred transaction that reads and then writes fails with BUSY at once. The
// busy timeout is short because Tx tries again and, unlike SQLite's wait, can be cancelled.
// journal_size_limit: the log grows as long as somebody reads, and shrinks to 16 MiB afterwards.
func sqliteURI(abs string) string {
	path := filepath.ToSlash(abs)
	if !strings.HasPrefix(path, "/") {
		path = "/" + path // C:/x becomes file:///C:/x
	}
	u := url.URL{Scheme: "file", Path: path}
	u.RawQuery = "_busy_timeout=500&_synchronous=FULL&_foreign_keys=1" +
		"&_txlock=immediate&_time_format=sqlite&_timezone=UTC&_error_rc=1&mode=rw&_pragma=journal_size_limit(16777216)"
	return u.String()
}

// translatingDialector gives SQLite's constraint errors the names that gorm has for them: gorm's
// own translation knows only the cgo driver's error type.
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
