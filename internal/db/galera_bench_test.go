package db

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"sync"
	"testing"

	"postrider/internal/testserver"
)

// BenchmarkGaleraSyncWait is what wsrep_sync_wait costs on one node, while nobody writes on
// another, and while somebody does.
func BenchmarkGaleraSyncWait(b *testing.B) {
	dsns := testserver.GaleraCluster(b).NewDatabase(b)
	writer, reader := benchPool(b, dsns[0]), benchPool(b, dsns[1])
	for _, statement := range []string{
		`CREATE TABLE rows_of_test (id BIGINT PRIMARY KEY, n BIGINT NOT NULL)`,
		`INSERT INTO rows_of_test VALUES (1, 0), (2, 0)`,
	} {
		if _, err := writer.ExecContext(b.Context(), statement); err != nil {
			b.Fatal(err)
		}
	}
	for _, busy := range []bool{false, true} {
		for _, wait := range []int{0, 7} {
			setting := fmt.Sprintf("SET SESSION wsrep_sync_wait = %d", wait)
			if _, err := reader.ExecContext(b.Context(), setting); err != nil {
				b.Fatal(err)
			}
			stop := func() {}
			if busy {
				stop = writeAllTheTime(b, writer)
			}
			b.Run(fmt.Sprintf("read/busy=%v/wait=%d", busy, wait), func(b *testing.B) {
				for b.Loop() {
					var n int
					err := reader.QueryRowContext(b.Context(), `SELECT n FROM rows_of_test WHERE id = 1`).Scan(&n)
					if err != nil {
						b.Fatal(err)
					}
				}
			})
			b.Run(fmt.Sprintf("change/busy=%v/wait=%d", busy, wait), func(b *testing.B) {
				for b.Loop() {
					if err := change(b.Context(), reader, 2); err != nil {
						b.Fatal(err)
					}
				}
			})
			stop()
		}
	}
}

// benchPool has one connection.
func benchPool(b *testing.B, dsn string) *sql.DB {
	b.Helper()
	db, err := OpenAnySchema(b.Context(), Config{Driver: MySQL, DSN: dsn})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = db.Close() })
	db.pool.SetMaxOpenConns(1)
	return db.pool
}

func writeAllTheTime(b *testing.B, pool *sql.DB) (stop func()) {
	b.Helper()
	ctx, cancel := context.WithCancel(b.Context())
	var writing sync.WaitGroup
	writing.Go(func() {
		for ctx.Err() == nil {
			if err := change(ctx, pool, 1); err != nil && ctx.Err() == nil {
				b.Errorf("the writer: %v", err)
				return
			}
		}
	})
	return func() {
		cancel()
		writing.Wait()
	}
}

func change(ctx context.Context, pool *sql.DB, id int) error {
	tx, err := pool.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	if _, err := tx.ExecContext(ctx, `UPDATE rows_of_test SET n = n + 1 WHERE id = ?`, id); err != nil {
		return errors.Join(err, tx.Rollback())
	}
	return tx.Commit()
}
