package config

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"postrider/internal/testserver/effort"

	"postrider/internal/secret"
)

// marker stands in each secret of these tests, and must not stand in a error.
const marker = "hunter2"

// secretKeys are the keys with a secret, and how one that holds a password is written.
var secretKeys = []struct{ name, before, after string }{
	{"smtp.password", "", ""},
	{"database.dsn", "user:", "@tcp(h:3306)/d"},
	{"imap.proxy", "http://user:", "@proxy.example:3128"},
}

// FuzzLoad looks for panics, for endless work, and for the password in a error.
func FuzzLoad(f *testing.F) {
	files, _ := filepath.Glob("testdata/*.yaml")
	for _, name := range append(files, examplePath) {
		src, err := os.ReadFile(name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(string(src))
	}
	for _, s := range []string{minimal, "? [a]\n: b", "a: !!int x", "--- |", "%YAML 9"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		env := variables("POSTRIDER_DATABASE_DSN", "d", "POSTRIDER_SMTP_PASSWORD", marker,
			"POSTRIDER_IMAP_PROXY", "direct")
		effort.Within(t, len(text), func() {
			if got := errorsOf(text, true, env); strings.Contains(got, marker) && !strings.Contains(text, marker) {
				t.Errorf("a error shows the password: %s", got)
			}
		})
	})
}

// FuzzSecret: whatever characters a password has, and however it is quoted, no error shows it, be
// it one of the text, of the value or of other keys, and be the file private or not.
func FuzzSecret(f *testing.F) {
	for i, s := range []string{
		"", "*", "&", "!", "!!", "%", "@", "`", "[", "{", "|", ">", "? ", "- ", "\"", "'", "#", ": ", " #", "<<: *",
		"\\x", "%zz", "/", "?", ":", "%zz", "%zz", // thrice: in each of the quotes
	} {
		for key := range secretKeys {
			f.Add(s, "", uint(key+3*i))
			f.Add("", s, uint(key+3*i))
		}
	}
	f.Fuzz(func(t *testing.T, before, after string, bits uint) {
		key := secretKeys[bits%3]
		value := key.before + before + marker + after + key.after
		if strings.ContainsAny(value, "\r\n\u0085\u2028\u2029") ||
			strings.Contains(value, "env:") || strings.Contains(value, "file:") {
			t.Skip("more than one line, or a name that is shown on purpose")
		}
		switch bits / 3 % 3 {
		case 1:
			value = strconv.Quote(value)
		case 2:
			value = "'" + strings.ReplaceAll(value, "'", "''") + "'"
		}
		section, name, _ := strings.Cut(key.name, ".")
		got := errorsOf(section+":\n  "+name+": "+value+"\nretry: {max: x}\n", bits&64 != 0, variables())
		if strings.Contains(got, marker) {
			t.Errorf("a error shows the secret of %s: %s", key.name, got)
		}
	})
}

// FuzzVariable: no value of an environment variable makes the reader fail, a error names the
// variable, and no error shows a secret.
func FuzzVariable(f *testing.F) {
	for i := range leaves(Default()) {
		for _, v := range []string{"", "x", "-1", "1h", "\x00\xff", "a\nb", "http://user:hunter2@h:x/"} {
			f.Add(uint(i), v)
		}
	}
	f.Fuzz(func(t *testing.T, n uint, value string) {
		all := leaves(Default())
		leaf := all[n%uint(len(all))]
		key := leaf.name
		if strings.HasSuffix(key, "ca_file") || strings.HasSuffix(key, "client_cert") ||
			strings.HasPrefix(value, "file:") {
			t.Skip("names a file, which may be a device that never ends")
		}
		got := errorsOf(minimal, true, variables(variable(key), value))
		for line := range strings.Lines(got) {
			if !strings.HasPrefix(line, variable(key)+": ") && !strings.HasPrefix(line, "postrider.yaml") {
				t.Errorf("%s=%q: a error begins another way than with where it is:\n%s", variable(key), value, got)
			}
		}
		_, hidden := leaf.value.Addr().Interface().(*secret.String)
		if hidden && strings.Contains(value, marker) && strings.Contains(got, marker) &&
			!strings.HasPrefix(value, "env:") {
			t.Errorf("a error shows the secret of %s: %s", key, got)
		}
	})
}

// errorsOf is Load of a text instead of a file.
func errorsOf(text string, private bool, env Lookup) string {
	root, err := parse("postrider.yaml", []byte(text))
	if err != nil {
		return err.Error()
	}
	r, c := newReader("postrider.yaml", env, private), Default()
	r.file(root, c)
	c.SMTP.CAFile, c.SMTP.ClientCert, c.IMAP.CAFile = "", "", ""
	r.finish(c)
	return r.errs.sorted().Error()
}
