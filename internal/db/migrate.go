package db

import (
	"context"
	"database/sql"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"path"
	"time"

	"github.com/pressly/goose/v3"
	"github.com/pressly/goose/v3/database"
	"github.com/pressly/goose/v3/lock"
)

// migrator is what differs between the dialects in a migration.
type migrator struct {
	dialect goose.Dialect
	files   embed.FS
	dir     string // of the dialect, in files
	exists  string // the query that asks whether a table exists (%s); MySQL answers 1146 if not
	// pool opens the connections to migrate through.
	pool func() (*sql.DB, error)
	// lock keeps other hosts and processes out.
	lock func(ctx context.Context, pool *sql.DB) (func() error, error)
}

const (
	// Not goose's names: another program in the same database may use these.
	versionTable = "postrider_version"
	lockedTable  = "postrider_lock"

	sqlTableExistsSQLite = `SELECT EXISTS (SELECT 1 FROM sqlite_master WHERE name = '%s' COLLATE NOCASE)`
	// The information schema would hide the table from a user who may not read it.
	sqlTableExistsMySQL = `SELECT COUNT(*) >= 0 FROM %s WHERE 1 = 0`
)

// Applied is one migration that Migrate ran.
type Applied struct {
	Version  int64
	Name     string
	Duration time.Duration
}

// Migrate brings the schema up to date and reports the migrations that it ran, if any. It may run
// on several hosts at once, and again after it was killed: MySQL commits each DDL statement on its
// own, so every migration is repeatable. A schema newer than the binary is a *SchemaError.
func (db *DB) Migrate(ctx context.Context) (applied []Applied, err error) {
	defer func() {
		if newer := new(SchemaError); err != nil && !errors.As(err, &newer) {
			err = fmt.Errorf("migrate the %s database %s: %w", db.dialect, db.where, err)
			if isDenied(err) {
				err = fmt.Errorf("%w; %s", err, fixRights)
				return
			}
			err = db.explained(err)
		}
	}()
	pool, err := db.migrator.pool()
	if err != nil {
		return nil, err
	}
	if pool != db.pool {
		defer func() { _ = pool.Close() }()
	}
	unlock, err := db.migrator.lock(ctx, pool)
	if err != nil {
		return nil, fmt.Errorf("take the lock of migrations: %w", err)
	}
	defer func() { err = errors.Join(err, unlock()) }()
	return db.migrateLocked(ctx, pool)
}

// migrateLocked runs under the lock.
func (db *DB) migrateLocked(ctx context.Context, pool *sql.DB) ([]Applied, error) {
	current, latest, err := db.version(ctx)
	if err != nil {
		return nil, err
	}
	if current > latest {
		return nil, db.SchemaError(current, latest)
	}
	if err := db.migrator.prepare(ctx, pool); err != nil {
		return nil, err
	}
	provider, err := db.migrator.provider(pool)
	if err != nil {
		return nil, err
	}
	results, err := provider.Up(ctx)
	var applied []Applied
	for _, r := range results {
		name := path.Base(r.Source.Path)
		applied = append(applied, Applied{Version: r.Source.Version, Name: name, Duration: r.Duration})
	}
	return applied, err
}

// Version reports the schema's version, 0 when there is none, and the latest that this binary
// knows. A user who may not read it gets a *RightsError.
func (db *DB) Version(ctx context.Context) (current, latest int64, err error) {
	current, latest, err = db.version(ctx)
	return current, latest, db.explained(err)
}

func (db *DB) version(ctx context.Context) (current, latest int64, err error) {
	provider, err := db.migrator.provider(db.pool)
	if err != nil {
		return 0, 0, err
	}
	sources := provider.ListSources()
	err = db.retry(ctx, false, func() error {
		current, err = db.migrator.current(ctx, db.pool)
		return err
	})
	if isDenied(err) {
		denied := &RightsError{Where: db.where, Missing: []string{"SELECT"}, Tables: []string{versionTable}}
		return 0, 0, denied.withGrant(db.gorm.WithContext(ctx))
	}
	if err != nil {
		return 0, 0, fmt.Errorf("read the schema version of the %s database %s: %w", db.dialect, db.where, err)
	}
	return current, sources[len(sources)-1].Version, nil
}

// provider is goose over the dialect's files.
func (m migrator) provider(pool *sql.DB) (*goose.Provider, error) {
	files, err := fs.Sub(m.files, m.dir)
	if err != nil {
		return nil, err
	}
	return goose.NewProvider(m.dialect, pool, files, goose.WithTableName(versionTable),
		goose.WithDisableGlobalRegistry(true), goose.WithLogger(goose.NopLogger()))
}

// current reads the version without creating anything. On a Galera node that is not ready BEGIN
// fails with the reason.
func (m migrator) current(ctx context.Context, pool *sql.DB) (int64, error) {
	tx, err := pool.BeginTx(ctx, &sql.TxOptions{ReadOnly: true}) // on SQLite not IMMEDIATE
	if err != nil {
		return 0, err
	}
	defer func() { _ = tx.Rollback() }()
	if exists, err := m.hasTable(ctx, tx, versionTable); err != nil || !exists {
		return 0, err
	}
	store, err := database.NewStore(m.dialect, versionTable)
	if err != nil {
		return 0, err
	}
	version, err := store.GetLatestVersion(ctx, tx)
	if errors.Is(err, database.ErrVersionNotFound) { // killed before the first row was inserted
		return 0, nil
	}
	return version, err
}

func (m migrator) hasTable(ctx context.Context, conn database.DBTxConn, name string) (exists bool, err error) {
	err = conn.QueryRowContext(ctx, fmt.Sprintf(m.exists, name)).Scan(&exists)
	if serverError(err) == 1146 { // no such table
		return false, nil
	}
	return exists, err
}

// prepare completes the version table. goose creates it before the lock is taken, and does not add
// the first row to an empty table, which a kill between two statements leaves behind on MySQL.
func (m migrator) prepare(ctx context.Context, pool *sql.DB) error {
	store, err := database.NewStore(m.dialect, versionTable)
	if err != nil {
		return err
	}
	exists, err := m.hasTable(ctx, pool, versionTable)
	if err != nil {
		return err
	}
	if !exists {
		if err := m.unused(ctx, pool); err != nil {
			return err
		}
		if err := store.CreateVersionTable(ctx, pool); err != nil {
			return err
		}
	}
	_, err = store.GetMigration(ctx, pool, 0)
	if errors.Is(err, database.ErrVersionNotFound) {
		err = store.Insert(ctx, pool, database.InsertRequest{Version: 0})
	}
	return err
}

// unused refuses a database that already has one of the tables to be created, because it belongs to
// another program.
func (m migrator) unused(ctx context.Context, pool *sql.DB) error {
	names, err := m.tables()
	if err != nil {
		return err
	}
	for _, name := range names {
		exists, err := m.hasTable(ctx, pool, name)
		if err != nil {
			return err
		}
		if exists {
			return fmt.Errorf("the table %s is there, but not %s: it is another program's, "+
				"or the schema is not complete; "+
				"give postrider an empty database of its own, or restore the backup", name, versionTable)
		}
	}
	return nil
}

// lockTable takes goose's lock by writing a row, so only one of two nodes of a Galera cluster gets
// it. After a migration was killed, the next one waits for the rest of its lease.
func lockTable(ctx context.Context, pool *sql.DB) (func() error, error) {
	locker, err := lock.NewMySQLTableLocker(
		lock.WithTableName(lockedTable),
		lock.WithTableLeaseDuration(10*time.Second),
		lock.WithTableHeartbeatInterval(2*time.Second),
		// Ten minutes: the other migration may change a large table.
		lock.WithTableLockTimeout(500*time.Millisecond, 1200),
		lock.WithTableUnlockTimeout(500*time.Millisecond, 20),
		// The locker has no error value for "held by another".
		lock.WithTableRetryPolicy(func(err error) bool {
			kind := classify(err)
			return serverError(err) == 0 || kind == contention || kind == outage
		}),
		lock.WithTableLogger(slog.New(slog.DiscardHandler)),
	)
	if err != nil {
		return nil, err
	}
	// The policy does not hold for making the table of the lock, in which nodes of a cluster may
	// conflict.
	for attempt := 0; ; attempt++ {
		err := locker.Lock(ctx, pool)
		if err == nil {
			return func() error { return locker.Unlock(ctx, pool) }, nil
		}
		switch kind := classify(err); {
		case ctx.Err() != nil:
			return nil, err
		case kind == unwritable, kind == detached, kind == outage:
			return nil, fmt.Errorf("%w; %s", err, fixMySQL(err))
		case kind != contention || attempt == 10:
			return nil, err
		}
		time.Sleep(backoff(attempt))
	}
}
