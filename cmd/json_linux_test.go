package cmd

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"gorm.io/gorm"

	"postrider/internal/db"
)

// jsonCases are the commands with --json, with the section of docs/json.md that describes what they
// print. FOLDER is that of the configuration.
var jsonCases = []struct{ section, args string }{
	{"run", "run"},
	{"run --dry-run", "run --dry-run"},
	{"status", "status"},
	{"event list", "event list"},
	{"task list", "task list"},
	{"task show", "task show 1"},
	{"task show", "task show 2"},
	{"task retry, skip, resolve, purge", "task retry 1 2"},
	{"task retry, skip, resolve, purge", "task skip --status dead --dry-run"},
	{"audit", "audit"},
	{"audit --list", "audit --list"},
	{"inbox list, inbox show", "inbox list"},
	{"inbox list, inbox show", "inbox show desk@firm.example"},
	{"inbox check", "inbox check desk@firm.example"},
	{"contact list", "contact list"},
	{"recipient list", "recipient list"},
	{"route test", "route test FOLDER/mail.eml --no-dns"},
	{"route test", "route test FOLDER/mail.eml --inbox desk@firm.example --no-dns"},
	{"route test", "route test --task 1 --no-dns"},
	{"route replay", "route replay"},
}

// keyed are objects whose keys are data: their paths end with a star.
var keyed = regexp.MustCompile(`(^|\.)(counts|gone_as|labels|captured)\.[^.]*$`)

// kinds are the paths in a JSON value, with their types. The conditions of a group have the paths
// of a condition.
func kinds(path string, v any, into map[string]map[string]bool) {
	kind := ""
	switch v := v.(type) {
	case map[string]any:
		kind = "object"
		for key, value := range v {
			below := strings.TrimPrefix(strings.ReplaceAll(path, ".of[]", "")+"."+key, ".")
			if keyed.MatchString(below) {
				below = path + ".*"
			}
			kinds(below, value, into)
		}
	case []any:
		kind = "list"
		for _, value := range v {
			kinds(path+"[]", value, into)
		}
	case string:
		kind = "text"
		if timeText.MatchString(v) {
			kind = "time"
		}
	case float64:
		kind = "number"
	case bool:
		kind = "yes/no"
	case nil:
		kind = "null"
	}
	if into[path] == nil {
		into[path] = map[string]bool{}
	}
	into[path][kind] = true
}

var timeText = regexp.MustCompile(`^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z$`)

// documented has the paths and types of each section of docs/json.md.
func documented(t *testing.T) map[string]map[string]string {
	t.Helper()
	page, err := os.ReadFile("../docs/json.md")
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]map[string]string{}
	row := regexp.MustCompile("(?m)^\\| `([^`]+)` \\| ([^|]+) \\|")
	for _, section := range strings.Split(string(page), "\n## ")[1:] {
		if !strings.Contains(section, "| key | type | meaning |") {
			continue
		}
		name := strings.ReplaceAll(strings.SplitN(section, "\n", 2)[0], "`", "")
		out[name] = map[string]string{}
		for _, m := range row.FindAllStringSubmatch(section, -1) {
			out[name][m[1]] = strings.TrimSpace(m[2])
		}
	}
	return out
}

// withLabel gives the inbox of a folder a label.
func withLabel(t *testing.T, home string) {
	t.Helper()
	var errs strings.Builder
	a := &app{out: &errs, err: &errs, env: noEnv}
	config := filepath.Join(home, "postrider.yaml")
	argv := []string{"-c", config, "inbox", "set", "desk@firm.example", "--label", "tenant=acme"}
	if code := a.run(t.Context(), argv); code != exitOK {
		t.Fatalf("the label cannot be set: %s", &errs)
	}
}

// testedRoutes show with `route test` all that an explanation has; replayedRoutes send messages
// elsewhere.
const (
	testedRoutes = `
  - {name: groups, match: {any: [{subject: nothing}, {from: clerk@court.example}]}, to: [desk@firm.example], ` +
		`continue: true}
  - {name: captures, match: {subject: '/(?P<what>hear)/'}, to: ['${what}@firm.example'], continue: true}
  - {name: contacts, match: {}, to_contacts: {in: [subject]}, continue: true}`
	replayedRoutes = `
  - {name: own, match: {subject: one}, to: [desk@firm.example]}
  - {name: other, match: {subject: two}, to: [other@firm.example]}`
)

// withRoutes puts routes in front of those of a folder.
func withRoutes(t *testing.T, home, routes string) {
	t.Helper()
	path := filepath.Join(home, "postrider.yaml")
	content, err := os.ReadFile(path)
	if err == nil {
		err = os.WriteFile(path, []byte(strings.Replace(string(content), "\nroutes:", "\nroutes:"+routes, 1)), 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// withEvents has a pass in a folder make events for a destination that is down.
func withEvents(t *testing.T, home string) {
	t.Helper()
	file, err := os.OpenFile(filepath.Join(home, "postrider.yaml"), os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	secret := "whsec_" + strings.Repeat("QUJD", 10)
	_, err = fmt.Fprintf(file, "\nevents: {crm: {url: 'http://127.0.0.1:1/', allow_internal: true, "+
		"secrets: %s, on: [registered, dead]}}\n", secret)
	if err := errors.Join(err, file.Close()); err != nil {
		t.Fatal(err)
	}
	printed(t, home, "run", map[string]map[string]bool{})
}

// withNoted has recipients whose mail bounces in the registry of a folder.
func withNoted(t *testing.T, home string) {
	t.Helper()
	d, err := db.Open(t.Context(), db.Config{Driver: db.SQLite, Path: filepath.Join(home, "postrider.db")})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = d.Close() }()
	err = d.Tx(t.Context(), func(tx *gorm.DB) error {
		_, err := db.Exec(tx, `INSERT INTO suspended_recipients (recipient, since, bounces, why, suspended, resumed_at)
VALUES ('gone@other.example', 1, 5, '550 no', 1, NULL), ('back@other.example', 1, 5, '550 no', 0, 2)`)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// TestJSONIsDocumented: what each command prints with --json is what docs/json.md says, path by
// path and type by type; and each path that is documented without "if" is printed.
func TestJSONIsDocumented(t *testing.T) {
	docs := documented(t)
	seen := map[string]map[string]map[string]bool{}
	for _, state := range []string{working, idle, unreached} {
		home := newTerminalWorld(t, t.TempDir(), state)
		withLabel(t, home)
		for _, c := range jsonCases {
			if seen[c.section] == nil {
				seen[c.section] = map[string]map[string]bool{}
			}
			dir := filepath.Join(t.TempDir(), "copy")
			if err := os.Mkdir(dir, 0o700); err != nil {
				t.Fatal(err)
			}
			err := errors.Join(os.CopyFS(dir, os.DirFS(home)), os.Chmod(filepath.Join(dir, "postrider.key"), 0o600),
				os.Chmod(filepath.Join(dir, "postrider.yaml"), 0o600))
			if err != nil {
				t.Fatal(err)
			}
			switch c.section {
			case "status", "event list":
				withEvents(t, dir)
			case "recipient list":
				withNoted(t, dir)
			case "route test":
				withRoutes(t, dir, testedRoutes)
			case "route replay":
				withRoutes(t, dir, replayedRoutes)
			}
			printed(t, dir, c.args, seen[c.section])
		}
	}
	for section, paths := range seen {
		compareJSON(t, section, paths, docs[section])
	}
	for section := range docs {
		if seen[section] == nil {
			t.Errorf("docs/json.md has a section %q, and no command is tried for it", section)
		}
	}
}

// printed adds what a command prints.
func printed(t *testing.T, dir, args string, into map[string]map[string]bool) {
	t.Helper()
	var out, errs strings.Builder
	a := &app{in: strings.NewReader(""), out: &out, err: &errs, env: noEnv}
	argv := strings.Fields(strings.ReplaceAll(args, "FOLDER", dir))
	argv = append([]string{"-c", filepath.Join(dir, "postrider.yaml")}, argv...)
	if code := a.run(t.Context(), append(argv, "--json")); code == exitUsage {
		t.Fatalf("`%s` ends with %d: %s", args, code, &errs)
	}
	for dec := json.NewDecoder(strings.NewReader(out.String())); dec.More(); {
		var v any
		if err := dec.Decode(&v); err != nil {
			t.Fatalf("`%s` prints %q: %v", args, &out, err)
		}
		kinds("", v, into)
	}
	delete(into, "")
}

func compareJSON(t *testing.T, section string, paths map[string]map[string]bool, docs map[string]string) {
	t.Helper()
	for _, path := range slices.Sorted(maps.Keys(paths)) {
		says, ok := docs[path]
		if !ok {
			t.Errorf("docs/json.md, %q: `%s` is missing", section, path)
			continue
		}
		for kind := range paths[path] {
			if !strings.Contains(says, kind) {
				t.Errorf("docs/json.md, %q: `%s` is %s, and %s was printed", section, path, says, kind)
			}
		}
	}
	for path, says := range docs {
		if paths[path] == nil && !strings.Contains(says, "if") {
			t.Errorf("docs/json.md, %q: `%s` is %s, and no command printed it", section, path, says)
		}
	}
}
