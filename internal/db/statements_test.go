package db

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"strings"
	"testing"
)

// TestPreparesBetweenTransactions: no statement is prepared or closed within a transaction, neither
// when it fails nor when there are too many. One that cannot be prepared runs as it is, and is no
// fault of the next transaction.
func TestPreparesBetweenTransactions(t *testing.T) {
	for _, c := range []struct {
		begin string
		most  int
	}{{"", 100}, {"BEGIN", 100}, {"", 2}, {"BEGIN", 2}} {
		var l listener
		pool := sql.OpenDB(preparing{&l, c.most, c.begin})
		pool.SetMaxOpenConns(1)
		for range 4 {
			tx, err := pool.BeginTx(testContext(t), nil)
			if err != nil {
				t.Fatal(err)
			}
			for _, query := range []string{"a", "b", "c", "odd", "bad"} {
				_, err = tx.ExecContext(testContext(t), query)
				if bad := query == "bad"; bad != (err != nil) {
					t.Errorf("%s: %v", query, err)
				}
			}
			if err := tx.Rollback(); err != nil {
				t.Error(err)
			}
		}
		if err := pool.Close(); err != nil {
			t.Error(err)
		}
		within, prepared, ran := false, 0, 0
		for _, command := range l.heard {
			verb, text, _ := strings.Cut(command, " ")
			switch {
			case verb == "prepare" || verb == "close":
				prepared++
				if within {
					t.Errorf("%+v: %q within a transaction", c, command)
				}
			case text == "BEGIN":
				within = true
			case text == "ROLLBACK":
				within = false
			case verb == "execute":
				ran++
			}
		}
		if prepared == 0 || ran == 0 && c.most == 100 {
			t.Errorf("%+v: %d statements were prepared or closed, and run %d times: %q", c, prepared, ran, l.heard)
		}
	}
}

// TestCancelledBegin: when ctx ends, SQLite's driver says so of a BEGIN that has begun a
// transaction. It does not stay open.
func TestCancelledBegin(t *testing.T) {
	var l listener
	pool := sql.OpenDB(preparing{&l, 100, "bad"})
	if _, err := pool.BeginTx(testContext(t), nil); err == nil {
		t.Error("the transaction begins")
	}
	if last := l.heard[len(l.heard)-1]; last != "run ROLLBACK" {
		t.Errorf("it heard %q, want a ROLLBACK in the end", l.heard)
	}
	if err := pool.Close(); err != nil {
		t.Error(err)
	}
}

// listener is a driver whose connection notes what it hears. The statement "bad"
// fails, and "odd" cannot be prepared.
type listener struct {
	driver.Conn
	heard []string
}

func (l *listener) Connect(context.Context) (driver.Conn, error) { return l, nil }
func (l *listener) Driver() driver.Driver                        { return nil }
func (l *listener) Ping(context.Context) error                   { return nil }
func (l *listener) ResetSession(context.Context) error           { return nil }
func (l *listener) IsValid() bool                                { return true }
func (l *listener) Close() error                                 { return nil }
func (l *listener) CheckNamedValue(*driver.NamedValue) error     { return nil }
func (l *listener) note(verb, query string)                      { l.heard = append(l.heard, verb+" "+query) }

func (l *listener) Commit() error { l.note("run", "COMMIT"); return nil }

func (l *listener) Rollback() error { l.note("run", "ROLLBACK"); return nil }

func (l *listener) BeginTx(context.Context, driver.TxOptions) (driver.Tx, error) {
	l.note("run", "BEGIN")
	return l, nil
}

func (l *listener) ExecContext(_ context.Context, query string, _ []driver.NamedValue) (driver.Result, error) {
	l.note("run", query)
	return driver.RowsAffected(0), failBad(query)
}

func (l *listener) QueryContext(context.Context, string, []driver.NamedValue) (driver.Rows, error) {
	return nil, driver.ErrSkip
}

func (l *listener) PrepareContext(_ context.Context, query string) (driver.Stmt, error) {
	l.note("prepare", query)
	if query == "odd" {
		return nil, errors.New("this cannot be prepared")
	}
	return listenerStmt{l, query}, nil
}

// listenerStmt is a prepared statement of a listener.
type listenerStmt struct {
	*listener
	query string
}

func (s listenerStmt) NumInput() int { return -1 }
func (s listenerStmt) Close() error  { s.note("close", s.query); return nil }
func (s listenerStmt) Exec([]driver.Value) (driver.Result, error) {
	return nil, driver.ErrSkip
}
func (s listenerStmt) Query([]driver.Value) (driver.Rows, error) { return nil, driver.ErrSkip }
func (s listenerStmt) ExecContext(context.Context, []driver.NamedValue) (driver.Result, error) {
	s.note("execute", s.query)
	return driver.RowsAffected(0), failBad(s.query)
}

func (s listenerStmt) QueryContext(context.Context, []driver.NamedValue) (driver.Rows, error) {
	return nil, driver.ErrSkip
}

func failBad(query string) error {
	if query == "bad" {
		return errors.New("a bad statement")
	}
	return nil
}
