package cmd

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
	"gorm.io/gorm"

	"postrider/internal/db"
	"postrider/internal/inbox"
	"postrider/internal/pass"
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

// audited ADDR WANT: what is stored of the inbox's last audit: messages, accounted for, not
// accounted for, clean, findings.
func audited(ts *testscript.TestScript, _ bool, args []string) {
	ctx := context.Background()
	d, err := db.Open(ctx, db.Config{Driver: db.SQLite, Path: ts.MkAbs("postrider.db")})
	ts.Check(err)
	defer func() { _ = d.Close() }()
	boxes := inbox.New(d, nil)
	in, err := boxes.Get(ctx, args[0])
	ts.Check(err)
	all, err := boxes.Audits(ctx, in.ID)
	ts.Check(err)
	a := all[in.ID]
	got := fmt.Sprint(a.Messages, a.Accounted, a.Unaccounted, a.Clean, len(a.Findings))
	if got != args[1] || !strings.Contains(a.By, "@") {
		ts.Fatalf("the last audit of %s is %q by %q, want %q by a user at a host", args[0], got, a.By, args[1])
	}
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

// TestAccountOfAVanishedMessage: its reason says that it is gone, so nothing else does.
func TestAccountOfAVanishedMessage(t *testing.T) {
	l := &auditLines{app: &app{}}
	for _, tt := range []struct {
		m    pass.Audited
		want string
	}{
		{
			pass.Audited{Account: pass.AsSkipped, Gone: true, Reason: "vanished: it is no longer in INBOX"},
			"skipped: vanished: it is no longer in INBOX",
		},
		{
			pass.Audited{Account: pass.AsForwarded, Gone: true, To: []string{"a@x.example"}},
			"forwarded to a@x.example, no longer on the server",
		},
		{
			pass.Audited{Account: pass.AsDead, To: []string{"a@x.example"}, Reason: "refused"},
			"dead (accepted for a@x.example): refused",
		},
		{
			pass.Audited{Account: pass.AsForwarded, Mode: "notice", To: []string{"a@x.example"}},
			"forwarded (only a notice) to a@x.example",
		},
		{pass.Audited{Account: pass.AsBeforeStart}, "older than --start"},
	} {
		if got := l.account(tt.m); got != tt.want {
			t.Errorf("%+v is accounted for as %q, want %q", tt.m, got, tt.want)
		}
	}
}
