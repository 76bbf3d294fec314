package e2e

import (
	"encoding/json"
	"errors"
	"io/fs"
	"math/rand/v2"
	"os"
	"strings"
	"testing"
	"time"

	"gorm.io/gorm"

	"postrider/internal/db"
)

// TestBrokenEdit: a pass with a configuration that an edit broke says what is wrong and exits 2. Where what it takes to register
// is sound, new mail is registered and nothing goes out, else nothing is touched; once it is mended, what came meanwhile is forwarded,
// each once, and what was expunged is known to have been there.
func TestBrokenEdit(t *testing.T) {
	routes := func(text string) func(*world) { return func(w *world) { w.routes = text; w.configure() } }
	replace := func(old, now string) func(*world) {
		return func(w *world) { w.rewrite(func(text string) string { return strings.Replace(text, old, now, 1) }) }
	}
	edits := map[string]struct {
		edit      func(w *world)
		says      string
		registers bool
	}{
		"a key of a route": {routes("  - {name: all, match: {subjct: x}, to: [intake@firm.example]}\n"), "subjct", true},
		"an address":       {routes("  - {name: all, match: {}, to: [intake]}\n"), "routes[0].to[0]", true},
		"a regexp":         {routes("  - {name: all, match: {subject: '/(/'}, to: [intake@firm.example]}\n"), "routes[0].match.subject", true},
		"an indentation":   {routes("  - name: all\n   match: {}\n    to: [intake@firm.example]\n"), "is not valid YAML", true},
		"an indentation, and the default database": {func(w *world) {
			w.routes = "  - name: all\n   match: {}\n    to: [intake@firm.example]\n"
			w.configure()
			w.rewrite(func(text string) string { return text[strings.Index(text, "smtp:"):] })
		}, "is not valid YAML", true},
		"a port":                  {func(w *world) { w.smtp = "host: 127.0.0.1, port: none"; w.configure() }, "smtp.port", true},
		"an unknown section":      {func(w *world) { w.extra = "rotues: []\n"; w.configure() }, "rotues", true},
		"the driver":              {replace("sqlite", "sqllite"), "database.driver", false},
		"the name of the section": {replace("database", "databse"), "databse", false},
		"no section at all":       {replace("secrets: {", "secrets: "), "is not valid YAML", false},
		"no YAML":                 {func(w *world) { w.rewrite(func(string) string { return "routes: [" }) }, "postrider.yaml", false},
		"gone": {func(w *world) {
			if err := os.Remove(w.path("postrider.yaml")); err != nil {
				w.t.Fatal(err)
			}
		}, "postrider.yaml", false},
	}
	for name, tt := range edits {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, "sqlite")
			w.addInbox(desk, "--start", "all")
			before, meanwhile := mails(2, "before"), mails(3, "meanwhile")
			w.imap.Append(t, desk, "INBOX", before...)
			w.pass(0)
			sound := *w
			tt.edit(w)
			uids := w.imap.Append(t, desk, "INBOX", meanwhile...)
			for range 2 { // the second one finds nothing new
				res := w.must(2, "run", "--json")
				if !strings.Contains(res.stderr, tt.says) || strings.Contains(res.stderr, "only registered") != tt.registers {
					t.Errorf("run says %q, want %q in it, and that new messages are only registered: %t", res.stderr, tt.says, tt.registers)
				}
				if json.Valid([]byte(res.stdout)) != tt.registers {
					t.Errorf("run prints %q, want a report: %t", res.stdout, tt.registers)
				}
			}
			w.wantOnce(before)
			if tt.registers {
				w.imap.Expunge(t, desk, "INBOX", uids[0])
				meanwhile = meanwhile[1:]
			}
			w.smtp, w.extra, w.routes = sound.smtp, sound.extra, sound.routes
			w.configure()
			known := w.tasks()
			want := counters{Registered: 3, Forwarded: 3}
			if tt.registers {
				want = counters{Forwarded: 2, Skipped: 1}
			}
			if n := len(known) - 2; n != 3-want.Registered {
				t.Errorf("%d messages are registered by runs with a broken configuration, want %d", n, 3-want.Registered)
			}
			if r, _ := w.pass(0); r.Totals != want {
				t.Errorf("the pass with the mended configuration reports %+v, want %+v", r.Totals, want)
			}
			w.wantOnce(before, meanwhile)
			for _, one := range w.tasks("--status", "forwarded") {
				if one.Route != "all" || one.Attempts != 1 {
					t.Errorf("a message went by route %q in %d attempts, want route all in one", one.Route, one.Attempts)
				}
			}
		})
	}
}

// TestBrokenEditOnServers: the same where the database is a server.
func TestBrokenEditOnServers(t *testing.T) {
	onEach(t, []string{"mariadb", "mysql"}, func(t *testing.T, w *world) {
		w.addInbox(desk, "--start", "all")
		w.pass(0)
		sound := w.routes
		w.routes = "  - {name: all, match: {subject: '/(/'}, to: [intake@firm.example]}\n"
		w.configure()
		meanwhile := mails(3, "meanwhile")
		w.imap.Append(t, desk, "INBOX", meanwhile...)
		if r, _ := w.pass(2); r.Totals != (counters{Registered: 3}) {
			t.Errorf("a run with a broken configuration reports %+v, want three registered", r.Totals)
		}
		w.wantOnce()
		w.routes = sound
		w.configure()
		if r, _ := w.pass(0); r.Totals != (counters{Forwarded: 3}) {
			t.Errorf("the pass with the mended configuration reports %+v, want three forwarded", r.Totals)
		}
		w.wantOnce(meanwhile)
	})
}

// TestBrokenEditKilled: runs with a broken configuration are killed at any time, and two of them are at it at once.
func TestBrokenEditKilled(t *testing.T) {
	onEach(t, []string{"sqlite", "mariadb"}, func(t *testing.T, w *world) {
		w.extra = "concurrency: {page: 5, lease: 1s}\n"
		w.addInbox(desk, "--start", "all")
		w.configure()
		w.pass(0)
		sound := w.routes
		w.routes = "  - name: all\n   match: {}\n"
		w.configure()
		meanwhile := mails(300, "meanwhile")
		w.imap.Append(t, desk, "INBOX", meanwhile...)
		kills := 0
		w.eventually(func() bool {
			a, b := w.start(nil, "run", "--json"), w.start(nil, "run", "--json")
			timer := time.AfterFunc(time.Duration(30+rand.IntN(100+50*kills))*time.Millisecond, func() {
				_, _ = a.cmd.Process.Kill(), b.cmd.Process.Kill()
			})
			for _, res := range []result{a.wait(), b.wait()} {
				if res.code == -1 {
					kills++
				} else if res.code != 2 {
					t.Fatalf("run with a broken configuration: exit %d, want 2\n%s", res.code, res.stderr)
				}
			}
			timer.Stop()
			return w.registered() == len(meanwhile)
		})
		w.wantOnce()
		w.routes = sound
		w.configure()
		var total counters
		w.eventually(func() bool { // one that comes soon after a kill steps aside
			r, _ := w.pass(0)
			total.Registered += r.Totals.Registered
			total.Forwarded += r.Totals.Forwarded
			return total.Forwarded > 0
		})
		if total != (counters{Forwarded: len(meanwhile)}) {
			t.Errorf("with the mended configuration it reports %+v, want all forwarded and none registered", total)
		}
		w.wantOnce(meanwhile)
		if kills == 0 {
			t.Error("no run was killed")
		}
		t.Logf("%d kills", kills)
	})
}

// registered counts the tasks, whatever the configuration is like.
func (w *world) registered() (n int) {
	w.behind(func(tx *gorm.DB) error { return tx.Raw("SELECT COUNT(*) FROM monitored_emails_tasks").Scan(&n).Error })
	return n
}

// TestBrokenBefore: where no pass has worked before, a broken configuration leaves everything untouched: there is no database file, and an
// inbox that was never scanned gets no cursor.
func TestBrokenBefore(t *testing.T) {
	w := newWorld(t, "sqlite")
	w.addInbox(desk, "--start", "now")
	w.imap.Append(t, desk, "INBOX", mails(1, "before the start")...)
	sound := w.routes
	w.routes = "  - {name: all, match: {}, to: [intake]}\n"
	w.configure()
	if res := w.must(2, "run", "--json"); strings.Contains(res.stderr, "registered") || res.stdout != "" {
		t.Errorf("run prints %q and says %q, want neither a report nor a word of registering", res.stdout, res.stderr)
	}
	w.imap.Append(t, desk, "INBOX", mails(1, "before the start, too")...)
	w.rewrite(func(text string) string { return strings.Replace(text, "postrider.db", "other.db", 1) })
	w.must(2, "run")
	if _, err := os.Stat(w.path("other.db")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("there is a database file (%v), want none made by a broken configuration", err)
	}
	w.routes = sound
	w.configure()
	if r, _ := w.pass(0); r.Totals != (counters{}) {
		t.Errorf("the first pass reports %+v, want nothing: all of it was there before the start", r.Totals)
	}
}

// rewrite changes the configuration file as it is.
func (w *world) rewrite(change func(string) string) {
	w.t.Helper()
	text, err := os.ReadFile(w.path("postrider.yaml"))
	if err == nil {
		err = os.WriteFile(w.path("postrider.yaml"), []byte(change(string(text))), 0o600)
	}
	if err != nil {
		w.t.Fatal(err)
	}
}

// TestBrokenContacts: contacts that were broken by hand in the database keep nothing from being registered, nor the others
// from being found, and the log names them.
func TestBrokenContacts(t *testing.T) {
	w := newWorld(t, "sqlite")
	w.routes = "  - {name: people, match: {}, to_contacts: {in: [subject]}}\n  - {name: rest, match: {}, to: [intake@firm.example]}\n"
	w.configure()
	w.must(0, "contact", "add", "Anna Brown", "--email", "anna@firm.example")
	w.must(0, "contact", "add", "Bert Green", "--email", "bert@firm.example")
	w.must(0, "contact", "add", "Cora White", "--email", "cora@firm.example", "--keyword", "file 4711")
	w.addInbox(desk, "--start", "all")
	d, err := db.Open(t.Context(), db.Config{Driver: db.SQLite, Path: w.path("postrider.db")})
	if err != nil {
		t.Fatal(err)
	}
	err = d.Tx(t.Context(), func(tx *gorm.DB) error {
		if err := tx.Exec("UPDATE contacts SET email = 'b, c@firm' WHERE name = 'Bert Green'").Error; err != nil {
			return err
		}
		return tx.Exec("UPDATE contacts SET name = '', keywords = ';x;' WHERE name = 'Cora White'").Error
	})
	if err != nil {
		t.Fatal(err)
	}
	_ = d.Close()
	for _, subject := range []string{"to Anna Brown", "to Bert Green", "file 4711"} {
		w.imap.Append(t, desk, "INBOX", mails(1, subject)...)
	}
	r, res := w.pass(0)
	if r.Totals.Registered != 3 || r.Totals.Forwarded != 3 {
		t.Errorf("the pass reports %+v, want three registered and forwarded\n%s", r.Totals, res.stderr)
	}
	for _, says := range []string{"Bert Green", "b, c@firm", "the name is missing", "too short"} {
		if !strings.Contains(res.stderr, says) {
			t.Errorf("run says\n%s\nwant %q in it", res.stderr, says)
		}
	}
	if got := w.perRecipient(); got["anna@firm.example"] != 1 || got["intake@firm.example"] != 2 {
		t.Errorf("copies that arrived: %v, want one for anna@ and two for intake@", got)
	}
}
