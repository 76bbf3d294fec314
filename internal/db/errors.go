package db

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	modernc "modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"postrider/internal/secret"
	"postrider/internal/text"
)

// MissingError is an SQLite file that is not there.
type MissingError struct {
	Path string
	Link bool // a symbolic link to it is there
}

// Error says what to do if the file was there before, and what creates it otherwise.
func (e *MissingError) Error() string {
	if e.Link {
		return fmt.Sprintf("the database file %s is a link to a file that is not there; "+
			"mount its disk, or correct the link", e.Path)
	}
	return fmt.Sprintf("there is no database file %s; if there was one, "+
		"restore it, mount its disk, or correct database.path; "+
		"in a new installation `postrider inbox add ADDR` creates it", e.Path)
}

// UnavailableError means that a transaction was given up because the database does not answer, or
// does not accept writes. Later transactions fail in the same way, without waiting, until the
// database is back.
type UnavailableError struct {
	Driver string // SQLite or MySQL
	Where  string // the file, or host:port/database
	How    string // for how long it was tried
	Fix    string // what to do about it
	Err    error
}

// Error names the database, the reason and the fix.
func (e *UnavailableError) Error() string {
	return fmt.Sprintf("the %s database %s is not available, %s: %v; %s", e.Driver, e.Where, e.How, e.Err, e.Fix)
}

// Unwrap returns the reason.
func (e *UnavailableError) Unwrap() error { return e.Err }

func (db *DB) unavailable(err error) error {
	how := fmt.Sprintf("tried for %s", db.retryFor)
	if db.outage.isStopped() {
		how = "and this process was asked to stop"
	}
	return &UnavailableError{Driver: db.dialect, Where: db.where, How: how, Fix: db.fix(err), Err: err}
}

// SchemaError is a schema that is not the one this binary knows.
type SchemaError struct {
	Driver, Where   string // as in UnavailableError
	Current, Latest int64  // the database's version, and the binary's
}

// SchemaError is for a database whose version is not the latest.
func (db *DB) SchemaError(current, latest int64) error {
	return &SchemaError{Driver: db.dialect, Where: db.where, Current: current, Latest: latest}
}

// Error says which side is behind, and what to do.
func (e *SchemaError) Error() string {
	switch {
	case e.Current > e.Latest:
		return fmt.Sprintf("the schema of database %s has version %d, "+
			"and this binary knows only version %d: upgrade postrider", e.Where, e.Current, e.Latest)
	case e.Current == 0 && e.Driver == SQLite:
		return fmt.Sprintf("the database file %s exists but has no tables of postrider: "+
			"it was emptied, or is not postrider's; "+
			"restore it from a backup, or run `postrider migrate` to start with an empty registry: "+
			"then each inbox begins at its --start again, and that mail is forwarded again", e.Where)
	case e.Current == 0:
		return fmt.Sprintf("the database %s has no tables of postrider; if it had, "+
			"restore it from a backup, or correct database.dsn; "+
			"in a new installation `postrider migrate` creates them", e.Where)
	}
	return fmt.Sprintf("the schema of database %s has version %d and this postrider needs %d; run `postrider migrate`",
		e.Where, e.Current, e.Latest)
}

// DSNError is a database.dsn that cannot be used. It quotes no part of the DSN, because a mistake
// in it may turn the password into any other part.
type DSNError struct {
	Problem string // what is wrong, after "database.dsn"
}

// Error says what is wrong and how to write it.
func (e *DSNError) Error() string {
	return "database.dsn " + e.Problem + "; write it as user:password@tcp(host:3306)/database"
}

// unreachable wraps an error of opening with the fix.
func (db *DB) unreachable(err error) error {
	if errors.Is(err, context.Canceled) {
		return fmt.Errorf("open the %s database %s: %w", db.dialect, db.where, err)
	}
	return cannotOpen(db.dialect, db.where, err, db.fix(err))
}

func cannotOpen(driver, where string, err error, fix string) error {
	return fmt.Errorf("cannot open the %s database %s: %w; %s", driver, where, err, fix)
}

func (db *DB) fix(err error) string {
	if db.dialect == SQLite {
		return fixSQLite(db.where, err)
	}
	return fixMySQL(err)
}

// explained adds the fix, if one is known, to the error of a statement that would fail again.
func (db *DB) explained(err error) error {
	fix := ""
	if classify(err) == permanent {
		fix = cmp.Or(fixFile(err), fixServer(err))
	}
	if sqliteError(err) == sqlite3.SQLITE_READONLY {
		fix = fixSQLite(db.where, err)
	}
	if fix == "" {
		return err
	}
	return fmt.Errorf("%w; %s", err, fix)
}

func fixSQLite(path string, err error) string {
	if fix := fixFile(err); fix != "" {
		return fix
	}
	if classify(err) == unwritable {
		return "another program holds it: end that program, or try again"
	}
	dir := directory(path)
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Sprintf("create the directory %s, or change database.path", dir)
	}
	if fix := fixWrite(path); fix != "" {
		return fix
	}
	fix := fmt.Sprintf("make sure that this user can write the file and the directory %s, or change database.path", dir)
	if sqliteError(err) == sqlite3.SQLITE_CANTOPEN { // SQLite does not say why
		fix += "; if too many files are open, " + text.RaiseFiles
	}
	return fix
}

// directory is the file's directory, as an absolute path if that is known.
func directory(path string) string {
	if abs, err := filepath.Abs(path); err == nil {
		path = abs
	}
	return filepath.Dir(path)
}

// fixWrite is what to do about files of the database that this user cannot write (including its
// lock and its directory); empty if there are none.
func fixWrite(path string) string {
	var denied []string
	for _, name := range []string{path, path + "-wal", path + "-shm", path + migrateLock, directory(path)} {
		switch err := mayWrite(name); {
		case errors.Is(err, syscall.EROFS):
			return fmt.Sprintf("%s is on a read-only file system: mount it writable, in a sandbox of systemd add "+
				"ReadWritePaths=%s, or change database.path", name, directory(path))
		case errors.Is(err, fs.ErrPermission):
			denied = append(denied, name)
		}
	}
	if dir := directory(path); denied == nil || slices.Contains(denied, dir) && !isMine(dir) && !holdsOnly(path) {
		return ""
	}
	return secret.FixAccess(denied...)
}

// holdsOnly reports whether the directory contains nothing but the database. This user should not
// own any other directory, such as /var/lib.
func holdsOnly(path string) bool {
	entries, err := os.ReadDir(filepath.Dir(path))
	return err == nil && !slices.ContainsFunc(entries, func(e os.DirEntry) bool {
		return !strings.HasPrefix(e.Name(), filepath.Base(path))
	})
}

// FileWritable returns an error if this user cannot write the SQLite file.
func (db *DB) FileWritable() error {
	if db.dialect != SQLite {
		return nil
	}
	return fileWritable(db.where)
}

func fileWritable(path string) error {
	for _, end := range []string{"", "-wal", "-shm"} {
		if err := mayWrite(path + end); err != nil && !errors.Is(err, fs.ErrNotExist) {
			err = fmt.Errorf("this user cannot write %s: %w", path+end, err)
			return cannotOpen(SQLite, path, err, fixSQLite(path, err))
		}
	}
	return nil
}

// restoreFile is how to restore an SQLite file: an old log would be applied to the copy.
const restoreFile = "stop postrider, delete the -wal and -shm beside it, and restore it from a copy"

// fixFile is what to do about a damaged file or disk; empty for other errors.
func fixFile(err error) string {
	if fix := text.NoFiles(err); fix != "" {
		return fix
	}
	code := sqliteError(err)
	switch {
	case isShort(err):
		return "its -wal was deleted while another process had it open: stop every process of postrider, " +
			"then run it again; or its disk is failing"
	case code == sqlite3.SQLITE_NOTADB, code == sqlite3.SQLITE_CORRUPT:
		return "the file is damaged or not a database: " + restoreFile + "; or set database.path to another file"
	case code == sqlite3.SQLITE_IOERR, code == sqlite3.SQLITE_FULL,
		errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT), errors.Is(err, syscall.EIO):
		return "check whether its disk is full or failing (df); nothing that was committed is lost"
	}
	return ""
}

// isShort reports that a file ends too early: a log that was deleted and created again, while -shm
// still indexes the old one.
func isShort(err error) bool {
	e, ok := errors.AsType[*modernc.Error](err)
	return ok && e.Code() == sqlite3.SQLITE_IOERR_SHORT_READ
}

func fixMySQL(err error) string {
	if fix := text.NoFiles(err); fix != "" {
		return fix
	}
	if errors.As(err, new(*tooOldError)) {
		return "upgrade it to MySQL 8.0 or MariaDB 10.6"
	}
	if fix := fixTLS(err); fix != "" {
		return fix
	}
	switch classify(err) {
	case detached:
		return "this Galera node is not part of the cluster now, or not ready: " +
			"see SHOW GLOBAL STATUS LIKE 'wsrep_%' on it, " +
			"and let database.dsn lead to a node whose wsrep_cluster_status is Primary"
	case unwritable:
		return "the server is read-only: it is a replica, or a primary that was demoted; " +
			"let database.dsn lead to the primary"
	}
	if fix := fixServer(err); fix != "" {
		return fix
	}
	if serverError(err) != 0 {
		return "see the server's message"
	}
	return "check that the server is up and that host and port in database.dsn are right"
}

// fixRights is for a user who may not open the database, or not migrate it.
const fixRights = "grant the user of database.dsn all privileges on that database"

// fixServer is what to do about an error of the server; empty when it is not known.
func fixServer(err error) string {
	switch serverError(err) {
	case 1045, 1698: // access denied
		return "check the user and the password in database.dsn"
	case 1044: // access denied to the database
		return fixRights
	case 1142, 1143: // access denied to a table, or to a column of it
		return "see `postrider check` for the missing GRANT"
	case 1049: // unknown database
		return "create the database (CREATE DATABASE ... CHARACTER SET utf8mb4), or correct its name in database.dsn"
	case 1146: // no such table
		return "the schema is not complete: restore the backup; without one, " +
			"run `postrider migrate` in an empty database, " +
			"where each inbox begins at its --start again"
	case 1130: // host not allowed
		return "allow this host's address for the user of database.dsn on the server"
	case 1040, 1203:
		return "raise the server's max_connections, or try again later"
	case 1226: // max_user_connections, or a limit of an hour
		return "raise this limit of the user of database.dsn on the server, or try again later"
	case 2003, 9001:
		return "the proxy of database.dsn reaches no server: check that the server behind it is up"
	case 1021, 1114: // disk full, table is full
		return "check whether the disk of the database server is full (df); nothing that was committed is lost"
	case 1665:
		return "set the server's binlog_format to ROW or MIXED"
	case 3159: // require_secure_transport
		return "set database.tls to verify, require or a file"
	case 3032:
		return "the server is in offline_mode: end that, or let database.dsn lead to the primary"
	}
	return ""
}
