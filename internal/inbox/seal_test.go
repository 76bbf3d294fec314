package inbox

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"

	"postrider/internal/secret"
)

func TestKeyFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "key")
	var wg sync.WaitGroup
	sealed := make([]string, 8)
	for i := range sealed {
		wg.Go(func() { // each with its own Sealer, like several processes
			var err error
			if sealed[i], err = OpenSealer(path).Seal(Inbox{Address: "a@x.org"}, "hunter2"); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	for i, s := range sealed {
		in := Inbox{Address: "a@x.org", Password: secret.String(s)}
		if got, err := OpenSealer(path).Unseal(in); err != nil || got != "hunter2" {
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
	_, err = OpenSealer(path).Unseal(Inbox{Address: "a@x.org", Password: secret.String(sealed[0])})
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
		_, err := OpenSealer(path).Seal(Inbox{Address: "a@x.org"}, "x")
		if err == nil || !strings.Contains(err.Error(), path) {
			t.Errorf("%s: got %v, want an error that names the file", name, err)
		}
	}
	_, err := OpenSealer(filepath.Join(t.TempDir(), "no", "key")).Seal(Inbox{Address: "a@x.org"}, "x")
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
	// No other password is encrypted: now a new key may be created. Without the old one nothing
	// says whether the row is as postrider left it.
	_, err := b.Set(b.ctx, "a@x.org", Changes{Password: ptr("new")})
	wantError(t, err, b.sealer.path, setAgain("ADDR"))
	in, err := b.Set(b.ctx, "a@x.org", Changes{
		Host: ptr("imap.x.org"), Port: ptr(993), Security: ptr(TLS), Username: ptr("a"), Password: ptr("new"),
	})
	if err != nil {
		t.Fatal(err)
	}
	if got, err := b.Password(b.ctx, in); err != nil || got != "new" {
		t.Errorf("got %q (%v), want the new password", got, err)
	}
}

// TestLostKeyOfTokens checks that the key is not replaced either while only a token, such as that
// of the relay, is encrypted with it.
func TestLostKeyOfTokens(t *testing.T) {
	onEach(t, func(t *testing.T, b bench) {
		token := func(sealed string) {
			b.exec(`DELETE FROM oauth_tokens`)
			b.exec(`INSERT INTO oauth_tokens (account, app, sealed, generation, login_needed, holder, held_until)
				VALUES ('relay', 'corp', ?, 1, '', '', 0)`, sealed)
		}
		token("v1:AAAA")
		_, add := b.Add(b.ctx, Inbox{Address: "a@x.org", Host: "h"}, "x")
		_, encrypt := b.Encrypt(b.ctx, "token", nil)
		for doing, err := range map[string]error{"add": add, "encrypt": encrypt} {
			if !errors.Is(err, ErrNoKey) {
				t.Errorf("%s: got %v, want ErrNoKey", doing, err)
			}
		}
		if _, err := os.Stat(b.sealer.path); err == nil {
			t.Error("a new key was created, want none: a token is encrypted with the old one")
		}
		token("") // none yet
		b.add("a@x.org")
	})
}

// TestReplacedKey checks that a process that runs on goes on with a key that replaces the one it
// has read, as the error about a lost key says.
func TestReplacedKey(t *testing.T) {
	b := sqliteBench(t)
	b.add("a@x.org")
	path := b.sealer.path
	if _, err := b.Password(b.ctx, b.get("a@x.org")); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	box, err := b.Encrypt(b.ctx, "token", nil)
	if got, err2 := b.Decrypt(box, nil); err != nil || err2 != nil || got != "token" {
		t.Errorf("without the file: got %q (%v, %v), want it encrypted with the key that is known", got, err, err2)
	}
	if _, err := os.Stat(path); err == nil {
		t.Error("a new key was created, want none while a password is encrypted with the old one")
	}
	if err := OpenSealer(path).createKey(); err != nil {
		t.Fatal(err)
	}
	elsewhere := New(b.db, OpenSealer(path)) // as in another process
	if _, err := elsewhere.Set(b.ctx, "a@x.org", Changes{
		Host: ptr("imap.x.org"), Port: ptr(993), Security: ptr(TLS), Username: ptr("a"), Password: ptr("new"),
	}); err != nil {
		t.Fatal(err)
	}
	if box, err = b.Encrypt(b.ctx, "token", nil); err != nil {
		t.Fatal(err)
	}
	if got, err := elsewhere.Decrypt(box, nil); err != nil || got != "token" {
		t.Errorf("a token is decrypted as %q (%v), want it encrypted with the new key", got, err)
	}
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			if got, err := b.Password(b.ctx, b.get("a@x.org")); err != nil || got != "new" {
				t.Errorf("the password is %q (%v), want the one that was set with the new key", got, err)
			}
		})
	}
	wg.Wait()
}
