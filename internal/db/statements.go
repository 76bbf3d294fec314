package db

import (
	"context"
	"database/sql/driver"
	"errors"
)

// preparing opens connections that prepare each statement once: for a short statement, SQLite
// spends most of the time on compiling it.
type preparing struct{ driver.Connector }

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
	return &preparedConn{preparer: inner, ready: map[string]driver.Stmt{}}, nil
}

// preparer is what database/sql uses of the driver's connections.
type preparer interface {
	driver.Conn
	driver.ConnBeginTx
	driver.ConnPrepareContext
	driver.Pinger
	driver.SessionResetter
	driver.Validator
}

// preparedConn is a connection with the statements that it has prepared. Like all connections of
// drivers it is used by one goroutine at a time.
type preparedConn struct {
	preparer
	ready map[string]driver.Stmt // not in use, by their text
}

// maxReady is how many statements a connection keeps. The queue has about a hundred; those with
// lists of different lengths count as different ones.
const maxReady = 300

// take returns a statement, which is the caller's until keep: while its rows are read, the same
// text may be run again.
func (c *preparedConn) take(ctx context.Context, query string) (preparedStmt, error) {
	if s, ok := c.ready[query]; ok {
		delete(c.ready, query)
		return s.(preparedStmt), nil
	}
	s, err := c.PrepareContext(ctx, query)
	if err != nil {
		return nil, err
	}
	return s.(preparedStmt), nil
}

type preparedStmt interface {
	driver.Stmt
	driver.StmtExecContext
	driver.StmtQueryContext
}

// keep takes a statement back. When there are too many, an arbitrary one is closed.
func (c *preparedConn) keep(query string, s driver.Stmt) error {
	if _, ok := c.ready[query]; ok {
		return s.Close()
	}
	var err error
	if len(c.ready) == maxReady {
		for text, other := range c.ready {
			delete(c.ready, text)
			err = other.Close()
			break
		}
	}
	c.ready[query] = s
	return err
}

// BeginTx begins a transaction that writes.
func (c *preparedConn) BeginTx(ctx context.Context, opts driver.TxOptions) (driver.Tx, error) {
	if opts != (driver.TxOptions{}) {
		return c.preparer.BeginTx(ctx, opts)
	}
	if _, err := c.ExecContext(ctx, "BEGIN IMMEDIATE", nil); err != nil {
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
	res, err := s.ExecContext(ctx, args)
	return res, errors.Join(err, c.keep(query, s))
}

// QueryContext runs a statement with rows.
func (c *preparedConn) QueryContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Rows, error) {
	s, err := c.take(ctx, query)
	if err != nil {
		return nil, err
	}
	rows, err := s.QueryContext(ctx, args)
	if err != nil {
		return nil, errors.Join(err, c.keep(query, s))
	}
	return &preparedRows{rows.(typedRows), func() error { return c.keep(query, s) }}, nil
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
	driver.RowsColumnTypeLength
	driver.RowsColumnTypeNullable
	driver.RowsColumnTypePrecisionScale
	driver.RowsColumnTypeScanType
}

// preparedRows gives the statement back when the rows are closed.
type preparedRows struct {
	typedRows
	done func() error
}

// Close closes the rows.
func (r *preparedRows) Close() error { return errors.Join(r.typedRows.Close(), r.done()) }
