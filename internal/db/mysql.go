package db

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	mysqldriver "github.com/go-sql-driver/mysql"
	gormmysql "gorm.io/driver/mysql"
	"gorm.io/gorm"

	"postrider/migrations"
)

// openMySQL connects to MySQL or MariaDB.
func (db *DB) openMySQL(ctx context.Context, given Config) (gorm.Dialector, error) {
	db.dialect = MySQL
	cfg, err := parseDSN(given)
	if err != nil {
		return nil, err
	}
	db.where = serverName(cfg)
	if db.pool, err = mysqlPool(cfg); err != nil {
		return nil, err
	}
	pool := db.pool
	if err := greet(ctx, pool); err != nil {
		_ = pool.Close()
		return nil, db.unreachable(err)
	}
	db.migrator = migrator{
		dialect: "mysql", files: migrations.MySQL, dir: "mysql", exists: sqlTableExistsMySQL,
		pool: func() (*sql.DB, error) { return migrationPool(cfg) }, lock: lockTable,
	}
	return gormmysql.New(gormmysql.Config{
		Conn: pool, DSNConfig: cfg,
		DisableWithReturning:      true, // with it a duplicate under DoNothing looks inserted
		SkipInitializeWithVersion: true, // what depends on it is not used
	}), nil
}

const (
	greetFor   = 30 * time.Second // for a server that accepts connections and stays silent
	replaceFor = 2 * time.Second  // for connections that break, as while a cluster elects a primary
)

// greet makes sure that a supported server answers within greetFor. If the server cannot be
// reached, it does not try again; a connection that breaks is replaced, for up to replaceFor.
func greet(ctx context.Context, pool *sql.DB) error {
	limited, cancel := context.WithTimeout(ctx, greetFor)
	defer cancel()
	start := time.Now()
	for attempt := 0; ; attempt++ {
		err := pool.PingContext(limited)
		if err == nil {
			err = checkServer(limited, pool)
		}
		if err != nil && time.Since(start) >= greetFor && ctx.Err() == nil {
			return fmt.Errorf("the server did not answer within %s: %w", greetFor, os.ErrDeadlineExceeded)
		}
		var op *net.OpError
		unreachable := errors.As(err, &op) && op.Op == "dial" && !errors.Is(err, syscall.ECONNRESET)
		if err == nil || unreachable || !Transient(err) || time.Since(start) > replaceFor || ctx.Err() != nil {
			return err
		}
		select {
		case <-time.After(backoff(attempt)):
		case <-ctx.Done():
			return err
		}
	}
}

// parseDSN reads the user's DSN. Whatever it says, parseDSN sets all that postrider's promises
// depend on. A DSN that cannot be read is a *DSNError.
func parseDSN(given Config) (cfg *mysqldriver.Config, err error) {
	defer func() {
		if recover() != nil { // the driver panics on the parameter "strict"
			cfg, err = nil, &DSNError{"has a parameter that the driver refuses"}
		}
	}()
	if strings.TrimSpace(given.DSN) == "" {
		return nil, &DSNError{"is empty"}
	}
	cfg, err = mysqldriver.ParseDSN(given.DSN)
	switch {
	case err != nil && strings.HasPrefix(err.Error(), "invalid DSN: "): // fixed texts of the driver
		return nil, &DSNError{"cannot be read: " + strings.TrimPrefix(err.Error(), "invalid DSN: ")}
	case err != nil:
		return nil, &DSNError{"has a part that cannot be read (the network, the database or a parameter)"}
	case cfg.DBName == "":
		return nil, &DSNError{"names no database"}
	}
	if err := secureTransport(cfg, given.TLS, given.RootCAs); err != nil {
		return nil, err
	}
	return cfg, secureConfig(cfg)
}

// CheckDSN returns a *DSNError if the driver would refuse the DSN.
func CheckDSN(dsn string) error {
	_, err := parseDSN(Config{DSN: dsn})
	return err
}

// secureConfig sets the parts of the DSN that are dangerous if set otherwise.
func secureConfig(cfg *mysqldriver.Config) error {
	cfg.ParseTime, cfg.Loc = true, time.UTC
	cfg.MaxAllowedPacket = 0 // the server's
	cfg.Timeout, cfg.ReadTimeout, cfg.WriteTimeout = 10*time.Second, 30*time.Second, 30*time.Second
	cfg.ClientFoundRows = true   // an UPDATE to the same value is still "the row was there"
	cfg.InterpolateParams = true // one round trip a statement instead of two; safe with utf8mb4
	cfg.RejectReadOnly = false   // after a failover Tx connects again, and keeps the reason
	cfg.CheckConnLiveness = true
	cfg.MultiStatements, cfg.AllowAllFiles, cfg.ColumnsWithAlias = false, false, false
	cfg.Logger = &mysqldriver.NopLogger{} // errors are returned, nothing is printed beside them
	// A server does not tell SQL_MODE from sql_mode.
	params := map[string]string{}
	for name, value := range cfg.Params {
		params[strings.ToLower(name)] = value
	}
	cfg.Params = params
	for _, name := range []string{"tx_isolation", "transaction_isolation", "tx_read_only", "transaction_read_only"} {
		delete(cfg.Params, name) // set by connector
	}
	delete(cfg.Params, "max_join_size") // it sets sql_big_selects
	for name, value := range map[string]string{
		"time_zone": "'+00:00'",
		"sql_mode": "'STRICT_ALL_TABLES,NO_ZERO_DATE,NO_ZERO_IN_DATE,ERROR_FOR_DIVISION_BY_ZERO," +
			"NO_ENGINE_SUBSTITUTION'",
		"autocommit":               "1",
		"default_storage_engine":   "InnoDB", // of the tables that goose makes; Galera replicates no other
		"foreign_key_checks":       "1",
		"unique_checks":            "1",
		"completion_type":          "0",
		"sql_select_limit":         "18446744073709551615",
		"sql_big_selects":          "1", // whatever max_join_size is
		"sql_safe_updates":         "0",
		"innodb_lock_wait_timeout": "10", // below ReadTimeout: the server's answer comes first
		"wait_timeout":             "30", // a host that froze loses its locks before others give up
	} {
		cfg.Params[name] = value
	}
	// A binary collation compares literals as they are; columns keep their own.
	return cfg.Apply(mysqldriver.Charset("utf8mb4", "utf8mb4_bin"), mysqldriver.TimeTruncate(time.Microsecond))
}

// serverName is the server without user and password, for messages.
func serverName(cfg *mysqldriver.Config) string {
	if cfg.Net == "tcp" {
		return cfg.Addr + "/" + cfg.DBName
	}
	return fmt.Sprintf("%s(%s)/%s", cfg.Net, cfg.Addr, cfg.DBName)
}

// mysqlPool opens no connection yet.
func mysqlPool(cfg *mysqldriver.Config) (*sql.DB, error) {
	c, err := newConnector(cfg)
	if err != nil {
		return nil, err
	}
	pool := sql.OpenDB(preparing{c, mysqlStatements, ""})
	pool.SetMaxOpenConns(mysqlConns)
	pool.SetMaxIdleConns(mysqlConns)
	pool.SetConnMaxIdleTime(15 * time.Second) // below wait_timeout
	pool.SetConnMaxLifetime(5 * time.Minute)
	return pool, nil
}

const (
	mysqlConns      = 16  // at most, and kept
	mysqlStatements = 100 // that each keeps; by default a server has 16,382 for all its clients
)

// migrationPool has no read timeout: changing a large table takes as long as it takes.
func migrationPool(cfg *mysqldriver.Config) (*sql.DB, error) {
	slow := cfg.Clone()
	slow.ReadTimeout = 0
	return mysqlPool(slow)
}

// connector sets what every new connection needs, once instead of in every transaction.
type connector struct {
	driver.Connector
	patience     time.Duration // with opening a connection
	withoutWsrep atomic.Bool   // the server does not know Galera
}

func newConnector(cfg *mysqldriver.Config) (*connector, error) {
	inner, err := mysqldriver.NewConnector(cfg)
	if err != nil {
		return nil, &DSNError{"cannot be used: its parameter serverPubKey names nothing known"}
	}
	return &connector{Connector: inner, patience: handshakePatience}, nil
}

const (
	// The variable for the isolation level differs between MySQL and MariaDB; this statement does
	// not.
	sqlReadCommitted = "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED, READ WRITE"
	// With 7, BEGIN and every statement that reads or writes wait until this Galera node has
	// applied what any node has committed before. Without it, behind a balancer, the next statement
	// may go to a node that does not know of the last one. MariaDB without Galera has the variable,
	// too; it does nothing there.
	sqlSyncWait = "SET SESSION wsrep_sync_wait = 7"
)

// Connect opens one connection.
func (c *connector) Connect(ctx context.Context) (driver.Conn, error) {
	conn, err := c.open(ctx)
	if err != nil {
		return nil, err
	}
	if err := c.prepare(ctx, conn.(driver.ExecerContext)); err != nil {
		_ = conn.Close()
		return nil, fmt.Errorf("set up the connection: %w", err)
	}
	return conn, nil
}

func (c *connector) prepare(ctx context.Context, conn driver.ExecerContext) error {
	if _, err := conn.ExecContext(ctx, sqlReadCommitted, nil); err != nil || c.withoutWsrep.Load() {
		return err
	}
	_, err := conn.ExecContext(ctx, sqlSyncWait, nil)
	if serverError(err) == 1193 { // unknown system variable
		c.withoutWsrep.Store(true)
		return nil
	}
	return err
}

// checkServer refuses servers that lack SKIP LOCKED, which claims need: MySQL before 8.0, MariaDB
// before 10.6.
func checkServer(ctx context.Context, pool *sql.DB) error {
	var name, version string // by SHOW: a Galera node that is not ready answers it, too
	if err := pool.QueryRowContext(ctx, "SHOW VARIABLES LIKE 'version'").Scan(&name, &version); err != nil {
		return err
	}
	if !supported(version) {
		return &tooOldError{version}
	}
	return nil
}

// supported reads versions like 9.7.4-2, 10.11.19-MariaDB-0+deb12u1 and 5.5.5-10.4.34-MariaDB. A
// version that it cannot read counts as supported.
func supported(version string) bool {
	major, minor := 8, 0
	if strings.Contains(version, "MariaDB") {
		version = strings.TrimPrefix(version, "5.5.5-") // put there for clients that know only MySQL
		major, minor = 10, 6
	}
	var have, haveMinor int
	if n, _ := fmt.Sscanf(version, "%d.%d", &have, &haveMinor); n < 2 {
		return true
	}
	return have > major || have == major && haveMinor >= minor
}

// tooOldError is a server that this version of postrider cannot work with.
type tooOldError struct{ version string }

func (e *tooOldError) Error() string { return "the server is version " + e.version }
