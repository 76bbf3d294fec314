package db

import (
	"context"
	"testing"
	"time"

	"gorm.io/gorm"
)

// TestReadersHoldUpNoWriter: while the rows of a query are being read, a transaction commits, and
// the next query sees what it wrote.
func TestReadersHoldUpNoWriter(t *testing.T) {
	on(t, engines(), func(t *testing.T, cfg Config) {
		db := withRows(t, cfg)
		err := db.View(testContext(t), func(tx *gorm.DB) error {
			rows, err := tx.Raw(`SELECT n FROM rows_of_test`).Rows()
			if err != nil {
				return err
			}
			defer func() { _ = rows.Close() }()
			if !rows.Next() {
				t.Error("the query has no rows")
			}
			ctx, cancel := context.WithTimeout(testContext(t), 10*time.Second)
			defer cancel()
			return db.Tx(ctx, func(tx *gorm.DB) error { return bump(tx, 1) })
		})
		if err != nil {
			t.Fatalf("a transaction beside an open query: %v", err)
		}
		wantRow(t, db, 1, 1)
	})
}

// TestViewOnlyReads: on SQLite a function given to View cannot write by mistake.
func TestViewOnlyReads(t *testing.T) {
	db := withRows(t, freshSQLite(t))
	err := db.View(testContext(t), func(tx *gorm.DB) error { return bump(tx, 1) })
	wantText(t, err, "readonly")
	wantRow(t, db, 1, 0)
}
