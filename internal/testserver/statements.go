package testserver

import (
	"context"
	"database/sql"
	"sync"

	"gorm.io/gorm"
)

// Statements counts what a program asks a database to do, for db.WithPool.
type Statements struct {
	mu      sync.Mutex
	texts   []string
	commits int
}

// Taken returns the statements since the last call, but for BEGIN and COMMIT, and the number of
// commits.
func (s *Statements) Taken() (texts []string, commits int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	texts, commits = s.texts, s.commits
	s.texts, s.commits = nil, 0
	return texts, commits
}

func (s *Statements) add(query string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.texts = append(s.texts, query)
}

// Pool is a pool whose statements are counted.
func (s *Statements) Pool(pool gorm.ConnPool) gorm.ConnPool {
	return countedPool{counted{pool, s}, pool.(gorm.TxBeginner)}
}

type counted struct {
	gorm.ConnPool
	statements *Statements
}

func (c counted) ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error) {
	c.statements.add(query)
	return c.ConnPool.ExecContext(ctx, query, args...)
}

func (c counted) QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error) {
	c.statements.add(query)
	return c.ConnPool.QueryContext(ctx, query, args...)
}

func (c counted) QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row {
	c.statements.add(query)
	return c.ConnPool.QueryRowContext(ctx, query, args...)
}

type countedPool struct {
	counted
	beginner gorm.TxBeginner
}

func (p countedPool) BeginTx(ctx context.Context, opts *sql.TxOptions) (gorm.ConnPool, error) {
	tx, err := p.beginner.BeginTx(ctx, opts)
	if err != nil {
		return nil, err
	}
	return &countedTx{counted{tx, p.statements}, tx}, nil
}

type countedTx struct {
	counted
	tx *sql.Tx
}

func (t *countedTx) Commit() error {
	t.statements.mu.Lock()
	t.statements.commits++
	t.statements.mu.Unlock()
	return t.tx.Commit()
}

func (t *countedTx) Rollback() error { return t.tx.Rollback() }
