package db

import (
	"context"
	"database/sql/driver"
	"errors"
	"hash/maphash"

	mysqldriver "github.com/go-sql-driver/mysql"
)

// preparing opens connections that prepare what they run again: for a short statement, databases
// spend most of the time on reading it.
type preparing struct {
	driver.Connector
	most  int    // statements that a connection keeps
	begin string // how a transaction begins that writes; empty when the driver knows
}

// Connect opens one connection.
func (p preparing) Connect(ctx context.Context) (driver.Conn, error) {
	conn, err := p.Connector.Connect(ctx)
	if err != nil {
		return nil, err
	}
	inner, ok := conn.(preparer)
	if !ok {
		return nil, errors.Join(errors.New("the driver cannot prepare statements"), conn.Close())
	}
	return &preparedConn{
		preparer: inner, most: p.most, begin: p.begin, once: map[uint64]bool{}, ready: map[string]driver.Stmt{},
	}, nil
}

// preparer is what database/sql uses of the driver's connections.
type preparer interface {
	driver.Conn
	driver.ConnBeginTx
	driver.ConnPrepareContext
	driver.ExecerContext
	driver.QueryerContext
	driver.Pinger
	driver.SessionResetter
	driver.Validator
}

// preparedConn is a connection with the statements that it has prepared. Like all connections of
// drivers it is used by one goroutine at a time.
type preparedConn struct {
	preparer
	most  int
	begin string
	once  map[uint64]bool        // the hashes of the texts that ran once
	ready map[string]driver.Stmt // not in use, by their text
}

// maxOnce is how many texts a connection remembers. Most of what runs again does so soon.
const maxOnce = 500

var seed = maphash.MakeSeed()

// take returns a statement, which is the caller's until keep: while its rows are read, the same
// text may be run again. It is nil when the text runs for the first time, or the server has no room
// for one more. Any other error is returned, so that nothing follows it: on Galera another node may
// have undone the transaction.
func (c *preparedConn) take(ctx context.Context, query string) (preparedStmt, error) {
	if s, ok := c.ready[query]; ok {
		delete(c.ready, query)
		return s.(preparedStmt), nil
	}
	hash := maphash.String(seed, query)
	if !c.once[hash] {
		if len(c.once) == maxOnce {
			clear(c.once)
		}
		c.once[hash] = true
		return nil, nil
	}
	s, err := c.PrepareContext(ctx, query)
	var refused *mysqldriver.MySQLError
	switch {
	case errors.As(err, &refused) && refused.Number == 1461: // max_prepared_stmt_count
		return nil, nil
	case err != nil:
		return nil, err
	}
	return s.(preparedStmt), nil
}

type preparedStmt interface {
	driver.Stmt
	driver.StmtExecContext
	driver.StmtQueryContext
}

// keep takes a statement back. When there are too many, an arbitrary one is closed. That this failed
// is not told: the statement that ran has succeeded, and a connection that is lost shows with the
// next one.
func (c *preparedConn) keep(query string, s driver.Stmt) {
	if _, ok := c.ready[query]; ok {
		_ = s.Close()
		return
	}
	if len(c.ready) == c.most {
		for text, other := range c.ready {
			delete(c.ready, text)
			_ = other.Close()
			break
		}
	}
	c.ready[query] = s
}

// BeginTx begins a transaction that writes.
func (c *preparedConn) BeginTx(ctx context.Context, opts driver.TxOptions) (driver.Tx, error) {
	if c.begin == "" || opts != (driver.TxOptions{}) {
		return c.preparer.BeginTx(ctx, opts)
	}
	if _, err := c.ExecContext(ctx, c.begin, nil); err != nil {
		return nil, err
	}
	return preparedTx{c}, nil
}

// preparedTx is a transaction of a connection.
type preparedTx struct{ c *preparedConn }

// Commit ends the transaction also when it fails: database/sql expects that.
func (t preparedTx) Commit() error {
	_, err := t.c.ExecContext(context.Background(), "COMMIT", nil)
	if err != nil {
		_ = t.Rollback() // fails when SQLite has done it
	}
	return err
}

// Rollback takes the transaction back.
func (t preparedTx) Rollback() error {
	_, err := t.c.ExecContext(context.Background(), "ROLLBACK", nil)
	return err
}

// ExecContext runs a statement without rows.
func (c *preparedConn) ExecContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Result, error) {
	s, err := c.take(ctx, query)
	if err != nil {
		return nil, err
	}
	if s == nil {
		return c.preparer.ExecContext(ctx, query, args)
	}
	res, err := s.ExecContext(ctx, args)
	if err != nil {
		_ = s.Close() // it is prepared again
		return nil, err
	}
	c.keep(query, s)
	return res, nil
}

// QueryContext runs a statement with rows.
func (c *preparedConn) QueryContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Rows, error) {
	s, err := c.take(ctx, query)
	if err != nil {
		return nil, err
	}
	if s == nil {
		return c.preparer.QueryContext(ctx, query, args)
	}
	rows, err := s.QueryContext(ctx, args)
	if err != nil {
		_ = s.Close()
		return nil, err
	}
	return &preparedRows{rows.(typedRows), func() { c.keep(query, s) }}, nil
}

// CheckNamedValue has the driver convert an argument, if it does so.
func (c *preparedConn) CheckNamedValue(arg *driver.NamedValue) error {
	if inner, ok := c.preparer.(driver.NamedValueChecker); ok {
		return inner.CheckNamedValue(arg)
	}
	return driver.ErrSkip
}

// Close closes the statements and the connection.
func (c *preparedConn) Close() error {
	var err error
	for _, s := range c.ready {
		err = errors.Join(err, s.Close())
	}
	return errors.Join(err, c.preparer.Close())
}

// typedRows is what the driver's rows say of their columns; gorm asks for it.
type typedRows interface {
	driver.Rows
	driver.RowsColumnTypeDatabaseTypeName
	driver.RowsColumnTypeNullable
	driver.RowsColumnTypePrecisionScale
	driver.RowsColumnTypeScanType
}

// preparedRows gives the statement back when the rows are closed.
type preparedRows struct {
	typedRows
	done func()
}

// Close closes the rows.
func (r *preparedRows) Close() error {
	err := r.typedRows.Close()
	r.done()
	return err
}
