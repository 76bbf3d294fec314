package config

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

// sound has all that registering needs, none of it as by default, and is sound.
const sound = `# the office
database:
  driver: mysql
  dsn: root@tcp(h)/d
smtp:
  host: smtp.example.com
  username: u
  password: "p"
secrets: {key_file: other.key}
imap: {dial_timeout: 10s, idle_timeout: 20s}
concurrency: &c
  page: 7
  host: mail-a
dedupe: all
forward:
  from: "Forwarder <forwarder@example.com>"
  max_size: 10MiB
  too_large: notice
  note: |
    Dear all,

    database: see below
routes:
- name: court
  match: {subject: "a: b"}
  to: [desk@firm.example]
- name: all
  match: {}
  to: [desk@firm.example]
`

// registering is Registering of a text.
func registering(t testing.TB, text string, kv ...string) *Config {
	t.Helper()
	var names []string
	for i := 0; i < len(kv); i += 2 {
		names = append(names, kv[i])
	}
	c := Registering(write(t, text), variables(kv...), names...)
	if c != nil {
		c.Secrets.KeyFile = filepath.Base(c.Secrets.KeyFile)
		c.Database.Path = filepath.Base(c.Database.Path)
	}
	return c
}

// TestRegistering breaks a sound file, and wants all that is needed read as before, or nothing.
func TestRegistering(t *testing.T) {
	want := Default()
	want.Database.Driver, want.Database.DSN = "mysql", "root@tcp(h)/d"
	want.Secrets.KeyFile, want.Dedupe = "other.key", "all"
	want.IMAP.DialTimeout, want.IMAP.IdleTimeout = 10e9, 20e9
	want.Concurrency.Page, want.Concurrency.Host = 7, "mail-a"
	want.Forward.MaxSize, want.Forward.TooLarge = 10<<20, "notice"
	for _, tt := range []struct {
		name, old, now string
		registers      bool
	}{
		{"sound", "", "", true},
		{"a port", "host: smtp", "port: x\n  host: smtp", true},
		{"no relay", "  host: smtp.example.com\n", "", true},
		{"an unknown key of the relay", "host: smtp", "hots: smtp", true},
		{"a route", "match: {subject", "mach: {subject", true},
		{"no routes", "routes:", "alerts: {dead: x}\n#routes:", true},
		{"a variable of the relay", "", "", true},
		{"an unknown section", "dedupe: all", "dedupe: all\nrotues: []", true},
		{"no sender", "from: \"Forwarder <forwarder@example.com>\"\n  max", "max", true},

		{"the database's name", "database:\n  driver", "databse:\n  driver", false},
		{"no routes and nothing else wrong", sound[strings.Index(sound, "routes:"):], "", false}, // it may be half written
		{"the name of routes", "\nroutes:", "\nroute:", true},
		{"routes in quotation marks of a word processor", "\nroutes:", "\n“routes”:", true},
		{"dedupe in such ones", "dedupe: all", "“dedupe”: all", false},
		{"a section behind spaces of a word processor", "  page: 7\n  host: mail-a", "\u00a0\u00a0\u00a0\u00a0\u00a0\u00a0\u00a0\u00a0page: 7", false},
		{"no space before a bracket", "secrets: {", "secrets:{", false},
		{"dedupe in a bracket above it", "dedupe: all", "hook: [x,\ndedupe: all\n]", false},
		{"sections in a quotation above them", "password: \"p\"\nsecrets:", "password: 'p\n# of the clients'\nalerts: {dead: x}\nsecrets:", true},
		{"the secrets in a quotation above them", "password: \"p\"\nsecrets: {key_file: other.key}", "password: 'p\nsecrets: {key_file: other.key}\n# of the clients'", false},
		{"the database as a comment, and a port", "database:\n  driver: mysql\n  dsn: root@tcp(h)/d", "# database:\n#   driver: mysql\n#   dsn: root@tcp(h)/d", false},
		{"the driver as a comment, and a port", "  driver: mysql", "  # driver: mysql", false},
		{"text after a merge", "- name: all", "<<<<<<< HEAD\n- name: all", false},
		{"a database twice after a merge", "database:", "<<<<<<< HEAD\ndatabase: {path: a}\n=======\ndatabase:", false},
		{"a letter", "routes:", "From: alice@client.example\nSubject: hearing\nroutes:", true},
		{"a letter with its text", "routes:", "From: alice@client.example\n\nDear all,\nroutes:", false},
		{"routes twice", "routes:", "routes: []\nroutes:", true},
		{"zeros, as after a crash", sound, strings.Repeat("\x00", 4096), false},
		{"nothing", sound, "", false},

		{"an unknown section, and no database", "database:\n  driver: mysql\n  dsn: root@tcp(h)/d", "mail: {}", false},
		{"the database's keys without it", "database:\n  driver", "smtp:\n  driver", false},
		{"dedupe's name", "dedupe: all", "dedup: all", false},
		{"dedupe's value", "dedupe: all", "dedupe: al", false},
		{"dedupe in another section", "dedupe: all\n", "", true}, // it is not there at all: the default
		{"dedupe below", "\ndedupe: all", "\n  dedupe: all", false},
		{"max_size misspelt", "max_size", "max_sise", false},
		{"max_size below the relay", "  host: smtp", "  max_size: 1MiB\n  host: smtp", false},
		{"max_size itself", "10MiB", "10 apples", false},
		{"too_large itself", "notice", "notise", false},
		{"no section", "forward:\n", "forward: x\n#", false},
		{"the file of certificates", "idle_timeout: 20s", "ca_file: nowhere.pem", false},
		{"a number", "page: 7", "page: 0", false},
		{"dedupe twice", "dedupe: all", "dedupe: all\ndedupe: off", false},

		{"an indentation", "  to: [desk", " to: [desk", true},
		{"a tab", "  match: {}", "\tmatch: {}", true},
		{"a quotation mark", `password: "p"`, `password: "p`, true},
		{"a bracket", "match: {}", "match: {", true},
		{"a bracket in the last line", "example]\n- name: all", "example\n- name: all", true},
		{"CRLF and a quotation mark", "\n", "\r\n", true},
		{"a byte order mark and a bracket", "# the office", "\ufeff# the office", true},
		{"a mark and a bracket", "# the office", "---", true},
		{"two marks", "# the office", "---\n---", false},
		{"a mark within", "dedupe: all", "---\ndedupe: all", false},
		{"a second document", "routes:", "...\nroutes:", false},
		{"a directive", "# the office", "%YAML 1.1\n---", true},
		{"a directive and a bracket", "# the office", "%YAML 1.1\n---", false},
		{"brackets around the file", "# the office", "{", false},
		{"a section that is broken", "page: 7", " page: 7", false},
		{"the note", "    Dear all", "   - : Dear all\n Dear all", false},
		{"text at the margin", "    Dear all,", "Dear all,", false},
		{"an anchor that is cut off", "imap: {", "imap: {<<: *c, ", false},
		{"a section below", "secrets:", " secrets:", false},
		{"a section behind", "  password: \"p\"\nsecrets:", "  password: \"p\"secrets:", false},
		{"a section that is a comment", "database:\n", "#database:\n", false},
		{"text before the first key", "# the office", "the office", false},
		{"a section twice, and a bracket", "dedupe: all", "dedupe: all\ndedupe: off\nhook: [", false},
		{"a carriage return in a comment, and a bracket", "# the office", "# the office\rdedupe: off", false},
		{"an unknown section and a bracket", "dedupe: all", "dedupe: all\nrotues: []", false},
		{"a relay twice, and a bracket", "dedupe: all", "dedupe: all\nsmtp: {}", false},
		{"an item before the first key, and a bracket", "# the office", "- dedupe: off", false},
		{"a carriage return alone", "dedupe: all", "hook: [\rdedupe: all", false},
		{"a next line", "dedupe: all", "hook: [\u0085dedupe: all", false},
		{"not UTF-8", "# the office", "# \xff\nhook: [", false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			n := 1
			text := sound
			switch {
			case strings.HasPrefix(tt.name, "CRLF"):
				n = -1
				text = strings.Replace(text, `"p"`, `"p`, 1)
			case strings.Contains(tt.name, " and a bracket"):
				text = strings.Replace(text, "match: {}", "match: {", 1)
			}
			text = strings.Replace(text, tt.old, tt.now, n)
			got := registering(t, text, "POSTRIDER_SMTP_PORT", "x")
			if (got != nil) != tt.registers {
				t.Fatalf("Registering = %+v, want something: %t", got, tt.registers)
			}
			want := *want
			if tt.name == "dedupe in another section" {
				want.Dedupe = "inbox"
			}
			if got != nil && !reflect.DeepEqual(*got, want) {
				t.Errorf("Registering = %+v\nwant %+v", *got, want)
			}
		})
	}
}

// TestRegisteringVariables: variables override, and one that is misspelt hinders if it may be of what is needed.
func TestRegisteringVariables(t *testing.T) {
	broken := strings.Replace(sound, "  to: [desk", " to: [desk", 1)
	for _, tt := range []struct {
		name, variable, value string
		dsn                   string // empty: nothing is registered
	}{
		{"overrides", "POSTRIDER_DATABASE_DSN", "root@tcp(other)/d", "root@tcp(other)/d"},
		{"misspelt", "POSTRIDER_DATABASE_DNS", "root@tcp(other)/d", ""},
		{"misspelt, of a section not all of which is needed", "POSTRIDER_FORWARD_MAXSIZE", "1MiB", ""},
		{"misspelt, of what is not needed", "POSTRIDER_SMTP_PROT", "25", "root@tcp(h)/d"},
		{"no value", "POSTRIDER_IMAP_IDLE_TIMEOUT", "never", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := registering(t, broken, tt.variable, tt.value)
			if got == nil && tt.dsn != "" || got != nil && string(got.Database.DSN) != tt.dsn {
				t.Errorf("Registering = %+v, want the DSN %q", got, tt.dsn)
			}
		})
	}
}

// TestRegisteringByDefault: a file without a section database, as in README.md, means the default one, or the one that variables
// name, unless that section may have been lost.
func TestRegisteringByDefault(t *testing.T) {
	const short = "smtp: {host: h}\nforward: {from: a@b.example}\nroutes:\n  - name: all\n    match: {}\n    to: [desk@firm.example]\n"
	for _, tt := range []struct {
		name, old, now string
		variable       string // POSTRIDER_DATABASE_PATH
		path           string // empty: nothing is registered
	}{
		{"a route", "match", "mach", "", "postrider.db"},
		{"a section's name", "routes", "rotues", "", "postrider.db"},
		{"an indentation", "    to", "   to", "", "postrider.db"},
		{"a tab", "    to", "\tto", "", "postrider.db"},
		{"a section like no other", "smtp:", "db: {path: other.db}\nsmtp:", "", ""},
		{"a section that is a comment, and an indentation", "    to", "# database: {path: other.db}\n   to", "", ""},
		{"a section that is a comment", "    match", "    # database: {path: other.db}\n    mach", "", ""},
		{"a section that is text, and an indentation", "    to", "    note: 'Database: {path: other.db}\n   to", "", ""},
		{"half a file", "    match: {}\n    to: [desk@firm.example]\n", "    match: {", "", ""}, // dedupe, or max_size, may have come behind it
		{"half a file of whole lines", "routes:\n  - name: all\n    match: {}\n    to: [desk@firm.example]\n", "", "", ""},
		{"half a file of whole lines, which is no YAML", "routes:\n  - name: all\n    match: {}\n    to: [desk@firm.example]\n", "hook: [\n", "", ""},
		{"less", "routes:\n  - name: all\n    match: {}\n    to: [desk@firm.example]\n", "hook: [", "", ""},
		{"a variable, and an indentation", "    to", "# database:\n   to", "other.db", "other.db"},
		{"a variable, and a section like no other", "smtp:", "mail: {}\nsmtp:", "other.db", "other.db"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := registering(t, strings.Replace(short, tt.old, tt.now, 1), "POSTRIDER_DATABASE_PATH", tt.variable)
			if got == nil && tt.path != "" || got != nil && got.Database.Path != tt.path {
				t.Errorf("Registering = %+v, want the file %q", got, tt.path)
			}
		})
	}
}

// TestRegisteringCutOff: a file that may be half written is not gone by, nor one that others can read the password in.
func TestRegisteringCutOff(t *testing.T) {
	for _, tt := range []struct {
		name, text string
		registers  bool
	}{
		{"whole line", "database: {path: p.db}\nroutes: []\nforward:\n  max_size: 50MiB\n", true},
		{"half a line", "database: {path: p.db}\nroutes: []\nforward:\n  max_size: 5", false},
		{"half a line, and a bracket", "database: {path: p.db}\nhook: [\nforward:\n  max_size: 5", false},
		{"half a line of what is not needed", "database: {path: p.db}\nroutes:\n- name: al", false}, // dedupe may have come behind it
		{"half a line of what is not needed, and a bracket", "database: {path: p.db}\nforward:\n  max_size: 50MiB\nhook: [", false},
		{"cut off before the rest", sound[:strings.Index(sound, "routes:")], false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := registering(t, tt.text); (got != nil) != tt.registers {
				t.Errorf("Registering = %+v, want something: %t", got, tt.registers)
			}
		})
	}
	path := write(t, "database: {driver: mysql, dsn: \"user:hunter2@tcp(h)/d\"}\nhook: [\n")
	if Registering(path, variables()) == nil {
		t.Error("Registering = nil of a private file, want the database in it")
	}
	if err := os.Chmod(path, 0o644); err != nil {
		t.Fatal(err)
	}
	if got := Registering(path, variables()); got != nil && os.PathSeparator == '/' {
		t.Errorf("Registering = %+v of a file with a password that others can read, want nothing", got)
	}
}

// TestRegisteringLines changes each line in the ways in which lines get broken, alone and beside a bracket that is open: what is needed
// is read as before, or not at all.
func TestRegisteringLines(t *testing.T) {
	swap := func(old, now string) func(string) string {
		return func(line string) string { return strings.Replace(line, old, now, 1) }
	}
	text := func(line string) string { return strings.TrimLeft(line, " ") }
	ways := map[string]func(line string) string{
		"one space":     func(line string) string { return " " + line },
		"two spaces":    func(line string) string { return "  " + line },
		"four spaces":   func(line string) string { return "    " + line },
		"a space less":  func(line string) string { return strings.TrimPrefix(line, " ") },
		"no spaces":     text,
		"a tab":         func(line string) string { return "\t" + text(line) },
		"hard spaces":   func(line string) string { return strings.Repeat("\u00a0", len(line)-len(text(line))) + text(line) },
		"a hard space":  swap(": ", ":\u00a0"),
		"no space":      swap(": ", ":"),
		"no colon":      swap(":", ""),
		"a space more":  swap(":", " :"),
		"semicolon":     swap(":", ";"),
		"quotes":        swap(": ", ": \""),
		"apostrophe":    swap(": ", ": '"),
		"bracket":       swap(": ", ": ["),
		"brace":         swap(": ", ": {"),
		"no brace":      swap("}", ""),
		"bar":           swap(":", ": |"),
		"star":          swap(": ", ": *"),
		"no line end":   swap("\n", ""),
		"a dash":        func(line string) string { return "- " + line },
		"twice":         func(line string) string { return line + line },
		"capital":       func(line string) string { return strings.ToUpper(line[:1]) + line[1:] },
		"a merge":       func(line string) string { return "<<<<<<< HEAD\n" + line },
		"quotation":     func(line string) string { return "“" + swap(":", "”:")(line) },
		"nothing else":  func(line string) string { return line },
		"an empty line": func(line string) string { return "\n" + line },
	}
	want := registering(t, sound, "POSTRIDER_SMTP_PORT", "x")
	lines := strings.SplitAfter(strings.TrimSuffix(sound, "\n"), "\n")
	for i, line := range lines {
		for way, change := range ways {
			one := strings.Join(lines[:i], "") + change(line) + strings.Join(lines[i+1:], "") + "\n"
			for _, text := range []string{one, strings.Replace(one, "match: {}", "match: {", 1)} {
				if got := registering(t, text, "POSTRIDER_SMTP_PORT", "x"); got != nil && !reflect.DeepEqual(got, want) {
					t.Errorf("with %s in line %d Registering = %+v, want it as before, or nothing, of\n%s", way, i+1, got, text)
				}
			}
		}
	}
	for i := range sound {
		if got := registering(t, sound[:i], "POSTRIDER_SMTP_PORT", "x"); got != nil && !reflect.DeepEqual(got, want) {
			t.Errorf("cut off after %d octets Registering = %+v, want it as before, or nothing", i, got)
		}
	}
}

// FuzzSalvage: what is cut from a file that is YAML is what is read of it; and broken in a section that is not needed, it is the
// same, or nothing.
func FuzzSalvage(f *testing.F) {
	files, _ := filepath.Glob("testdata/*.yaml")
	for _, name := range append(files, examplePath) {
		src, err := os.ReadFile(name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(string(src))
	}
	f.Add(sound)
	f.Add("database: {path: a}\nhook: \"\ndatabase: {path: b} # \"\n")
	f.Add("database: {path: a}\nhook: [\nimap\n]\ndedupe: all\n")
	f.Add("database: &a {path: a}\nhook: &a [\n*a\n, ]\nimap: *a\n")
	f.Add("database: {path: a}\nroutes:\n- &b\n  name: a\nimap: |\n x\n # y\n\n\n#z\n")
	f.Fuzz(func(t *testing.T, text string) {
		root, err := parse("", []byte(text))
		if err != nil {
			t.Skip("is no YAML")
		}
		for _, broken := range []string{"", "hook: [\n", "alerts: \"\n"} {
			cut := salvage([]byte(text + broken))
			if cut == nil || broken != "" && !strings.HasSuffix(text, "\n") || emptied(cut, broken != "") {
				continue
			}
			for _, section := range neededSections() {
				if got, want := render(cut, section), render(root, section); got != want {
					t.Errorf("with %q behind it, %s is cut as\n%s\nand read as\n%s", broken, section, got, want)
				}
			}
		}
	})
}

// emptied reports whether a section other than the last one could not be read: a quotation in it may go on in what follows.
func emptied(cut *yaml.Node, last bool) bool {
	values := len(cut.Content)
	if last {
		values -= 2
	}
	for i := 1; i < values; i += 2 {
		if cut.Content[i].Tag == "!!null" && cut.Content[i].Line == 0 {
			return true
		}
	}
	return false
}

// render is a section as YAML, without its comments.
func render(root *yaml.Node, section string) string {
	var value any
	for i := 0; i+1 < len(root.Content); i += 2 {
		if root.Content[i].Value == section {
			if err := root.Content[i+1].Decode(&value); err != nil {
				return "unsound" // the error has lines in it, which differ
			}
		}
	}
	out, err := yaml.Marshal(value)
	if err != nil {
		return err.Error()
	}
	return string(out)
}
