package inbox

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"postrider/internal/db"
	"postrider/internal/secret"
	"postrider/internal/testserver"
	"postrider/internal/text"
)

// entries are n new inboxes with two folders each.
func entries(n int) (list []Entry) {
	for i := range n {
		list = append(list, Entry{
			Where: fmt.Sprintf("f.csv:%d", i+2), Address: fmt.Sprintf("a%d@x.example", i),
			Set: Changes{Host: ptr("imap.x.example"), Password: ptr("hunter2"), Folders: []string{"INBOX", "Junk"}},
		})
	}
	return list
}

// TestImportIsAdd: an import stores what Add stores, with the same defaults.
func TestImportIsAdd(t *testing.T) {
	onEach(t, func(t *testing.T, b bench) {
		b.add("a@x.example", "Junk", "inbox")
		plans, err := b.Import(b.ctx, []Entry{{Address: "B@x.example", Set: Changes{
			Host: ptr("imap.example.com"), Password: ptr("hunter2"), Folders: []string{"Junk", "inbox"},
		}}}, ImportOptions{})
		if err != nil || len(plans) != 1 || plans[0].Old != nil {
			t.Fatalf("the import returns %v, %v; want one new inbox", plans, err)
		}
		added, imported := b.get("a@x.example"), b.get("b@x.example")
		password, err := b.Password(b.ctx, imported)
		if err != nil || password != "hunter2" {
			t.Errorf("the password is %q, %v; want hunter2", password, err)
		}
		same := func(in Inbox) string {
			in.Address, in.Password = "", ""
			in.ID, in.CreatedAt, in.UpdatedAt = 0, time.Time{}, time.Time{}
			in.Username = strings.ToLower(in.Username[1:])
			in.Folders = slices.Clone(in.Folders)
			for i := range in.Folders {
				in.Folders[i].ID, in.Folders[i].InboxID = 0, 0
			}
			return fmt.Sprintf("%+v", in)
		}
		if same(imported) != same(added) {
			t.Errorf("the imported inbox is\n%s\nwant\n%s", same(imported), same(added))
		}
	})
}

// TestImportOfMany: a thousand inboxes are one commit, and on a server few statements.
func TestImportOfMany(t *testing.T) {
	for name, cfg := range map[string]func() db.Config{
		"sqlite":  func() db.Config { return db.Config{Driver: db.SQLite, Path: filepath.Join(t.TempDir(), "p.db")} },
		"mariadb": func() db.Config { return db.Config{Driver: db.MySQL, DSN: testserver.MariaDB(t).NewDatabase(t)} },
	} {
		t.Run(name, func(t *testing.T) {
			c := cfg()
			b := newBench(t, c)
			var statements testserver.Statements
			counted, err := db.Open(b.ctx, c, db.WithPool(statements.Pool))
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = counted.Close() })
			store := New(counted, b.sealer)
			if _, err := store.Import(b.ctx, entries(10), ImportOptions{}); err != nil {
				t.Fatal(err)
			}
			statements.Taken()
			if _, err := store.Import(b.ctx, entries(1000), ImportOptions{}); err != nil {
				t.Fatal(err)
			}
			texts, commits := statements.Taken()
			most := 25
			if c.Driver == db.SQLite {
				most += 3 * 1000 // which are no round trips
			}
			if len(texts) > most || commits != 1 {
				t.Errorf("1,000 inboxes take %d statements and %d commits, want at most %d, and 1",
					len(texts), commits, most)
			}
			changed := entries(1000)
			for i := range changed {
				changed[i].Set.Description = ptr("new")
			}
			if _, err := store.Import(b.ctx, changed, ImportOptions{Update: true}); err != nil {
				t.Fatal(err)
			}
			if texts, commits := statements.Taken(); len(texts) > 3*1000+10 || commits != 1 {
				t.Errorf("1,000 changes take %d statements and %d commits, want at most 3 each, and 1",
					len(texts), commits)
			}
			all, err := b.List(b.ctx)
			if err != nil || len(all) != 1000 || !slices.Equal(all[999].Watched(), []string{"INBOX", "Junk"}) {
				t.Errorf("there are %d inboxes (%v), want 1,000 with two folders each", len(all), err)
			}
		})
	}
}

// TestImportIsAllOrNothing: when a statement of many fails, or an entry is wrong, nothing is
// stored.
func TestImportIsAllOrNothing(t *testing.T) {
	b := sqliteBench(t)
	b.add("old@x.example")
	b.exec(`CREATE TRIGGER broken BEFORE INSERT ON monitored_folders WHEN NEW.name = 'Broken'
		BEGIN SELECT RAISE(ABORT, 'broken'); END`)
	set := Changes{Description: ptr("new"), Folders: []string{"Broken"}}
	change := Entry{Where: "f.csv:8", Address: "old@x.example", Set: set}
	_, err := b.Import(b.ctx, append(entries(3), change), ImportOptions{Update: true})
	wantError(t, err, "import inboxes: f.csv:8: ", "broken")
	bad := append(entries(3), Entry{Where: "f.csv:9", Address: "nowhere"})
	_, err = b.Import(b.ctx, bad, ImportOptions{})
	two := entries(1)
	two[0].Set.Password = ptr("one\ntwo")
	_, lines := b.Import(b.ctx, two, ImportOptions{})
	wantError(t, lines, "f.csv:2: the password has 2 lines, and must have one")
	wantError(t, err, "f.csv:9: \"nowhere\" is not an address", "f.csv:9: host is", "f.csv:9: the password is missing")
	if all, err := b.List(b.ctx); err != nil || len(all) != 1 || all[0].Description != "" {
		t.Errorf("there are %d inboxes (%v), want the old one alone, as it was", len(all), err)
	}
}

// TestImportUpdates: what a line says is changed, the rest and the cursors stay.
func TestImportUpdates(t *testing.T) {
	onEach(t, func(t *testing.T, b bench) {
		b.add("a@x.example", "INBOX", "Junk")
		b.exec("UPDATE monitored_folders SET last_seen_uid = 7, uid_validity = 3")
		e := []Entry{{Where: "f.csv:2", Address: "A@x.example", Set: Changes{
			Security: ptr(STARTTLS), Description: ptr("new"), Folders: []string{"INBOX", "Sent"},
			Password: ptr("other"),
		}}}
		_, err := b.Import(b.ctx, e, ImportOptions{})
		wantError(t, err,
			"exists already with other settings", `port "993" becomes "143"`, "the password changes", "--update")
		if strings.Contains(err.Error(), "other\"") {
			t.Errorf("the error shows the password: %v", err)
		}
		for range 2 { // the second changes nothing
			if _, err := b.Import(b.ctx, e, ImportOptions{Update: true}); err != nil {
				t.Fatal(err)
			}
		}
		in := b.get("a@x.example")
		if in.Port != 143 || in.Security != STARTTLS || in.Description != "new" || in.Host != "imap.example.com" {
			t.Errorf("the inbox is %+v, want what the entry says, and the old host", in)
		}
		got, want := folderState(in), []string{"INBOX true", "Junk false", "Sent true"}
		if seen := in.Folders[0].LastSeenUID; !slices.Equal(got, want) || seen != 7 {
			t.Errorf("the folders are %q, the cursor of INBOX is %d; want Junk no longer watched, and 7", got, seen)
		}
		if p, err := b.Password(b.ctx, in); err != nil || p != "other" {
			t.Errorf("the password is %q, %v; want other", p, err)
		}
		plans, err := b.PlanImport(b.ctx, e, ImportOptions{})
		if err != nil || text.Effects(plans) != "" || text.EffectCounts(plans) != "0 new, 0 changed, 1 unchanged.\n" {
			t.Errorf("the same again plans %v, %v; want nothing", text.Effects(plans), err)
		}
	})
}

// TestImportEnables: an inbox that becomes active has a line about it in its audit trail, once.
func TestImportEnables(t *testing.T) {
	b := sqliteBench(t)
	b.add("a@x.example")
	b.exec("UPDATE monitored_emails SET is_active = 0")
	for range 2 {
		list := []Entry{{Address: "a@x.example", Active: ptr(true)}}
		o := ImportOptions{Update: true, Who: "anna", Detail: "by an operator"}
		if _, err := b.Import(b.ctx, list, o); err != nil {
			t.Fatal(err)
		}
	}
	if got := b.trail(); !slices.Equal(got, []string{"1 enabled anna by an operator"}) {
		t.Errorf("the trail is %q, want that anna enabled it, once", got)
	}
}

// TestExportIsImported: what CSV writes is the same inbox again, whatever its texts are.
func TestExportIsImported(t *testing.T) {
	b := sqliteBench(t)
	in := Inbox{
		Address: "a@x.example", Host: "h.example", Port: 1143, Security: None, AllowPlaintext: true, Username: " =u\t",
		Auth: "login", Start: "since:2026-01-31", Description: " +1, \"two\";\r\n\\ Büro\r",
	}
	for _, name := range []string{"INBOX", `a;b\c`, `d\\`, "e, f", "trail ", " \u00a0lead", " ", `g\ `} {
		in.Folders = append(in.Folders, Folder{Name: name})
	}
	if _, err := b.Add(b.ctx, in, "env:PASSWORD"); err != nil {
		t.Fatal(err)
	}
	all, err := b.List(b.ctx)
	if err != nil {
		t.Fatal(err)
	}
	csv, err := b.CSV(all)
	if err != nil {
		t.Fatal(err)
	}
	list, err := ReadCSV("e.csv", strings.NewReader(csv), errors.New("exposed"))
	if err != nil {
		t.Fatal(err)
	}
	plans, err := b.PlanImport(b.ctx, list, ImportOptions{})
	if err != nil || text.Effects(plans) != "" {
		t.Errorf("what is exported differs: %q, %v:\n%s", text.Effects(plans), err, csv)
	}
}

// TestCSVPassword: the place of a password is never stored as a password.
func TestCSVPassword(t *testing.T) {
	for field, want := range map[string]string{
		`" env:DESK "`:       "env:DESK",
		"\t\u00a0oauth:corp": "oauth:corp",
		`" se same "`:        " se same ",
		"myfile:x":           "myfile:x",
		"ENV:s3cret":         "the password begins with ENV:; write the place",
		`" Command:s3cret"`:  "the password begins with Command:; write the place",
	} {
		list, err := ReadCSV("f.csv", strings.NewReader("address,password\na@x.example,"+field+"\n"), nil)
		if err != nil {
			t.Fatal(err)
		}
		got, refused := *list[0].Set.Password, list[0].Fault != nil
		if refused {
			got = list[0].Fault.Error()
		}
		if !strings.HasPrefix(got, want) || refused && strings.Contains(got, "s3cret") || !refused && got != want {
			t.Errorf("%s: got %q, want %q", field, got, want)
		}
	}
}

// TestUnstored: what an import would store can log in before it is stored.
func TestUnstored(t *testing.T) {
	b := sqliteBench(t)
	for _, address := range []string{"changed@x.example", "same@x.example", "moved@x.example"} {
		b.add(address)
	}
	list := []Entry{
		{Address: "new@x.example", Set: Changes{Host: ptr("h.example"), Password: ptr("one")}},
		{Address: "changed@x.example", Set: Changes{Password: ptr("two")}},
		{Address: "same@x.example"},
		{Address: "moved@x.example", Set: Changes{Host: ptr("h.example")}},
	}
	plans, err := b.PlanImport(b.ctx, list, ImportOptions{Update: true})
	if err != nil {
		t.Fatal(err)
	}
	if plans, err = b.Unstored(b.ctx, plans); err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for _, p := range plans {
		password, err := b.Password(b.ctx, p.New)
		if err != nil {
			t.Error(err)
		}
		got[p.New.Address] = password
	}
	if want := "map[changed@x.example:two moved@x.example:hunter2 new@x.example:one]"; fmt.Sprint(got) != want {
		t.Errorf("the passwords are %v, want %s", got, want)
	}
	if in := b.get("changed@x.example"); in.Password == secret.String(got["changed@x.example"]) {
		t.Error("the password is stored")
	}
}

// TestImportWithoutKey: an import makes no new key while passwords are encrypted with another one.
func TestImportWithoutKey(t *testing.T) {
	b := sqliteBench(t)
	b.add("old@x.example")
	other := New(b.db, OpenSealer(filepath.Join(t.TempDir(), "other.key")))
	if _, err := other.Import(b.ctx, entries(1), ImportOptions{}); !errors.Is(err, ErrNoKey) {
		t.Errorf("the import ends with %v, want ErrNoKey", err)
	}
	plans, err := other.PlanImport(b.ctx, entries(1), ImportOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := other.Unstored(b.ctx, plans); !errors.Is(err, ErrNoKey) {
		t.Errorf("before a login it ends with %v, want ErrNoKey", err)
	}
}
