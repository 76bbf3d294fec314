package inbox

import (
	"encoding/base64"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	"postrider/internal/secret"
)

const (
	fuzzKey      = "MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY="
	fuzzPassword = "hunter2"
	// for fuzzInbox
	fuzzSealed = "v1:i8v7a7VsXbo6xmSndB1S7fkVspPn7AsqflVdu3pyb59EW2eoBkIZUOh/aqCveRE="
)

// fuzzInbox is what fuzzSealed is bound to.
func fuzzInbox(address string) Inbox {
	return Inbox{Address: address, Host: "imap.x.example", Port: 993, Security: TLS, Username: "a"}
}

// FuzzUnseal checks that only an unchanged password of the same inbox can be decrypted, and that no
// error holds the password or the key.
func FuzzUnseal(f *testing.F) {
	path := filepath.Join(f.TempDir(), "key")
	if err := os.WriteFile(path, []byte(fuzzKey), 0o600); err != nil {
		f.Fatal(err)
	}
	store := &Store{sealer: OpenSealer(path)}
	const address, sealed = "a@x.example", fuzzSealed
	box := func(s string) string {
		b, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(s, sealedPrefix))
		if err != nil {
			return "damaged" // also when the part before the damage is complete
		}
		return string(b)
	}
	for _, s := range []string{
		sealed, "", "v1:", "v1:!", "v1:AAAA", "v2:" + sealed[3:], sealed[:len(sealed)-4],
		sealed + "\n", sealed + "\x10", "env:", "file:",
	} {
		f.Add(address, s, uint(0), byte(0))
	}
	f.Add("b@x.example", sealed, uint(0), byte(0))
	f.Fuzz(func(t *testing.T, who, stored string, at uint, flip byte) {
		if stored == "" { // use the encrypted password with one octet changed
			b := []byte(box(sealed))
			b[at%uint(len(b))] ^= flip
			stored = sealedPrefix + base64.StdEncoding.EncodeToString(b)
		}
		in := fuzzInbox(who)
		in.Password = secret.String(stored)
		got, err := store.Password(t.Context(), in)
		intact := who == address && strings.HasPrefix(stored, sealedPrefix) && box(stored) == box(sealed)
		if intact != (err == nil) || intact && got != fuzzPassword || !intact && got != "" {
			t.Errorf("%q for %q decrypts to %q, %v; want the password only when nothing was changed",
				stored, who, got, err)
		}
		if err != nil && !strings.Contains(who, fuzzPassword) &&
			(strings.Contains(err.Error(), fuzzPassword) || strings.Contains(err.Error(), fuzzKey)) {
			t.Errorf("the error is %q, want it without the password and the key", err)
		}
	})
}

// FuzzKeyFile checks that any content of a key file gives a key, or an error that does not hold the
// content.
func FuzzKeyFile(f *testing.F) {
	for _, s := range []string{
		fuzzKey, "", "#", "AAAA", "# a\r\n\r\n" + fuzzKey + "\r\n", fuzzKey[1:], "\x00",
		fuzzKey + "\n" + fuzzKey, "hunter2hunter2",
	} {
		f.Add(s)
	}
	path := filepath.Join(f.TempDir(), "key")
	f.Fuzz(func(t *testing.T, content string) {
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		key, err := OpenSealer(path).readKey()
		if (err == nil) != (len(key) == 32) {
			t.Errorf("the content %q gives the key %q (%v), want 32 octets or an error", content, key, err)
		}
		if line := strings.TrimSpace(content); err != nil && len(line) > 12 && strings.Contains(err.Error(), line) {
			t.Errorf("the error is %q, want it without the content of the file", err)
		}
	})
}

// FuzzSettings checks that accepted addresses, folders and starts can be stored and sent, and stay
// the same when they are parsed again.
func FuzzSettings(f *testing.F) {
	for _, s := range []string{
		"a@x.example", "A@X.example ", "Doe <a@x.example>", "a@x.example\r\nb", "\"a\x00b\"@x.example", "用户@例え.example",
		"latest", "now", "all", "since:2026-11-20", "since:2026-1-2", "since:0000-01-01", "since:", "Inbox",
		"INBOX", "Ärger/Ablage", "a\nb", "",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if address, err := ParseAddress(s); err == nil {
			if again, err := ParseAddress(address); err != nil || again != address {
				t.Errorf("ParseAddress(%q) = %q (%v), want no change", address, again, err)
			}
			if address != strings.ToLower(address) || strings.ContainsFunc(address, unicode.IsControl) ||
				!utf8.ValidString(address) || utf8.RuneCountInString(address) > maxText {
				t.Errorf("ParseAddress returns %q, want lower case, UTF-8 without control characters, "+
					"short enough for its column", address)
			}
		}
		if names, err := folderNames([]string{s, "Archive", s}); err == nil {
			if again, err := folderNames(names); err != nil || !slices.Equal(again, names) || len(names) > 2 ||
				strings.ContainsAny(names[0], "\r\n\x00") || !utf8.ValidString(names[0]) {
				t.Errorf("folders of %q are %q, then %q (%v), want each once, in UTF-8 without line breaks",
					s, names, again, err)
			}
			if strings.EqualFold(s, "INBOX") && names[0] != "INBOX" {
				t.Errorf("the folder name of %q is %q, want INBOX, which is case-insensitive", s, names[0])
			}
		}
		start := Start(s)
		day, dated := start.Since()
		known := start == StartLatest || start == StartNow || start == StartAll
		if err := start.check(); (err == nil) != (known || dated) || known && dated {
			t.Errorf("start %q: error %v, a date: %v; want an error when it is neither known nor a date", s, err, dated)
		}
		if dated && s != "since:"+day.Format(time.DateOnly) {
			t.Errorf("start %q is %s, want the same day", s, day)
		}
	})
}
