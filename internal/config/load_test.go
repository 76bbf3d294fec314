package config

import (
	"errors"
	"flag"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"postrider/internal/route"
	"postrider/internal/secret"
)

var update = flag.Bool("update", false, "write the golden files")

// variables is a stand-in for the environment.
func variables(kv ...string) Lookup {
	return func(name string) (string, bool) {
		for i := 0; i < len(kv); i += 2 {
			if kv[i] == name {
				return kv[i+1], true
			}
		}
		return "", false
	}
}

// minimal lacks nothing that is required.
const minimal = `
smtp: {host: smtp.example.com}
forward: {from: "Forwarder <forwarder@example.com>"}
routes: [{name: all, match: {}, to: desk@firm.example}]
`

// write makes a configuration file that only its owner can read, in a directory of its own.
func write(t testing.TB, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "postrider.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// loadFile runs no program.
func loadFile(path string, env Lookup, names ...string) (*Config, error) {
	return Load(secret.Resolve, path, env, names...)
}

func load(t *testing.T, text string, kv ...string) *Config {
	t.Helper()
	c, err := loadFile(write(t, text), variables(kv...))
	if err != nil {
		t.Fatalf("Load: %v", err)
	}
	return c
}

// loadErrors are the errors of a configuration that has to have some, without the directory.
func loadErrors(t *testing.T, path string, env Lookup) string {
	t.Helper()
	_, err := loadFile(path, env)
	var errs *Errors
	if !errors.As(err, &errs) {
		t.Fatalf("Load = %v, want errors of type *Errors", err)
	}
	return strings.ReplaceAll(err.Error(), filepath.Dir(path)+string(filepath.Separator), "")
}

func TestGolden(t *testing.T) {
	files, _ := filepath.Glob("testdata/*.yaml")
	if len(files) == 0 {
		t.Fatal("no files in testdata")
	}
	for _, f := range files {
		t.Run(filepath.Base(f), func(t *testing.T) {
			src, err := os.ReadFile(f)
			if err != nil {
				t.Fatal(err)
			}
			path := filepath.Join(t.TempDir(), filepath.Base(f))
			if err := os.WriteFile(path, src, 0o600); err != nil { // whatever the modes of the repository are
				t.Fatal(err)
			}
			got := loadErrors(t, path, variables()) + "\n"
			golden := strings.TrimSuffix(f, ".yaml") + ".golden"
			if *update {
				if err := os.WriteFile(golden, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			if got != string(want) {
				t.Errorf("errors are\n%s\nwant\n%s", got, want)
			}
		})
	}
}

func TestMinimal(t *testing.T) {
	path := write(t, minimal)
	got, err := loadFile(path, variables())
	if err != nil {
		t.Fatal(err)
	}
	want := Default()
	want.Database.Path = filepath.Join(filepath.Dir(path), "postrider.db")
	want.Secrets.KeyFile = filepath.Join(filepath.Dir(path), "postrider.key")
	want.Secrets.FilesIn = []string{filepath.Dir(path)}
	want.SMTP.Host, want.SMTP.Port = "smtp.example.com", 587
	want.Forward.From, want.Forward.EnvelopeFrom = "Forwarder <forwarder@example.com>", "forwarder@example.com"
	want.Routes = []route.Rule{{Name: "all", To: []string{"desk@firm.example"}}}
	if to := got.Table.Recipients(); !slices.Equal(to, want.Routes[0].To) {
		t.Errorf("the table of the routes forwards to %q, want %q", to, want.Routes[0].To)
	}
	got.Table = nil
	if !reflect.DeepEqual(got, want) {
		t.Errorf("Load = %+v\nwant   %+v", got, want)
	}
}

func TestValues(t *testing.T) {
	tests := []struct {
		name, text string // text comes before the minimal configuration's routes
		get        func(*Config) any
		want       any
	}{
		{"port of tls", "smtp: {host: h, security: tls}", func(c *Config) any { return c.SMTP.Port }, 465},
		{"port of none", "smtp: {host: h, security: none}", func(c *Config) any { return c.SMTP.Port }, 25},
		{
			"port given", "smtp: {host: h, security: tls, port: 2525}",
			func(c *Config) any { return c.SMTP.Port }, 2525,
		},
		{
			"mariadb is mysql", "database: {driver: mariadb, dsn: root@tcp(h)/d}",
			func(c *Config) any { return c.Database.Driver }, "mysql",
		},
		{"off is text", "dedupe: off", func(c *Config) any { return string(c.Dedupe) }, "off"},
		{
			"digits are text", "smtp: {host: h, username: 007, password: 0x10}",
			func(c *Config) any { return c.SMTP.Username + " " + string(c.SMTP.Password) }, "007 0x10",
		},
		{
			"yes is true", "smtp: {host: h, allow_plaintext: Yes}",
			func(c *Config) any { return c.SMTP.AllowPlaintext }, true,
		},
		{"duration", "retry: {max: 1h30m}", func(c *Config) any { return c.Retry.Max }, 90 * time.Minute},
		{
			"size", "forward: {envelope_from: f@x.example, max_size: 10MB}",
			func(c *Config) any { return c.Forward.MaxSize }, route.Size(10_000_000),
		},
		{
			"a section of comments", "imap:\n  # proxy: direct",
			func(c *Config) any { return c.IMAP.IdleTimeout }, 2 * time.Minute,
		},
		{
			"absolute path", "secrets: {key_file: " + abs("key") + "}",
			func(c *Config) any { return c.Secrets.KeyFile }, abs("key"),
		},
		{
			"login without encryption to this host",
			"smtp: {host: 127.0.0.1, security: none, username: u, password: p}",
			func(c *Config) any { return c.SMTP.Username }, "u",
		},
		{
			"login without encryption, accepted",
			"smtp: {host: h, security: none, username: u, password: p, allow_plaintext: true}",
			func(c *Config) any { return c.SMTP.Username }, "u",
		},
		{
			"proxy without a password", "imap: {proxy: \"socks5://127.0.0.1:1080\"}",
			func(c *Config) any { return string(c.IMAP.Proxy) }, "socks5://127.0.0.1:1080",
		},
		{"byte order mark", "\ufeffdedupe: all", func(c *Config) any { return string(c.Dedupe) }, "all"},
		{"document marks", "---\ndedupe: all", func(c *Config) any { return string(c.Dedupe) }, "all"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := tt.get(load(t, tt.text+"\n"+rest(tt.text))); got != tt.want {
				t.Errorf("got %v, want %v", got, tt.want)
			}
		})
	}
}

// rest is minimal without the sections that text has.
func rest(text string) string {
	var out []string
	for line := range strings.Lines(minimal) {
		if key, _, _ := strings.Cut(line, ":"); !strings.Contains(text, key+":") || key == "\n" {
			out = append(out, line)
		}
	}
	return strings.Join(out, "")
}

func abs(name string) string {
	p, _ := filepath.Abs(name)
	return p
}

func TestAnchors(t *testing.T) {
	c := load(t, `
smtp: {host: smtp.example.com}
forward: {envelope_from: f@x.example}
routes:
  - &base
    name: a
    match: &match {subject: [x], from: "*@x.example"}
    to: &to [a@x.example, b@x.example]
    priority: high
  - <<: *base
    name: b
    match: {<<: *match, subject: y}
  - <<: [{name: c, skip: true}, *base]
    to: *to
    skip: false
`)
	want := []route.Rule{
		{
			Name: "a", Match: route.Match{Subject: []string{"x"}, From: []string{"*@x.example"}},
			To: []string{"a@x.example", "b@x.example"}, Priority: "high",
		},
		{
			Name: "b", Match: route.Match{Subject: []string{"y"}, From: []string{"*@x.example"}},
			To: []string{"a@x.example", "b@x.example"}, Priority: "high",
		},
		{
			Name: "c", Match: route.Match{Subject: []string{"x"}, From: []string{"*@x.example"}},
			To: []string{"a@x.example", "b@x.example"}, Priority: "high",
		},
	}
	if !reflect.DeepEqual(c.Routes, want) {
		t.Errorf("routes are %+v\nwant       %+v", c.Routes, want)
	}
}

func TestFile(t *testing.T) {
	bomb := "a: &a {x: 1}\n"
	for c := 'b'; c <= 'z'; c++ {
		bomb += fmt.Sprintf("%c: &%c {<<: [*%c, *%c]}\n", c, c, c-1, c-1)
	}
	tests := []struct{ name, text, want string }{
		{"empty", "", "postrider.yaml: is empty; start from config.example.yaml"},
		{"only comments", "# nothing\n", "postrider.yaml: is empty; start from config.example.yaml"},
		{"only a document mark", "---\n", "postrider.yaml: is empty; start from config.example.yaml"},
		{
			"text", "hello",
			"postrider.yaml: has to be a section with the keys database, smtp, imap, forward, srs, bounces, dkim, " +
				"arc, dns, oauth, retry, dedupe, concurrency, watch, secrets, alerts, report, metrics, retention, " +
				"notify, hook, web, events, after, routes, not a single value",
		},
		{
			"tab", "smtp:\n\thost: x\n",
			"postrider.yaml:2: is not valid YAML here or nearby: found character that cannot start any token; " +
				"indent with spaces, not with tabs, and put text that starts with @, % or ` in quotes",
		},
		{
			"open quote", "smtp: {host: \"x}\n",
			"postrider.yaml:2: is not valid YAML here or nearby: found unexpected end of stream",
		},
		{
			"indentation", "smtp:\n  host: x\n port: 1\n",
			"postrider.yaml:2: is not valid YAML here or nearby: did not find expected key; " +
				"mind the indentation, and close what was opened",
		},
		{
			"a glob without quotes", "a:\n- from: *@x.example\n",
			"postrider.yaml:2: is not valid YAML here or nearby: did not find expected alphabetic or numeric " +
				"character; put text that starts with * or & in quotes, as in \"*@court.example\"",
		},
		{
			"a colon in text", "a: b: c\n",
			"postrider.yaml: is not valid YAML here or nearby: mapping values are not allowed in this context; " +
				"mind the indentation, and put text with a colon in quotes",
		},
		{
			"two documents", minimal + "---\nsmtp: {}\n",
			"postrider.yaml:5: a second document starts here; a configuration is one: remove the line ---",
		},
		{"not UTF-8", "smtp:\n  host: \xe9\n", "postrider.yaml:2: is not UTF-8 text; save the file as UTF-8"},
		{"UTF-16", "\xff\xfes\x00", "postrider.yaml:1: is not UTF-8 text; save the file as UTF-8"},
		{
			"too large", strings.Repeat("#", 1<<20+1),
			"postrider.yaml: is larger than 1 MiB, which no configuration is; correct the path",
		},
		{
			"a password that starts with a star", "smtp:\n  password: *hunter2",
			"postrider.yaml:2: an alias (*name) has no anchor (&name) before it; put text that starts with * in quotes",
		},
		{
			"a key that is a list", "? [smtp]\n: x\n" + minimal,
			"postrider.yaml:1:3: a key has to be plain text, not a list",
		},
		{
			"merge of a text", "<<: x\n" + minimal,
			"postrider.yaml:1:1: << takes a section, or a list of sections, not a single value",
		},
		{
			"merge of itself", "smtp: &s {host: h, <<: *s}\n" + rest("smtp:"),
			"there are more than 100000 values; an alias contains itself, or aliases of aliases multiply",
		},
		{"aliases that multiply", bomb + "smtp: {<<: *z}\n" + rest("smtp:"), "there are more than 100000 values"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := loadErrors(t, write(t, tt.text), variables())
			if got != tt.want && (!strings.HasPrefix(tt.want, "there are") || !strings.Contains(got, tt.want)) {
				t.Errorf("errors are\n%.500s\nwant\n%s", got, tt.want)
			}
		})
	}
}

func TestFileCannotBeRead(t *testing.T) {
	dir := t.TempDir()
	for path, want := range map[string]string{
		dir:                             "is a directory",
		filepath.Join(dir, "none.yaml"): "there is no such file; correct the path, or make it with `postrider -c ",
	} {
		if got := loadErrors(t, path, variables()); !strings.Contains(got, want) {
			t.Errorf("errors are %q, want %q in it", got, want)
		}
	}
	if os.Getuid() <= 0 {
		t.Log("root may read everything (and Windows has no mode): permission is not tried")
		return
	}
	path := write(t, minimal)
	if err := os.Chmod(path, 0); err != nil {
		t.Fatal(err)
	}
	if got := loadErrors(t, path, variables()); !strings.Contains(got, "let this user read it") {
		t.Errorf("errors are %q, want that the file may not be read, and what to do", got)
	}
}

func TestHostNames(t *testing.T) {
	for _, host := range []string{
		"smtp.example.com", "192.0.2.1", "2001:db8::1",
		"smtp.example.com:587", "192.0.2.1:25", "[2001:db8::1]:25",
	} {
		_, err := loadFile(write(t, strings.Replace(minimal, "smtp.example.com", `"`+host+`"`, 1)), variables())
		_, _, noPort := net.SplitHostPort(host)
		refused := err != nil && strings.Contains(err.Error(), "smtp.host: ") &&
			strings.Contains(err.Error(), "give a name or address, and the port in smtp.port")
		if noPort != nil && err != nil || noPort == nil && !refused {
			t.Errorf("smtp.host %s: %v; want a error only if it has a port, and where that belongs", host, err)
		}
	}
	const names = "smtp.bücher.example, local_name: MX.bücher.example"
	c, err := loadFile(write(t, strings.Replace(minimal, "smtp.example.com", names, 1)), variables())
	if err != nil || c.SMTP.Host != "smtp.xn--bcher-kva.example" || c.SMTP.LocalName != "mx.xn--bcher-kva.example" {
		t.Errorf("the names are %s and %s (%v), want smtp. and mx.xn--bcher-kva.example, as in DNS",
			c.SMTP.Host, c.SMTP.LocalName, err)
	}
}

func TestFind(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	const where = "./postrider.yaml and /etc/postrider/postrider.yaml; make one with `postrider init`"
	if _, err := Find("", variables()); err == nil || !strings.Contains(err.Error(), where) {
		t.Errorf("Find without any file = %v, want where it looked and how to fix it", err)
	}
	if err := os.WriteFile("postrider.yaml", nil, 0o600); err != nil {
		t.Fatal(err)
	}
	tests := []struct{ name, flag, env, want string }{
		{"flag", "f.yaml", "e.yaml", "f.yaml"},
		{"variable", "", "e.yaml", "e.yaml"},
		{"working directory", "", "", "postrider.yaml"},
	}
	for _, tt := range tests {
		if got, err := Find(tt.flag, variables("POSTRIDER_CONFIG", tt.env)); err != nil || got != tt.want {
			t.Errorf("%s: Find = %q, %v; want %q", tt.name, got, err, tt.want)
		}
	}
}
