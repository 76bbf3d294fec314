package inbox

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"gorm.io/gorm"

	"postrider/internal/db"
	"postrider/internal/outbox"
)

// TestGetOfAnOldAddress checks that an inbox with an address that is refused now can be read,
// changed and removed.
func TestGetOfAnOldAddress(t *testing.T) {
	b := sqliteBench(t)
	b.add("desk@firm.example")
	const old = "desk@firm!.example"
	b.exec(`UPDATE monitored_emails SET email_address = ?`, old)
	if got := b.get(old).Address; got != old {
		t.Errorf("the inbox is %s, want %s", got, old)
	}
	if _, err := b.Set(b.ctx, old, Changes{Folders: []string{"Junk"}}); err != nil {
		t.Errorf("change the inbox: %v, want no error", err)
	}
	_, err := b.Get(b.ctx, "other@firm!.example")
	wantError(t, err, "its domain has a character that no domain has")
}

func TestGetNamesTheNearest(t *testing.T) {
	onEach(t, func(t *testing.T, b bench) {
		b.add("intake@firm.example")
		b.add("desk@firm.example")
		_, err := b.Get(b.ctx, "dekk@firm.example")
		var missing *NotFoundError
		if !errors.As(err, &missing) || missing.Nearest != "desk@firm.example" {
			t.Errorf("got %v, want a *NotFoundError that names desk@firm.example", err)
		}
		_, err = b.Get(b.ctx, "someone@elsewhere.test")
		if !errors.As(err, &missing) || missing.Nearest != "" {
			t.Errorf("got %v, want a *NotFoundError that names none", err)
		}
	})
}

func TestSet(t *testing.T) {
	onEach(t, func(t *testing.T, b bench) {
		before := b.add("desk@firm.example", "INBOX", "Junk")
		b.exec(`UPDATE monitored_folders SET last_seen_uid = 7 WHERE name = 'Junk'`)
		in, err := b.Set(b.ctx, "Desk@firm.example", Changes{
			Host: ptr("mail.firm.example"), Security: ptr(STARTTLS), Description: ptr("front desk"),
			Start: ptr(StartAll), Folders: []string{"inbox", "Archive", "Archive"},
		})
		if err != nil {
			t.Fatal(err)
		}
		if in.Host != "mail.firm.example" || in.Description != "front desk" || in.Start != StartAll {
			t.Errorf("the inbox is %+v, want the changes in it", in)
		}
		if in.Port != 143 {
			t.Errorf("port is %d; want 143, the default of the new security", in.Port)
		}
		if in.Username != before.Username || !in.Active {
			t.Errorf("the inbox is %+v, want the other settings unchanged", in)
		}
		if got, err := b.Password(b.ctx, in); err != nil || got != "hunter2" {
			t.Errorf("the password for the new server is %q (%v), want it kept: hunter2", got, err)
		}
		want := []string{"Archive true", "INBOX true", "Junk false"}
		if got := folderState(in); !slices.Equal(got, want) {
			t.Errorf("folders are %q, want %q", got, want)
		}
		in, err = b.Set(b.ctx, in.Address, Changes{Folders: []string{"Junk"}, Port: ptr(1143)})
		if err != nil {
			t.Fatal(err)
		}
		want = []string{"Archive false", "INBOX false", "Junk true"}
		if got := folderState(in); !slices.Equal(got, want) {
			t.Errorf("folders are %q, want %q", got, want)
		}
		if in.Port != 1143 || in.Folders[2].LastSeenUID != 7 {
			t.Errorf("port %d and Junk's cursor %d; want 1143, and 7 as it was", in.Port, in.Folders[2].LastSeenUID)
		}
		if _, err = b.Set(b.ctx, in.Address, Changes{Security: ptr(None)}); err == nil {
			t.Error("Set to security none for a remote host = nil, want an error")
		}
		if _, err = b.Set(b.ctx, "no@one.test", Changes{}); !errors.As(err, new(*NotFoundError)) {
			t.Errorf("got %v, want a *NotFoundError", err)
		}
	})
}

func TestListEnableDisableRemove(t *testing.T) {
	onEach(t, func(t *testing.T, b bench) {
		b.add("b@x.org", "INBOX", "Junk")
		a := b.add("a@x.org")
		b.add("c@x.org")
		// As the queue does.
		b.exec(`UPDATE monitored_emails SET is_active = 0 WHERE email_address = 'c@x.org'`)
		if _, err := b.Set(b.ctx, "b@x.org", Changes{Folders: []string{"INBOX"}}); err != nil {
			t.Fatal(err)
		}
		wantList(t, b.Active, "a@x.org[INBOX true] b@x.org[INBOX true]")
		wantList(t, b.List, "a@x.org[INBOX true] b@x.org[INBOX true Junk false] c@x.org[INBOX true]")
		if err := b.Enable(b.ctx, "c@x.org", "ann", "by an operator"); err != nil {
			t.Fatal(err)
		}
		b.exec(`INSERT INTO monitored_emails_seen (folder_id, uid_validity, uid, inbox_id, task_id, fingerprint)
			VALUES (?, 1, 1, ?, 0, ?)`, a.Folders[0].ID, a.ID, make([]byte, 32))
		for _, address := range []string{"A@x.org", "b@x.org"} {
			b.remove(address)
		}
		wantList(t, b.Active, "c@x.org[INBOX true]")
		if _, err := b.Get(b.ctx, "a@x.org"); !errors.As(err, new(*NotFoundError)) {
			t.Errorf("got %v, want a *NotFoundError", err)
		}
		var left int64
		err := b.db.View(b.ctx, func(tx *gorm.DB) error {
			return tx.Raw(`SELECT (SELECT COUNT(*) FROM monitored_folders WHERE inbox_id = ?) +
				(SELECT COUNT(*) FROM monitored_emails_seen)`, a.ID).Scan(&left).Error
		})
		if err != nil || left != 0 {
			t.Errorf("%d rows of a removed inbox are left (%v), want 0", left, err)
		}
	})
}

// TestEndsPause: a change of an inbox, and to enable it, end the pause of its actions. Whoever
// still has the old settings begins none.
func TestEndsPause(t *testing.T) {
	onEach(t, func(t *testing.T, b bench) {
		address := b.add("desk@firm.example").Address
		pause := func(in Inbox) (paused bool) {
			t.Helper()
			err := outbox.New(b.db).Pause(b.ctx, in.ID, in.UpdatedAt, time.Hour)
			if err != nil {
				t.Fatal(err)
			}
			return b.paused()
		}
		for name, change := range map[string]func() error{
			"set": func() error {
				_, err := b.Set(b.ctx, address, Changes{Password: ptr("sesame")})
				return err
			},
			"enable": func() error {
				b.exec(`UPDATE monitored_emails SET is_active = 0`)
				return b.Enable(b.ctx, address, "ann", "by an operator")
			},
		} {
			before, err := b.Get(b.ctx, address)
			if err != nil {
				t.Fatal(err)
			}
			if !pause(before) {
				t.Errorf("before %s there is no pause, want one", name)
			}
			if err := change(); err != nil {
				t.Fatal(err)
			}
			if b.paused() {
				t.Errorf("after %s the actions still pause", name)
			}
			if pause(before) {
				t.Errorf("after %s the actions pause because of the settings before it", name)
			}
		}
	})
}

// paused reports whether the actions of an inbox pause.
func (b bench) paused() bool {
	b.t.Helper()
	at, err := db.Read(b.ctx, b.db, db.Value[int64], `SELECT MAX(actions_at) FROM monitored_emails`)
	if err != nil {
		b.t.Fatal(err)
	}
	return at[0] > 0
}

// TestByID: inboxes that are gone are left out, disabled ones are not.
func TestByID(t *testing.T) {
	onEach(t, func(t *testing.T, b bench) {
		a, c := b.add("a@x.org"), b.add("c@x.org")
		if _, err := b.Set(b.ctx, c.Address, Changes{Labels: Labels{"tenant": "acme"}}); err != nil {
			t.Fatal(err)
		}
		b.exec(`UPDATE monitored_emails SET is_active = 0 WHERE email_address = 'c@x.org'`)
		all, err := b.ByID(b.ctx, []int64{c.ID, c.ID + 1, a.ID})
		if err != nil || len(all) != 2 || all[a.ID].Address != a.Address || all[c.ID].Labels["tenant"] != "acme" {
			t.Errorf("inboxes are %+v, %v; want two, one of them with a label", all, err)
		}
		if none, err := b.ByID(b.ctx, nil); err != nil || len(none) != 0 {
			t.Errorf("no inboxes are %+v, %v", none, err)
		}
	})
}

func wantList(t *testing.T, list func(context.Context) ([]Inbox, error), want string) {
	t.Helper()
	all, err := list(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, in := range all {
		got = append(got, fmt.Sprint(in.Address, folderState(in)))
	}
	if s := strings.Join(got, " "); s != want {
		t.Errorf("the list is %s, want %s", s, want)
	}
}
