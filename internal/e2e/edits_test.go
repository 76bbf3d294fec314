package e2e

import (
	"os"
	"strings"
	"testing"

	"gorm.io/gorm"

	"postrider/internal/db"
)

// TestBrokenEdit: a pass with a broken configuration touches nothing and says what is wrong; once it is mended, what came
// meanwhile is registered and forwarded, each once.
func TestBrokenEdit(t *testing.T) {
	edits := map[string]struct {
		edit func(w *world)
		says string
	}{
		"a route": {func(w *world) {
			w.routes = "  - {name: all, match: {subjct: x}, to: [intake@firm.example]}\n"
			w.configure()
		}, "subjct"},
		"an address": {func(w *world) { w.routes = "  - {name: all, match: {}, to: [intake]}\n"; w.configure() }, "routes[0].to[0]"},
		"no YAML": {func(w *world) {
			if err := os.WriteFile(w.path("postrider.yaml"), []byte("routes: ["), 0o600); err != nil {
				w.t.Fatal(err)
			}
		}, "postrider.yaml"},
		"gone": {func(w *world) {
			if err := os.Remove(w.path("postrider.yaml")); err != nil {
				w.t.Fatal(err)
			}
		}, "postrider.yaml"},
	}
	for name, tt := range edits {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, "sqlite")
			w.addInbox(desk, "--start", "all")
			before, meanwhile := mails(2, "before"), mails(3, "meanwhile")
			w.imap.Append(t, desk, "INBOX", before...)
			w.pass(0)
			routes := w.routes
			tt.edit(w)
			w.imap.Append(t, desk, "INBOX", meanwhile...)
			if res := w.must(2, "run"); !strings.Contains(res.stderr, tt.says) {
				t.Errorf("run says %q, want %q in it", res.stderr, tt.says)
			}
			w.wantOnce(before)
			w.routes = routes
			w.configure()
			if n := len(w.tasks()); n != 2 {
				t.Errorf("%d messages are registered after a run with a broken configuration, want the two from before", n)
			}
			if r, _ := w.pass(0); r.Totals.Registered != 3 {
				t.Errorf("the pass with the mended configuration reports %+v, want three registered", r.Totals)
			}
			w.wantOnce(before, meanwhile)
		})
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
