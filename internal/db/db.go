// Package db opens postrider's database, keeps its schema current and retries its transactions.
//
// One code path serves SQLite, MySQL, MariaDB and Galera: what would make them behave differently
// (time zone, isolation, limits, timeouts, wsrep_sync_wait) is set here, whatever the DSN says.
// Open refuses a schema that this binary does not know (*SchemaError) and a database that does not
// answer; both errors name the fix and never a password. SQLite migrates itself in Open, MySQL only
// in Migrate, because other hosts may still run an older binary.
//
// Tx and View run their function again from the start after a deadlock, a lock timeout, a busy file
// or a lost connection, even if it is unknown whether the COMMIT succeeded. So a function given to
// Tx has to look up the keys that it writes, and its only effect outside of the transaction may be
// to assign its results. While the database is unavailable, all transactions of a DB share one
// minute of waiting (outage.go); then each fails at once (*UnavailableError) until the database is
// back. If the database can only be read, this applies only to writes, and View still works.
//
// On Galera, SELECT ... FOR UPDATE locks a row on one node only, so an operation that must be
// exclusive changes a row. On MySQL the rows affected by an UPDATE are the rows matched, whether or
// not they changed. Inside Tx or View, use only the given handle. SQLite has one connection for Tx
// and one for View, so that readers do not block writers: Tx inside Tx deadlocks, and View inside
// Tx does not see what that transaction wrote.
package db

import (
	"context"
	"crypto/x509"
	"database/sql"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"gorm.io/gorm"
	"gorm.io/gorm/logger"
)

// The dialects, as Dialect reports them and Config.Driver names them.
const (
	SQLite = "sqlite"
	MySQL  = "mysql" // MariaDB too
)

// Config says which database to open.
type Config struct {
	Driver string // SQLite or MySQL
	Path   string // SQLite: the file
	DSN    string // MySQL: user:password@tcp(host:3306)/database
	TLS    string // MySQL: TLSNone, TLSRequire or TLSVerify; empty for what fits the host
	// RootCAs are the issuers that TLSVerify trusts; nil for the system's.
	RootCAs *x509.CertPool
	// Existing makes a missing SQLite file a *MissingError, for commands that add nothing: if a
	// lost file were replaced by a new one, there would be no inboxes, and every pass would
	// succeed.
	Existing bool
}

// DB is an open database. It is safe for concurrent use.
type DB struct {
	gorm     *gorm.DB
	pool     *sql.DB
	readers  *sql.DB     // SQLite: for View; else nil
	file     *sqliteFile // SQLite; else nil
	dialect  string
	where    string // for messages: the file, or host:port/database
	migrator migrator
	now      func() time.Time
	retryFor time.Duration
	probe    func(context.Context) error
	outage   outages
	wrap     func(gorm.ConnPool) gorm.ConnPool
	viewPool gorm.ConnPool // of View

	asked atomic.Pointer[serverTime] // for AboutNow

	commits, committing atomic.Int64 // how many, and nanoseconds
}

// Option changes how a database is opened.
type Option func(*DB)

// WithNow replaces the host's clock, which is the database's clock on SQLite.
func WithNow(now func() time.Time) Option { return func(db *DB) { db.now = now } }

// WithRetryFor sets how long Tx and View try again; the default is 60 s.
func WithRetryFor(d time.Duration) Option { return func(db *DB) { db.retryFor = d } }

// WithPool runs all statements through what wrap returns, so that a test can count them.
func WithPool(wrap func(gorm.ConnPool) gorm.ConnPool) Option { return func(db *DB) { db.wrap = wrap } }

// Open connects and makes sure that the schema is the one that this binary knows: a missing SQLite
// file is created unless cfg.Existing is set, an older one is migrated, and any other difference is
// a *SchemaError. So is an SQLite file without postrider's tables: starting again in a file that
// lost its content would forward all mail again.
func Open(ctx context.Context, cfg Config, opts ...Option) (*DB, error) {
	if cfg.Driver == SQLite && cfg.Path != "" && !cfg.Existing {
		if err := createSQLite(ctx, cfg, opts); err != nil {
			return nil, err
		}
		cfg.Existing = true
	}
	db, err := OpenAnySchema(ctx, cfg, opts...)
	if err != nil {
		return nil, err
	}
	if err := db.checkSchema(ctx); err != nil {
		_ = db.Close()
		return nil, err
	}
	return db, nil
}

// OpenAnySchema connects to a database whose schema may be missing, older or newer, for Migrate and
// Version. A missing SQLite file is created, empty, unless cfg.Existing is set.
func OpenAnySchema(ctx context.Context, cfg Config, opts ...Option) (*DB, error) {
	db := &DB{now: time.Now, retryFor: time.Minute, wrap: func(pool gorm.ConnPool) gorm.ConnPool { return pool }}
	db.outage.stopped = make(chan struct{})
	db.probe = func(ctx context.Context) error { return db.pool.PingContext(ctx) }
	for _, opt := range opts {
		opt(db)
	}
	var dialector gorm.Dialector
	var err error
	switch cfg.Driver {
	case SQLite:
		dialector, err = db.openSQLite(ctx, cfg)
	case MySQL:
		dialector, err = db.openMySQL(ctx, cfg)
	default:
		err = fmt.Errorf("database.driver is %q; use %s or %s", cfg.Driver, SQLite, MySQL)
	}
	if err != nil {
		return nil, err
	}
	db.gorm, err = gorm.Open(dialector, &gorm.Config{
		SkipDefaultTransaction: true,
		TranslateError:         true,
		DisableAutomaticPing:   true,
		Logger:                 logger.Discard,
		NowFunc:                func() time.Time { return db.now().UTC() },
	})
	if err != nil {
		_ = db.Close()
		return nil, db.unreachable(err)
	}
	db.gorm.ConnPool = db.wrap(db.gorm.ConnPool)
	db.gorm.Statement.ConnPool = db.gorm.ConnPool
	if db.viewPool = db.gorm.ConnPool; db.readers != nil {
		db.viewPool = db.wrap(db.readers)
	}
	return db, nil
}

// checkSchema does what Open promises about the schema.
func (db *DB) checkSchema(ctx context.Context) error {
	current, latest, err := db.Version(ctx)
	if err != nil {
		return err
	}
	if db.dialect == SQLite && 0 < current && current < latest {
		if _, err := db.Migrate(ctx); err != nil {
			return err
		}
		current = latest
	}
	if current != latest {
		return db.SchemaError(current, latest)
	}
	if db.dialect == SQLite {
		return db.writeAhead(ctx) // a copy that was restored may lack it
	}
	return nil
}

// Close closes all connections.
func (db *DB) Close() error {
	if db.readers == nil {
		return db.pool.Close()
	}
	return errors.Join(db.readers.Close(), db.pool.Close())
}

// Dialect is SQLite or MySQL; MariaDB is MySQL.
func (db *DB) Dialect() string { return db.dialect }

// Where is the file, or the server and the database in it, without user and password.
func (db *DB) Where() string { return db.where }

// Now is the database's clock, to the microsecond, in UTC: the server's, so that leases set by
// several hosts compare, and on SQLite the host's. tx is the handle that Tx or View gave.
func (db *DB) Now(tx *gorm.DB) (time.Time, error) {
	if db.dialect == SQLite {
		return db.now().UTC().Truncate(time.Microsecond), nil
	}
	var micros int64
	if err := tx.Raw(sqlServerNow).Scan(&micros).Error; err != nil {
		return time.Time{}, fmt.Errorf("ask the database for its time: %w", err)
	}
	return time.UnixMicro(micros).UTC(), nil
}

// Clock is Now outside a transaction.
func (db *DB) Clock(ctx context.Context) (now time.Time, err error) {
	err = db.View(ctx, func(tx *gorm.DB) error {
		now, err = db.Now(tx)
		return err
	})
	return now, err
}

// AboutNow is Now within milliseconds, most of the time without a query: a server is asked once a
// second, and the time since is added to its answer. It is for recording when something happened.
// For the beginning and the end of a lease, use Now.
func (db *DB) AboutNow(tx *gorm.DB) (time.Time, error) {
	if db.dialect == SQLite {
		return db.Now(tx)
	}
	if last := db.asked.Load(); last != nil && time.Since(last.at) < askEvery {
		return last.now.Add(time.Since(last.at)).Truncate(time.Microsecond), nil
	}
	now, err := db.Now(tx)
	if err == nil {
		db.asked.Store(&serverTime{now, time.Now()})
	}
	return now, err
}

// askEvery is how often a server is asked for AboutNow.
const askEvery = time.Second

// serverTime is what a server answered, and when.
type serverTime struct{ now, at time.Time }

// sqlServerNow does not depend on time zones: both functions go through the session's, which is
// UTC.
const sqlServerNow = `SELECT CAST(UNIX_TIMESTAMP(CURRENT_TIMESTAMP(6)) * 1000000 AS SIGNED)`
