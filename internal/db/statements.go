package db

import (
	"context"
	"database/sql/driver"
	"errors"
	"hash/maphash"
	"maps"
	"slices"
)

// preparing opens connections that prepare statements that are run more than once: for a short
// statement, a database spends most of the time on parsing.
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
	return newPreparedConn(inner, p.most, p.begin), nil
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
//
// It prepares and closes no statement inside a transaction: if another node of a Galera cluster
// (MariaDB 10.11) has rolled it back, a statement that runs reports that, but PREPARE does not
// always. Two nodes could then claim one task.
type preparedConn struct {
	preparer
	most    int
	begin   string
	once    map[uint64]bool        // the hashes of the texts that ran once
	ready   map[string]driver.Stmt // not in use, by their text
	within  bool                   // a transaction
	wanted  map[string]bool        // to be prepared after it
	surplus []driver.Stmt          // to be closed after it
}

func newPreparedConn(inner preparer, most int, begin string) *preparedConn {
	return &preparedConn{
		preparer: inner, most: most, begin: begin,
		once: map[uint64]bool{}, ready: map[string]driver.Stmt{}, wanted: map[string]bool{},
	}
}

// maxOnce is how many texts a connection remembers. Most of what runs again does so soon.
const maxOnce = 500

var seed = maphash.MakeSeed()

// take returns a statement, which is the caller's until keep: while its rows are read, the same
// text may be run again. It is nil when the text has to run as it is.
func (c *preparedConn) take(ctx context.Context, query string) (preparedStmt, error) {
	if s, ok := c.ready[query]; ok {
		delete(c.ready, query)
		return s.(preparedStmt), nil
	}
	hash := maphash.String(seed, query)
	switch {
	case c.once[hash] && c.within:
		c.wanted[query] = true
		return nil, nil
	case c.once[hash]:
		return c.prepare(ctx, query)
	case len(c.once) == maxOnce:
		clear(c.once)
	}
	c.once[hash] = true
	return nil, nil
}

// prepare returns nil when the server has no room for one more statement.
func (c *preparedConn) prepare(ctx context.Context, query string) (preparedStmt, error) {
	s, err := c.PrepareContext(ctx, query)
	switch {
	case serverError(err) == 1461: // max_prepared_stmt_count
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

// keep takes a statement back. When there are too many, an arbitrary one is closed.
func (c *preparedConn) keep(query string, s driver.Stmt) {
	if _, ok := c.ready[query]; ok {
		c.drop(s)
		return
	}
	if len(c.ready) == c.most {
		for text, other := range c.ready {
			delete(c.ready, text)
			c.drop(other)
			break
		}
	}
	c.ready[query] = s
}

// drop closes a statement. Errors are ignored: the statement that ran has succeeded, and the next
// one shows that a connection is lost.
func (c *preparedConn) drop(s driver.Stmt) {
	if c.within {
		c.surplus = append(c.surplus, s)
		return
	}
	_ = s.Close()
}

// catchUp prepares and closes what had to wait for the end of a transaction. What cannot be
// prepared runs as it is, and a connection that is lost shows with the next statement.
func (c *preparedConn) catchUp(ctx context.Context) {
	for _, s := range c.surplus {
		_ = s.Close()
	}
	c.surplus = nil
	for query := range c.wanted {
		if s, err := c.prepare(ctx, query); err == nil && s != nil {
			c.keep(query, s)
		}
	}
	clear(c.wanted)
}

// BeginTx begins a transaction.
func (c *preparedConn) BeginTx(ctx context.Context, opts driver.TxOptions) (driver.Tx, error) {
	c.catchUp(ctx)
	tx := driver.Tx(written{c})
	var err error
	c.within = true
	if c.begin == "" || opts != (driver.TxOptions{}) {
		tx, err = c.preparer.BeginTx(ctx, opts)
	} else {
		_, err = c.ExecContext(ctx, c.begin, nil)
		if err != nil {
			_ = tx.Rollback() // if ctx has ended, the driver says so even when the transaction has begun
		}
	}
	if err != nil {
		c.within = false
		return nil, err
	}
	return preparedTx{tx, c}, nil
}

// preparedTx is a transaction of a connection, which may prepare again when it is over.
type preparedTx struct {
	driver.Tx
	c *preparedConn
}

// Commit implements driver.Tx.
func (t preparedTx) Commit() error {
	defer t.over()
	return t.Tx.Commit()
}

// Rollback implements driver.Tx.
func (t preparedTx) Rollback() error {
	defer t.over()
	return t.Tx.Rollback()
}

func (t preparedTx) over() { t.c.within = false }

// written is a transaction that begins and ends by statements.
type written struct{ c *preparedConn }

// Commit ends the transaction also when it fails: database/sql expects that.
func (t written) Commit() error {
	_, err := t.c.ExecContext(context.Background(), "COMMIT", nil)
	if err != nil {
		_ = t.Rollback() // fails when SQLite has done it
	}
	return err
}

// Rollback takes the transaction back.
func (t written) Rollback() error {
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
		c.drop(s) // it is prepared again
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
		c.drop(s)
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
	for _, s := range slices.AppendSeq(c.surplus, maps.Values(c.ready)) {
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
