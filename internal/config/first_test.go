package config

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"postrider/internal/secret"
)

// TestFirstKeepsValues: what is written is what is read again, whatever characters it has.
func TestFirstKeepsValues(t *testing.T) {
	odd := []string{
		"ann", "- ann", "a: b", "a #b", "*star", "&and", "!tag", "%", "@at", "`", "'", `"`, `\`, "{a}", "[a]", "a,b",
		"null", "true", "1.5", "0x1", "~", "=", "<<", "---", "...", "2026-01-01", "${x}",
		"two\nlines", "tab\t", " spaces ", "line\u2028separator", "\u0085", "\x00", "開廷",
		strings.Repeat("long and with spaces ", 20),
	}
	for _, value := range odd {
		password := strings.ReplaceAll(value, "\n", " ") // of which only one line is valid
		f := First{
			Host: "relay.firm.example", Username: value, Password: password,
			From: "a@firm.example", To: "b@firm.example",
		}
		c, err := f.Load(func(ref string) (string, error) { return ref, nil }, "postrider.yaml", variables())
		if err != nil {
			t.Errorf("username %q: %v", value, err)
		} else if c.SMTP.Username != value || string(c.SMTP.Password) != password {
			t.Errorf("username %q is read as %q", value, c.SMTP.Username)
		}
	}
	if _, err := (First{Host: "\xff"}).Load(secret.Resolve, "postrider.yaml", variables()); err == nil {
		t.Error("a host that is not UTF-8 is valid, want an error")
	}
}

// TestFirst: the file sets what was given and nothing else, and what its comments show is valid
// and, where it is a default, the default.
func TestFirst(t *testing.T) {
	for _, f := range []First{
		{Host: "relay.firm.example", From: "a@firm.example", To: "b@firm.example"},
		{
			Host: "h", Port: 2525, Security: "tls", Username: "ann", Password: "env:PW",
			From: "A <a@firm.example>", To: "b@firm.example",
		},
	} {
		resolve := func(string) (string, error) { return "sesame", nil }
		c, err := f.Load(resolve, "/etc/postrider.yaml", variables())
		if err != nil {
			t.Fatal(err)
		}
		got := First{
			Host: c.SMTP.Host, Security: f.Security, Port: f.Port, Username: c.SMTP.Username, Password: f.Password,
			From: c.Forward.From, To: c.Routes[0].To[0],
		}
		if got != f || len(c.Routes) != 1 {
			t.Errorf("it reads as %+v, want %+v", got, f)
		}
		text, err := f.Text()
		if err != nil {
			t.Fatal(err)
		}
		all := regexp.MustCompile(`(?m)^( *)# (|  )([a-z_]+:( |$)|- name: )`).ReplaceAllString(string(text), "$1$2$3")
		whole, err := interpret(resolve, "/etc/postrider.yaml", []byte(all), true, variables())
		if err != nil {
			t.Fatalf("with its comments as keys: %v\n%s", err, all)
		}
		if len(whole.Routes) != 2 || len(whole.Notify.To) != 1 {
			t.Errorf("with its comments as keys it has %d routes and notifies %v; want 2, and an address",
				len(whole.Routes), whole.Notify.To)
		}
		for _, same := range [][2]any{
			{whole.Database, c.Database},
			{whole.Secrets, c.Secrets},
			{whole.Forward, c.Forward},
			{whole.SMTP.Port, c.SMTP.Port},
			{whole.SMTP.Security, c.SMTP.Security},
		} {
			if !reflect.DeepEqual(same[0], same[1]) {
				t.Errorf("its comments show %+v, want the default %+v", same[0], same[1])
			}
		}
	}
}

// TestFirstComments: comments begin in one column, whatever the values before them.
func TestFirstComments(t *testing.T) {
	text, err := First{Host: "h", Port: 465, Security: "starttls", From: "a@firm.example", To: "b@firm.example"}.Text()
	if err != nil {
		t.Fatal(err)
	}
	for _, key := range []string{"smtp:", "  port: 465", "  security: starttls", "routes:"} {
		_, rest, _ := strings.Cut(string(text), "\n"+key)
		if spaces := strings.Index(rest, "#"); len(key)+spaces != 34 {
			t.Errorf("the comment of %q begins in column %d, want 34:\n%s", key, len(key)+spaces, text)
		}
	}
}

func TestCreate(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "postrider.yaml")
	if err := Create(path, []byte("one")); err != nil {
		t.Fatal(err)
	}
	if err := Create(path, []byte("two")); !errors.Is(err, fs.ErrExist) {
		t.Errorf("Create of a file that exists = %v, want fs.ErrExist", err)
	}
	if err := os.Symlink("elsewhere", filepath.Join(dir, "link")); err != nil {
		t.Skip("no symbolic links here:", err)
	}
	if err := Create(filepath.Join(dir, "link"), []byte("two")); !errors.Is(err, fs.ErrExist) {
		t.Errorf("Create of a symbolic link = %v, want fs.ErrExist", err)
	}
	if got, err := os.ReadFile(path); err != nil || string(got) != "one" {
		t.Errorf("the file holds %q, %v; want what was written first", got, err)
	}
	all, err := os.ReadDir(dir)
	if err != nil || len(all) != 2 {
		t.Errorf("the directory has %v, %v; want no temporary files", all, err)
	}
}
