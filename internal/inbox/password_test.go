package inbox

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"

	"gorm.io/gorm"

	"postrider/internal/db"
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
	file := filepath.Join(t.TempDir(), "password")
	if err := os.WriteFile(file, []byte("from a file\n"), 0o600); err != nil {
		t.Fatal(err)
	}
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
		if in.PasswordFrom() != ref {
			t.Errorf("PasswordFrom() = %q, want %q", in.PasswordFrom(), ref)
		}
	}
	if _, err := os.Stat(b.sealer.path); err == nil {
		t.Error("a key file was created, want none: no password was encrypted")
	}
	_, err := b.Password(b.ctx, Inbox{Address: "a@x.org", Password: "env:POSTRIDER_TEST_NO_SUCH"})
	wantError(t, err, "a@x.org", "POSTRIDER_TEST_NO_SUCH")
	_, err = b.Password(b.ctx, Inbox{Address: "a@x.org", Password: "plain"})
	wantError(t, err, "a@x.org", "inbox set a@x.org --password-stdin")
	if strings.Contains(err.Error(), "plain") {
		t.Errorf("the error is %q, want it without the password", err)
	}
}

func TestUnsealRefuses(t *testing.T) {
	sealer := OpenSealer(filepath.Join(t.TempDir(), "key"))
	sealed, err := sealer.Seal("a@x.org", "hunter2")
	if err != nil {
		t.Fatal(err)
	}
	if again, err := sealer.Seal("a@x.org", "hunter2"); err != nil || again == sealed {
		t.Errorf("the same password encrypts to the same text (%v), want another one, because the nonce is random", err)
	}
	other := OpenSealer(filepath.Join(t.TempDir(), "key"))
	if _, err := other.Seal("b@x.org", "x"); err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		name            string
		sealer          *Sealer
		address, sealed string
		want            string
	}{
		{"copied to another inbox", sealer, "b@x.org", sealed, "inbox set b@x.org --password-stdin"},
		{"another key", other, "a@x.org", sealed, "inbox set a@x.org --password-stdin"},
		{"cut off", sealer, "a@x.org", sealed[:20], "damaged"},
		{"no base64", sealer, "a@x.org", "v1:***", "damaged"},
		{"changed", sealer, "a@x.org", sealed[:len(sealed)-8] + "AAAAAAA=", "inbox set a@x.org --password-stdin"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := tt.sealer.Unseal(tt.address, tt.sealed)
			wantError(t, err, tt.address, tt.want)
		})
	}
}

func TestKeyFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "key")
	var wg sync.WaitGroup
	sealed := make([]string, 8)
	for i := range sealed {
		wg.Go(func() { // each with its own Sealer, like several processes
			var err error
			if sealed[i], err = OpenSealer(path).Seal("a@x.org", "hunter2"); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	for i, s := range sealed {
		if got, err := OpenSealer(path).Unseal("a@x.org", s); err != nil || got != "hunter2" {
			t.Errorf("password %d cannot be decrypted with the key in the file: %v; "+
				"want all encrypted with that key", i, err)
		}
	}
	entries, err := os.ReadDir(filepath.Dir(path))
	if err != nil || len(entries) != 1 {
		t.Errorf("the directory holds %v (%v), want only the key file", entries, err)
	}
	if runtime.GOOS == "windows" {
		return
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the key file has mode %v (%v), want 0600", info.Mode(), err)
	}
	if err := os.Chmod(path, 0o640); err != nil {
		t.Fatal(err)
	}
	_, err = OpenSealer(path).Unseal("a@x.org", sealed[0])
	wantError(t, err, "chmod 600 "+path)
}

func TestKeyFileWithoutAKey(t *testing.T) {
	for name, content := range map[string]string{
		"empty": "", "only a comment": "# x\n", "text": "hello\n",
		"too short": "AAAA\n",
	} {
		path := filepath.Join(t.TempDir(), "key")
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := OpenSealer(path).Seal("a@x.org", "x"); err == nil || !strings.Contains(err.Error(), path) {
			t.Errorf("%s: got %v, want an error that names the file", name, err)
		}
	}
	_, err := OpenSealer(filepath.Join(t.TempDir(), "no", "key")).Seal("a@x.org", "x")
	wantError(t, err, "secrets.key_file")
}

// A lost key is never replaced silently.
func TestLostKey(t *testing.T) {
	b := sqliteBench(t)
	b.add("a@x.org")
	b.add("b@x.org")
	if err := os.Remove(b.sealer.path); err != nil {
		t.Fatal(err)
	}
	b.Store = New(b.db, OpenSealer(b.sealer.path)) // as in another process
	_, unseal := b.Password(b.ctx, b.get("a@x.org"))
	_, add := b.Add(b.ctx, Inbox{Address: "c@x.org", Host: "h"}, "x")
	_, set := b.Set(b.ctx, "a@x.org", Changes{Password: ptr("x")})
	for doing, err := range map[string]error{"unseal": unseal, "add": add, "set": set} {
		if !errors.Is(err, ErrNoKey) || !strings.Contains(err.Error(), b.sealer.path) {
			t.Errorf("%s: got %v, want ErrNoKey that names the file", doing, err)
		}
	}
	if _, err := os.Stat(b.sealer.path); err == nil {
		t.Error("a new key was created, want none: passwords are encrypted with the old one")
	}
	b.remove("b@x.org")
	// No other password is encrypted: now a new key may be created.
	in, err := b.Set(b.ctx, "a@x.org", Changes{Password: ptr("new")})
	if err != nil {
		t.Fatal(err)
	}
	if got, err := b.Password(b.ctx, in); err != nil || got != "new" {
		t.Errorf("got %q (%v), want the new password", got, err)
	}
}

func TestStartSince(t *testing.T) {
	if day, ok := Start("since:2026-02-28").Since(); !ok || day.Format("2006-01-02") != "2026-02-28" {
		t.Errorf("Since() = %v, %v; want 2026-02-28", day, ok)
	}
	if _, ok := StartAll.Since(); ok {
		t.Error("Since() of the start all = true, want false")
	}
}
