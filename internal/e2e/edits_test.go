package e2e

import (
	"errors"
	"io/fs"
	"os"
	"strings"
	"testing"

	"gorm.io/gorm"

	"postrider/internal/db"
)

// TestBrokenConfiguration: a run whose configuration has errors prints them, exits with 2 and
// touches nothing. Messages that arrive meanwhile stay on their server, and the first run with the
// fixed file forwards each once.
func TestBrokenConfiguration(t *testing.T) {
	routes := func(text string) func(*world) { return func(w *world) { w.routes = text; w.configure() } }
	replace := func(old, now string) func(*world) {
		return func(w *world) { w.rewrite(func(text string) string { return strings.Replace(text, old, now, 1) }) }
	}
	edits := map[string]struct {
		edit func(w *world)
		says string
	}{
		"a key of a route": {
			routes("  - {name: all, match: {subjct: x}, to: [intake@firm.example]}\n"),
			"postrider.yaml:7:25: routes[0].match.subjct",
		},
		"an address": {
			routes("  - {name: all, match: {}, to: [intake]}\n"), "postrider.yaml:7:33: routes[0].to[0]",
		},
		"an indentation": {routes("  - name: all\n   match: {}\n"), "postrider.yaml:6: is not valid YAML"},
		"a port":         {func(w *world) { w.smtp = "host: 127.0.0.1, port: none"; w.configure() }, "smtp.port"},
		"the driver":     {replace("sqlite", "sqllite"), "database.driver"},
		"half a file": {func(w *world) {
			w.rewrite(func(string) string { return "routes: [" })
		}, "postrider.yaml"},
		"no file": {func(w *world) {
			if err := os.Remove(w.path("postrider.yaml")); err != nil {
				w.t.Fatal(err)
			}
		}, "there is no such file"},
	}
	for name, tt := range edits {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, "sqlite")
			w.addInbox(desk, "--start", "all")
			before, meanwhile := mails(2, "before"), mails(3, "meanwhile")
			w.imap.Append(t, desk, "INBOX", before...)
			w.pass(0)
			valid := *w
			tt.edit(w)
			w.imap.Append(t, desk, "INBOX", meanwhile...)
			res := w.must(2, "run", "--json")
			if !strings.Contains(res.stderr, tt.says) || res.stdout != "" {
				t.Errorf("run prints %q and %q, want no report and the error %q", res.stdout, res.stderr, tt.says)
			}
			w.wantOnce(before)
			w.smtp, w.routes = valid.smtp, valid.routes
			w.configure()
			if n := len(w.tasks()); n != len(before) {
				t.Errorf("%d messages are registered, want the %d from before the edit", n, len(before))
			}
			if r, _ := w.pass(0); r.Totals != (counters{Registered: 3, Forwarded: 3}) {
				t.Errorf("the run with the fixed configuration reports %+v, want three registered and forwarded",
					r.Totals)
			}
			w.wantOnce(before, meanwhile)
		})
	}
}

// TestBrokenConfigurationFirst: before the first run, a broken configuration creates no database
// and no cursor.
func TestBrokenConfigurationFirst(t *testing.T) {
	w := newWorld(t, "sqlite")
	w.addInbox(desk, "--start", "now")
	w.imap.Append(t, desk, "INBOX", mails(1, "before the start")...)
	valid := w.routes
	w.routes = "  - {name: all, match: {}, to: [intake]}\n"
	w.configure()
	w.must(2, "run")
	w.imap.Append(t, desk, "INBOX", mails(1, "before the start, too")...)
	w.rewrite(func(text string) string { return strings.Replace(text, "postrider.db", "other.db", 1) })
	w.must(2, "run")
	if _, err := os.Stat(w.path("other.db")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("there is a database file (%v), want none from a broken configuration", err)
	}
	w.routes = valid
	w.configure()
	if r, _ := w.pass(0); r.Totals != (counters{}) {
		t.Errorf("the first run reports %+v, want nothing: both messages arrived before the start", r.Totals)
	}
}

// rewrite changes the text of the configuration file.
func (w *world) rewrite(change func(string) string) {
	w.t.Helper()
	text, err := os.ReadFile(w.path("postrider.yaml"))
	if err != nil {
		w.t.Fatal(err)
	}
	w.write("postrider.yaml", change(string(text)))
}

// TestBrokenContacts: somebody changed contacts in the database to what postrider would refuse. The
// log names them. Messages are still registered, and the other contacts are found.
func TestBrokenContacts(t *testing.T) {
	w := newWorld(t, "sqlite")
	w.routes = "  - {name: people, match: {}, to_contacts: {in: [subject]}}\n" +
		"  - {name: rest, match: {}, to: [intake@firm.example]}\n"
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
