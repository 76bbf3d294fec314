package inbox

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestDraft: a draft has what Add would store, is refused as by Add, and stores nothing.
func TestDraft(t *testing.T) {
	b := sqliteBench(t)
	dir := t.TempDir()
	file := filepath.Join(dir, "password")
	if err := os.WriteFile(file, []byte("from a file\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	b.Store = New(b.db, b.sealer, dir)
	in := Inbox{
		Address: "Desk@Firm.example", Host: "imap.firm.example", Folders: []Folder{{Name: "inbox"}, {Name: "Junk"}},
	}
	for password, want := range map[string]string{"sesame": "sesame", "file:" + file: "from a file"} {
		draft, got, err := b.Draft(b.ctx, in, password)
		if err != nil || got != want || draft.Address != "desk@firm.example" || draft.Username != "Desk@Firm.example" ||
			draft.Server() != "imap.firm.example:993 tls" || len(draft.Watched()) != 2 || draft.ID != 0 {
			t.Errorf("Draft with %s = %+v, %q, %v; want what Add would store, and %q", password, draft, got, err, want)
		}
	}
	for password, says := range map[string]string{
		"":                         "the password is empty",
		"one\ntwo":                 "the password has 2 lines, and must have one",
		"file:/etc/hostname":       "secrets.files_in",
		"env:POSTRIDER_TEST_UNSET": "is not set",
	} {
		_, _, err := b.Draft(b.ctx, in, password)
		wantError(t, err, says)
		if _, wrong := errors.AsType[*InvalidError](err); wrong == strings.HasPrefix(password, "env:") {
			t.Errorf("Draft with %q: %T, want an *InvalidError unless the variable is missing", password, err)
		}
	}
	in.Host = "imap.firm.example:993"
	var invalid *InvalidError
	if _, _, err := b.Draft(b.ctx, in, "sesame"); !errors.As(err, &invalid) {
		t.Errorf("a host with a port is %v, want an *InvalidError", err)
	}
	if all, err := b.List(b.ctx); err != nil || len(all) != 0 {
		t.Errorf("there are %d inboxes (%v), want none", len(all), err)
	}
}
