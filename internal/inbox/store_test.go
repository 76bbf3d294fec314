package inbox

import (
	"cmp"
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

func TestAddFillsInDefaults(t *testing.T) {
	onEach(t, func(t *testing.T, b bench) {
		in := b.add("Desk@Firm.Example")
		if in.Address != "desk@firm.example" || in.Username != "Desk@Firm.Example" {
			t.Errorf("address %q, username %q; want the address in lower case and the username as it was typed",
				in.Address, in.Username)
		}
		if in.Port != 993 || in.Security != TLS || in.Auth != "auto" || in.Start != StartLatest || !in.Active {
			t.Errorf("defaults are %+v; want port 993, tls, auto, latest, active", in)
		}
		if got := folderState(in); !slices.Equal(got, []string{"INBOX true"}) {
			t.Errorf("folders are %q, want INBOX only", got)
		}
		if in.LastScannedAt != nil || in.Folders[0].InitializedAt != nil ||
			time.Since(in.CreatedAt).Abs() > time.Minute {
			t.Errorf("the inbox is %+v, want it created now and never scanned", in)
		}
	})
}

func TestAddRefuses(t *testing.T) {
	b := sqliteBench(t)
	for _, tt := range []struct {
		name     string
		in       Inbox
		password string
		want     []string
	}{
		{"not an address", Inbox{Host: "h"}, "x", []string{"an address is missing"}},
		{"address with a name", Inbox{Address: "Me <me@x.org>", Host: "h"}, "x", []string{"write only me@x.org"}},
		{"address without a domain", Inbox{Address: "me", Host: "h"}, "x", []string{"not an address; write it like"}},
		{"address that fits no column", Inbox{Address: strings.Repeat("a", 320) + "@x.org", Host: "h"}, "x", []string{"longer than mail allows"}},
		{"no host", Inbox{Address: "a@x.org"}, "x", []string{"host"}},
		{"host with letters that are not ASCII, and a port", Inbox{Address: "a@x.org", Host: "bücher.example:993"}, "x", []string{"without a port"}},
		{"host with a port", Inbox{Address: "a@x.org", Host: "h:993"}, "x", []string{"without a port"}},
		{"host as a URL", Inbox{Address: "a@x.org", Host: "imaps://h"}, "x", []string{"host"}},
		{"port too high", Inbox{Address: "a@x.org", Host: "h", Port: 65536}, "x", []string{"65536"}},
		{"port below 1", Inbox{Address: "a@x.org", Host: "h", Port: -1}, "x", []string{"-1"}},
		{"security unknown", Inbox{Address: "a@x.org", Host: "h", Security: "ssl"}, "x", []string{`"ssl"`, "tls, starttls or none"}},
		{"unencrypted", Inbox{Address: "a@x.org", Host: "mail.x.org", Security: None}, "x", []string{"mail.x.org", "unencrypted"}},
		{"auth unknown", Inbox{Address: "a@x.org", Host: "h", Auth: "ntlm"}, "x", []string{"ntlm"}},
		{"start unknown", Inbox{Address: "a@x.org", Host: "h", Start: "yesterday"}, "x", []string{"yesterday", "since:YYYY-MM-DD"}},
		{"start on no day", Inbox{Address: "a@x.org", Host: "h", Start: "since:2026-02-30"}, "x", []string{"since:2026-02-30"}},
		{"folder without a name", Inbox{Address: "a@x.org", Host: "h", Folders: []Folder{{Name: ""}}}, "x", []string{"folder name"}},
		{"folder with a line break", Inbox{Address: "a@x.org", Host: "h", Folders: []Folder{{Name: "a\r\nb"}}}, "x", []string{"line break"}},
		{"username with a line break", Inbox{Address: "a@x.org", Host: "h", Username: "a\nb"}, "x", []string{"username"}},
		{"text that is not UTF-8", Inbox{Address: "a@x.org", Host: "h", Username: "u\xff", Description: "B\xfcro", Folders: []Folder{{Name: "Entw\xfcrfe"}}}, "x", []string{`the username "u\xff" is not UTF-8`, `the description "B\xfcro" is not UTF-8`, `folder name "Entw\xfcrfe" is not UTF-8`}},
		{"no password", Inbox{Address: "a@x.org", Host: "h"}, "", []string{"password is empty"}},
		{"everything at once", Inbox{Address: "a", Host: "", Port: 70000, Start: "x"}, "x", []string{"not an address", "host", "70000", "start"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, err := b.Add(b.ctx, tt.in, tt.password)
			wantError(t, err, tt.want...)
		})
	}
	if all, err := b.List(b.ctx); err != nil || len(all) != 0 {
		t.Errorf("the store holds %v (%v), want no refused inbox", all, err)
	}
}

// TestInvalidHost: nothing is to be allowed for a host that is invalid.
func TestInvalidHost(t *testing.T) {
	for _, host := range []string{"127.0.0.1:143", "h:143", ""} {
		_, err := sqliteBench(t).Add(t.Context(), Inbox{Address: "a@x.org", Host: host, Security: None}, "x")
		if err == nil || !strings.Contains(err.Error(), "host is ") || strings.Contains(err.Error(), "plaintext") {
			t.Errorf("host %q: got %v, want that the host is invalid, and no more", host, err)
		}
	}
}

func TestAddAccepts(t *testing.T) {
	onEach(t, func(t *testing.T, b bench) {
		for i, in := range []Inbox{
			{Host: "127.0.0.1", Security: None},
			{Host: "localhost", Security: None},
			{Host: "[::1]", Security: None},
			{Host: "imap.example.com", Security: None, AllowPlaintext: true},
			{Host: "2001:db8::1", Security: STARTTLS},
			{Host: "h", Start: "since:2026-02-28", Description: "Büro 東京", Username: `DOM\user`, Auth: "login", Port: 1},
		} {
			in.Address = fmt.Sprintf("a%d@x.org", i)
			got, err := b.Add(b.ctx, in, "hunter2")
			if err != nil {
				t.Errorf("host %s: %v", in.Host, err)
				continue
			}
			if want := cmp.Or(in.Port, got.Security.DefaultPort()); got.Port != want {
				t.Errorf("%s: port is %d, want %d", in.Security, got.Port, want)
			}
			if got.Description != in.Description || got.AllowPlaintext != in.AllowPlaintext ||
				got.Host != strings.Trim(in.Host, "[]") {
				t.Errorf("stored %+v, want %+v", got, in)
			}
		}
	})
}

// TestHostInUnicode checks that a name has the form that DNS has.
func TestHostInUnicode(t *testing.T) {
	b := sqliteBench(t)
	in, err := b.Add(b.ctx, Inbox{Address: "a@x.org", Host: "imap.Bücher.example"}, "hunter2")
	if want := "imap.xn--bcher-kva.example"; err != nil || in.Host != want {
		t.Errorf("the host is %q (%v), want %s", in.Host, err, want)
	}
}

// TestAddTakesWhatCanBeSentTo checks that Add accepts every address that package address accepts.
func TestAddTakesWhatCanBeSentTo(t *testing.T) {
	b := sqliteBench(t)
	for _, address := range []string{`"the desk"@firm.example`, "desk@[192.0.2.1]", "büro@firm.example"} {
		if b.add(address); b.get(address).Address != address {
			t.Errorf("%s is stored as %s, want it unchanged", address, b.get(address).Address)
		}
	}
}

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

func TestAddTwice(t *testing.T) {
	onEach(t, func(t *testing.T, b bench) {
		b.add("desk@firm.example")
		_, err := b.Add(b.ctx, Inbox{Address: "DESK@firm.example", Host: "h"}, "other")
		var exists *ExistsError
		if !errors.As(err, &exists) {
			t.Fatalf("got %v, want an *ExistsError", err)
		}
		wantError(t, err, "desk@firm.example exists already", "inbox set")
		if in := b.get("desk@firm.example"); in.Host != "imap.example.com" {
			t.Error("the second Add changed the inbox, want it unchanged")
		}
	})
}

// When the answer to a commit is lost, Add runs again and finds its own row.
func TestAddAgainAfterALostAnswer(t *testing.T) {
	onEach(t, func(t *testing.T, b bench) {
		in := b.add("desk@firm.example")
		err := b.db.Tx(b.ctx, func(tx *gorm.DB) error { return insertInbox(tx, in) })
		if err != nil {
			t.Errorf("insertInbox of the same inbox again: %v, want no error", err)
		}
	})
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
