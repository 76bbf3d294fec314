package internal_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path"
	"path/filepath"
	"strings"
	"testing"
)

// rule says which packages one may not import, be it through others. A package stands for those
// below it, too.
type rule struct {
	pkg    string
	except string // below pkg, but free of the rule
	never  []string
}

// rules are the import rules of the design: cmd -> pass -> {imapsrc, route, forward, inbox, tasks}
// -> message.
var rules = []rule{
	{pkg: "internal", except: "internal/config", never: []string{"cmd", "internal/config"}},
	{pkg: "internal/watch", never: []string{"internal/testserver", "internal/notify"}},
	{pkg: "internal/pass", never: []string{"internal/testserver", "internal/watch"}},
	{pkg: "internal/imapsrc", never: []string{
		"internal/pass", "internal/route", "internal/forward", "gorm.io", "internal/db", "internal/testserver",
	}},
	{pkg: "internal/account", never: []string{
		"internal/db", "internal/pass", "internal/imapsrc", "internal/route", "internal/forward",
		"internal/inbox", "internal/testserver",
	}},
	{pkg: "internal/route", never: []string{
		"internal/pass", "internal/imapsrc", "internal/forward", "gorm.io", "internal/db", "internal/testserver",
	}},
	{pkg: "internal/forward", never: []string{
		"internal/pass", "internal/imapsrc", "internal/route", "gorm.io", "internal/db", "internal/testserver",
	}},
	{pkg: "internal/contacts", never: []string{
		"internal/pass", "internal/imapsrc", "internal/forward", "internal/inbox", "internal/tasks",
		"internal/testserver",
	}},
	{pkg: "internal/notify", never: []string{
		"internal/pass", "internal/imapsrc", "internal/inbox", "internal/testserver",
	}},
	{pkg: "internal/inbox", never: []string{
		"internal/pass", "internal/imapsrc", "internal/route", "internal/forward", "internal/testserver",
	}},
	{pkg: "internal/tasks", except: "internal/tasks/sqlqueue", never: []string{
		"internal/imapsrc", "internal/forward", "internal/db",
	}},
	{pkg: "internal/tasks", never: []string{"internal/pass", "internal/imapsrc", "internal/forward"}},
	{pkg: "internal/db", never: []string{
		"internal/pass", "internal/imapsrc", "internal/route", "internal/forward", "internal/testserver",
	}},
	{pkg: "internal/ahead", never: []string{
		"internal/pass", "internal/imapsrc", "internal/route", "internal/forward", "internal/inbox",
		"internal/tasks", "internal/testserver",
	}},
	{pkg: "internal/limits", never: []string{
		"internal/pass", "internal/imapsrc", "internal/route", "internal/forward", "internal/inbox",
		"internal/tasks", "internal/testserver",
	}},
	{pkg: "internal/oauth", never: []string{
		"internal/db", "internal/pass", "internal/imapsrc", "internal/forward", "internal/inbox",
	}},
	{pkg: "internal/tokens", never: []string{
		"internal/pass", "internal/imapsrc", "internal/forward", "internal/route", "internal/tasks",
	}},
	{pkg: "internal/bearer", never: []string{"internal/db", "internal/oauth", "internal/imapsrc", "internal/forward"}},
	{pkg: "internal/message", never: []string{"internal"}},
	{pkg: "internal/text", never: []string{"internal"}},
	{pkg: "internal/terminal", never: []string{
		"internal/db", "internal/tasks", "internal/inbox", "internal/pass", "internal/imapsrc",
		"internal/route", "internal/forward",
	}},
	{pkg: "internal/web", never: []string{"internal/pass", "internal/imapsrc", "internal/testserver"}},
	{pkg: "internal/status", never: []string{"internal/pass", "internal/imapsrc", "internal/testserver"}},
	{pkg: "internal/measure", never: []string{
		"internal/pass", "internal/imapsrc", "internal/forward", "internal/route", "internal/inbox",
		"internal/testserver",
	}},
	{pkg: "internal/transcript", never: []string{
		"internal/message", "internal/tasks", "internal/imapsrc", "internal/forward", "internal/pass",
	}},
	{pkg: "internal/srs", never: []string{"internal"}},
	{pkg: "internal/arrivals", never: []string{
		"internal/pass", "internal/imapsrc", "internal/route", "internal/forward", "internal/inbox",
		"internal/testserver",
	}},
	{pkg: "internal/bounce", never: []string{
		"internal/db", "internal/imapsrc", "internal/forward", "internal/route", "internal/inbox",
		"internal/tasks", "internal/pass", "internal/testserver",
	}},
	{pkg: "internal/csvfile", never: []string{"internal"}},
	{pkg: "internal/address", never: []string{"internal"}},
	{pkg: "internal/dmarc", never: []string{"internal"}},
	{pkg: "internal/arc", never: []string{
		"internal/pass", "internal/imapsrc", "internal/route", "internal/forward", "internal/db",
		"internal/inbox", "internal/tasks", "internal/testserver",
	}},
	{pkg: "internal/outbox/sink", never: []string{
		"internal/pass", "internal/imapsrc", "internal/forward", "internal/route", "internal/testserver",
	}},
	{pkg: "internal/outbox/webhook", never: []string{
		"internal/pass", "internal/imapsrc", "internal/forward", "internal/route", "internal/testserver",
	}},
	{pkg: "internal/after", never: []string{"internal/pass", "internal/forward", "internal/testserver"}},
	{pkg: "internal/proxy", never: []string{
		"internal/config", "internal/db", "internal/imapsrc", "internal/forward", "internal/testserver",
	}},
}

func TestImports(t *testing.T) {
	imports := importsOf(t, "..")
	for _, r := range rules {
		found := false
		for pkg := range imports {
			if !within(pkg, r.pkg) || r.except != "" && within(pkg, r.except) {
				continue
			}
			found = true
			for _, chain := range chains(imports, pkg) {
				last := chain[len(chain)-1]
				for _, never := range r.never {
					if within(last, never) && (within(never, r.pkg) || !within(last, r.pkg)) {
						t.Errorf("%s imports %s (%s); the design forbids it", pkg, last, strings.Join(chain, " -> "))
					}
				}
			}
		}
		if !found {
			t.Errorf("no package %s: if it was renamed, so should its import rule be", r.pkg)
		}
	}
}

func within(pkg, parent string) bool {
	return pkg == parent || strings.HasPrefix(pkg, parent+"/")
}

// chains gives, for each package that pkg imports, one way there.
func chains(imports map[string][]string, pkg string) [][]string {
	var all [][]string
	seen := map[string]bool{pkg: true}
	for queue := [][]string{{pkg}}; len(queue) > 0; queue = queue[1:] {
		chain := queue[0]
		for _, next := range imports[chain[len(chain)-1]] {
			if !seen[next] {
				seen[next] = true
				longer := append(append([]string(nil), chain...), next)
				all, queue = append(all, longer), append(queue, longer)
			}
		}
	}
	return all
}

// importsOf reads what each package of this module imports. Tests are free to import what
// they need.
func importsOf(t *testing.T, root string) map[string][]string {
	t.Helper()
	imports := map[string][]string{}
	err := filepath.WalkDir(root, func(file string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && file != root && strings.HasPrefix(d.Name(), ".") {
			return filepath.SkipDir
		}
		if d.IsDir() || !strings.HasSuffix(file, ".go") || strings.HasSuffix(file, "_test.go") {
			return nil
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ImportsOnly)
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root, file)
		if err != nil {
			return err
		}
		pkg := path.Dir(filepath.ToSlash(rel))
		imports[pkg] = append(imports[pkg], paths(parsed.Imports)...)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return imports
}

// paths are what is imported, of this module without its name.
func paths(specs []*ast.ImportSpec) []string {
	var pkgs []string
	for _, spec := range specs {
		pkgs = append(pkgs, strings.TrimPrefix(strings.Trim(spec.Path.Value, `"`), "postrider/"))
	}
	return pkgs
}
