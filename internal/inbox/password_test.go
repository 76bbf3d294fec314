package inbox

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"gorm.io/gorm"

	"postrider/internal/db"
	"postrider/internal/secret"
)

func sqliteBench(t *testing.T) bench {
	return newBench(t, db.Config{Driver: db.SQLite, Path: filepath.Join(t.TempDir(), "p.db")})
}

func TestPasswordIsStoredEncrypted(t *testing.T) {
	onEach(t, func(t *testing.T, b bench) {
		in := b.add("desk@firm.example")
		if got, err := b.Password(b.ctx, in); err != nil || got != "hunter2" {
			t.Errorf("the password comes back as %q (%v), want hunter2", got, err)
		}
		var stored string
		err := b.db.View(b.ctx, func(tx *gorm.DB) error {
			return tx.Raw(`SELECT email_password FROM monitored_emails`).Scan(&stored).Error
		})
		if err != nil || !strings.HasPrefix(stored, "v1:") || strings.Contains(stored, "hunter2") {
			t.Errorf("the database holds %q (%v), want v1: and ciphertext", stored, err)
		}
		if s := fmt.Sprintf("%+v %#v", in, in); strings.Contains(s, "hunter2") || strings.Contains(s, stored) {
			t.Errorf("an inbox prints as %s, want it without its password", s)
		}
		if in, err = b.Set(b.ctx, in.Address, Changes{Password: ptr("neu")}); err != nil {
			t.Fatal(err)
		}
		if got, err := b.Password(b.ctx, in); err != nil || got != "neu" {
			t.Errorf("the password comes back as %q (%v), want neu", got, err)
		}
	})
}

func TestPasswordByReference(t *testing.T) {
	b := sqliteBench(t)
	t.Setenv("POSTRIDER_TEST_PASSWORD", "from the environment")
	dir := t.TempDir()
	file := filepath.Join(dir, "password")
	if err := os.WriteFile(file, []byte("from a file\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	b.Store = New(b.db, b.sealer, dir)
	for ref, want := range map[string]string{
		"env:POSTRIDER_TEST_PASSWORD": "from the environment",
		"file:" + file:                "from a file",
	} {
		in, err := b.Add(b.ctx, Inbox{Address: ref[:3] + "@x.org", Host: "h"}, ref)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := b.Password(b.ctx, in); err != nil || got != want {
			t.Errorf("%s: got %q (%v), want %q", ref, got, err, want)
		}
		if got := b.PasswordFrom(in); got != ref {
			t.Errorf("PasswordFrom = %q, want %q", got, ref)
		}
		if strings.Contains(string(in.Password), ref) {
			t.Errorf("the database holds %s, want it encrypted", string(in.Password))
		}
	}
	in := b.add("a@x.org")
	if _, err := b.Set(b.ctx, in.Address, Changes{Password: ptr("env:POSTRIDER_TEST_NO_SUCH")}); err != nil {
		t.Fatal(err)
	}
	_, err := b.Password(b.ctx, b.get(in.Address))
	wantError(t, err, "a@x.org", "POSTRIDER_TEST_NO_SUCH")
	t.Setenv("POSTRIDER_TEST_NO_SUCH", "sesame\nlogin: a")
	_, err = b.Password(b.ctx, b.get(in.Address))
	wantError(t, err, "the password of inbox a@x.org has 2 lines, and must have one", "head -n 1")
	_, err = b.Set(b.ctx, in.Address, Changes{Password: ptr("sesame\nlogin: a")})
	wantError(t, err, "the password has 2 lines")
	elsewhere := New(b.db, b.sealer, t.TempDir())
	_, err = elsewhere.Password(b.ctx, b.get("fil@x.org"))
	wantError(t, err, "fil@x.org", "secrets.files_in")
	_, err = elsewhere.Set(b.ctx, "a@x.org", Changes{Password: ptr("file:" + file)})
	wantError(t, err, file, "secrets.files_in")
	if !errors.As(err, new(*InvalidError)) {
		t.Errorf("the error is a %T, want an *InvalidError", err)
	}
}

// TestNotEncrypted checks that only postrider decides what a password is: neither a reference nor a
// password that somebody else wrote into the database is used.
func TestNotEncrypted(t *testing.T) {
	t.Setenv("POSTRIDER_TEST_PASSWORD", "from the environment")
	b := sqliteBench(t)
	in := b.add("a@x.org")
	for _, stored := range []string{"env:POSTRIDER_TEST_PASSWORD", "file:" + b.sealer.path, "plain", ""} {
		in.Password = secret.String(stored)
		got, err := b.Password(b.ctx, in)
		wantError(t, err, "a@x.org", "not encrypted", setAgain("a@x.org"))
		if got != "" || strings.Contains(err.Error(), "plain") {
			t.Errorf("stored as %q: got %q and the error %q, want no password", stored, got, err)
		}
		if got := b.PasswordFrom(in); got != "unusable" {
			t.Errorf("stored as %q: PasswordFrom = %q, want unusable", stored, got)
		}
	}
}

// TestBinding checks that a password can be decrypted only while nothing has changed that decides
// where it is sent.
func TestBinding(t *testing.T) {
	sealer := OpenSealer(filepath.Join(t.TempDir(), "key"))
	in := Inbox{Address: "a@x.org", Host: "imap.x.org", Port: 993, Security: TLS, Username: "ann"}
	seal := func(in Inbox) Inbox {
		box, err := sealer.Seal(in, "hunter2")
		if err != nil {
			t.Fatal(err)
		}
		in.Password = secret.String(box)
		return in
	}
	in = seal(in)
	if again := seal(in); again.Password == in.Password {
		t.Error("the same password encrypts to the same text, want another one, because the nonce is random")
	}
	box := string(in.Password)
	other := OpenSealer(filepath.Join(t.TempDir(), "key"))
	if _, err := other.Seal(in, "x"); err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		name   string
		change func(*Inbox)
		want   string // in the error; empty: it is decrypted
	}{
		{"nothing", func(*Inbox) {}, ""},
		{"the description", func(in *Inbox) { in.Description = "x" }, ""},
		{"host", func(in *Inbox) { in.Host = "evil.example" }, "evil.example:993 tls, ann"},
		{"port", func(in *Inbox) { in.Port = 994 }, "imap.x.org:994"},
		{"security", func(in *Inbox) { in.Security = None }, "imap.x.org:993 none"},
		{"username", func(in *Inbox) { in.Username = "anne" }, "changed by another program"},
		{"CA file", func(in *Inbox) { in.CAFile = "/evil.pem" }, "CA file /evil.pem"},
		{"TLS fingerprint", func(in *Inbox) { in.TLSFingerprint = "sha256:e0" }, "TLS fingerprint sha256:e0"},
		{"client certificate", func(in *Inbox) { in.ClientCert = "/evil.pem" }, "client certificate /evil.pem"},
		{"copied to another inbox", func(in *Inbox) { in.Address = "b@x.org" }, "inbox set b@x.org --host"},
		{"cut off", func(in *Inbox) { in.Password = secret.String(box[:20]) }, "damaged"},
		{"no base64", func(in *Inbox) { in.Password = "v1:***" }, "damaged"},
		{"an octet", func(in *Inbox) { in.Password = secret.String(box[:len(box)-8] + "AAAAAAA=") }, "changed"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			in := in
			tt.change(&in)
			got, err := sealer.Unseal(in)
			if tt.want == "" {
				if got != "hunter2" || err != nil {
					t.Errorf("got %q, %v; want hunter2", got, err)
				}
				return
			}
			wantError(t, err, in.Address, tt.want, setAgain(in.Address))
			if got != "" {
				t.Errorf("got %q, want no password", got)
			}
		})
	}
	_, err := other.Unseal(in)
	wantError(t, err, "a@x.org", "restore the old one", other.path)
}

// TestBindingIsUnambiguous checks that text cannot move from one field to the next.
func TestBindingIsUnambiguous(t *testing.T) {
	seen := map[string]Inbox{}
	for _, in := range []Inbox{
		{},
		{Address: "ab"},
		{Address: "a", Host: "b"},
		{Host: "ab"},
		{Host: "a", Port: 1},
		{Host: "a1"},
		{Port: 11},
		{Port: 1, Security: "1"},
		{Security: "ab"},
		{Security: "a", Username: "b"},
		{Username: "ab"},
		{CAFile: "ab"},
		{ClientCert: "ab"},
		{CAFile: "a", TLSFingerprint: "b"},
		{Username: "a\x00\x00\x00\x01b"},
		{Host: "a\x00\x00\x00\x01b"},
	} {
		b := string(binding(in))
		if first, twice := seen[b]; twice {
			t.Errorf("%+v and %+v have the same binding, want different ones", first, in)
		}
		seen[b] = in
	}
}

// TestSetAfterAChange checks what Set does with a row that something else has changed: nothing of
// it may decide where a password is sent.
func TestSetAfterAChange(t *testing.T) {
	onEach(t, func(t *testing.T, b bench) {
		b.add("a@x.org")
		b.exec(`UPDATE monitored_emails SET host = 'evil.example'`)
		for name, c := range map[string]Changes{
			"another host":     {Host: ptr("imap.x.org")},
			"another username": {Username: ptr("ann")},
			"a new password":   {Password: ptr("new")},
			"all but one": {
				Host: ptr("imap.x.org"), Security: ptr(TLS), Username: ptr("ann"), Password: ptr("new"),
			},
		} {
			_, err := b.Set(b.ctx, "a@x.org", c)
			wantError(t, err, "evil.example", setAgain("a@x.org"))
			if !errors.As(err, new(*InvalidError)) {
				t.Errorf("%s: the error is a %T, want an *InvalidError", name, err)
			}
		}
		if _, err := b.Set(b.ctx, "a@x.org", Changes{Description: ptr("x")}); err != nil {
			t.Errorf("the description: %v, want it changed", err)
		}
		if _, err := b.Password(b.ctx, b.get("a@x.org")); err == nil {
			t.Error("the password can be decrypted after a change of the description, want it unusable still")
		}
		in, err := b.Set(b.ctx, "a@x.org", Changes{
			Host: ptr("imap.x.org"), Port: ptr(993), Security: ptr(TLS), Username: ptr("ann"), Password: ptr("new"),
		})
		if err != nil {
			t.Fatal(err)
		}
		if got, err := b.Password(b.ctx, in); err != nil || got != "new" {
			t.Errorf("got %q (%v), want the new password", got, err)
		}
	})
}

func TestStartSince(t *testing.T) {
	if day, ok := Start("since:2026-02-28").Since(); !ok || day.Format("2006-01-02") != "2026-02-28" {
		t.Errorf("Since() = %v, %v; want 2026-02-28", day, ok)
	}
	if _, ok := StartAll.Since(); ok {
		t.Error("Since() of the start all = true, want false")
	}
}
