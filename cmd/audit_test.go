package cmd

import (
	"context"
	"errors"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
	"gorm.io/gorm"

	"postrider/internal/db"
	"postrider/internal/pass"
	"postrider/internal/tasks"
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

func TestStrayNote(t *testing.T) {
	for _, tt := range []struct {
		name      string
		stray     pass.Stray
		unwatched bool
		want      string
	}{
		{"expunged", pass.Stray{UIDValidity: 7, Status: tasks.Error}, false, "is no longer on the server; a run that does not find it ends it as vanished"},
		{"expunged, uncertain", pass.Stray{UIDValidity: 7, Status: tasks.Uncertain}, false, "is no longer on the server; an operator has to decide, and it cannot be sent again"},
		{"reappeared", pass.Stray{TaskID: 12, UIDValidity: 7, Status: tasks.Skipped}, false, "was skipped as vanished, and is on the server; to forward it: `postrider task retry 12`"},
		{"another epoch", pass.Stray{UIDValidity: 6, Status: tasks.Received}, false, "of UIDVALIDITY 6 has not been found again; a run that does not find it ends it as vanished"},
		{"deleted", pass.Stray{TaskID: 12, UIDValidity: 6}, false, "of UIDVALIDITY 6 has not been found again; something other than postrider deleted its task, so its fate is unknown"},
		{"not watched", pass.Stray{UIDValidity: 6, Status: tasks.Uncertain}, true, "is of a folder that is not watched any more; an operator has to decide: `postrider task resolve`"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := strayNote(tt.stray, &pass.FolderAudit{UIDValidity: 7, Unwatched: tt.unwatched}); got != tt.want {
				t.Errorf("the note is %q, want %q", got, tt.want)
			}
		})
	}
}
