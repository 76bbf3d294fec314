package cmd

import (
	"context"
	"errors"

	"github.com/rogpeppe/go-internal/testscript"
	"gorm.io/gorm"

	"postrider/internal/db"
)

// forget UID...: the registry loses what it knows of these messages, as no part of the program
// makes it.
func forget(ts *testscript.TestScript, _ bool, args []string) {
	ctx := context.Background()
	d, err := db.Open(ctx, db.Config{Driver: db.SQLite, Path: ts.MkAbs("postrider.db")})
	ts.Check(err)
	defer func() { _ = d.Close() }()
	ts.Check(d.Tx(ctx, func(tx *gorm.DB) error {
		return errors.Join(
			tx.Exec(`DELETE FROM monitored_emails_tasks WHERE uid IN ?`, args).Error,
			tx.Exec(`DELETE FROM monitored_emails_seen WHERE uid IN ?`, args).Error)
	}))
}

// delete UID...: somebody deletes tasks in the database.
func deleteTasks(ts *testscript.TestScript, _ bool, args []string) {
	ctx := context.Background()
	d, err := db.Open(ctx, db.Config{Driver: db.SQLite, Path: ts.MkAbs("postrider.db")})
	ts.Check(err)
	defer func() { _ = d.Close() }()
	ts.Check(d.Tx(ctx, func(tx *gorm.DB) error {
		return tx.Exec(`DELETE FROM monitored_emails_tasks WHERE uid IN ?`, args).Error
	}))
}
