package internal_test

import (
	"cmp"
	"io/fs"
	"os"
	"path"
	"regexp"
	"strings"
	"testing"
)

var (
	link    = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	heading = regexp.MustCompile(`(?m)^#+ (.+)$`)
	named   = regexp.MustCompile("`((?:internal|cmd|scripts|migrations)/[a-z0-9_./]+)`")
	noWord  = regexp.MustCompile(`[^\p{L}\p{N} _-]`)
)

// pages returns the text of each page of the documentation, by its path in the repository.
func pages(t *testing.T, repo fs.FS) map[string]string {
	t.Helper()
	names, err := fs.Glob(repo, "docs/*.md")
	if err != nil || len(names) == 0 {
		t.Fatalf("docs has no pages: %v", err)
	}
	out := map[string]string{}
	chinese, err := fs.Glob(repo, "docs/zh-CN/*.md")
	if err != nil || len(chinese) == 0 {
		t.Fatalf("docs/zh-CN has no pages: %v", err)
	}
	for _, name := range append(append(names, chinese...), "README.md", "README.zh-CN.md", "CHANGELOG.md") {
		text, err := fs.ReadFile(repo, name)
		if err != nil {
			t.Fatal(err)
		}
		out[name] = string(text)
	}
	return out
}

// anchors returns the anchors of a page's headings, as GitHub makes them.
func anchors(page string) map[string]bool {
	out := map[string]bool{}
	for _, m := range heading.FindAllStringSubmatch(page, -1) {
		out[strings.ReplaceAll(noWord.ReplaceAllString(strings.ToLower(m[1]), ""), " ", "-")] = true
	}
	return out
}

// TestLinks: each link inside the documentation leads to a file, and to a heading of it. In
// POSTRIDER_DOCS scripts/package names the documentation of a package.
func TestLinks(t *testing.T) {
	repo := os.DirFS(cmp.Or(os.Getenv("POSTRIDER_DOCS"), ".."))
	all := pages(t, repo)
	for page, text := range all {
		for _, m := range link.FindAllStringSubmatch(text, -1) {
			if strings.Contains(m[1], "://") {
				continue
			}
			file, anchor, _ := strings.Cut(m[1], "#")
			target := page
			if file != "" {
				target = path.Join(path.Dir(page), file)
			}
			if _, err := fs.Stat(repo, target); err != nil {
				t.Errorf("%s links to %s, which does not exist", page, m[1])
			} else if anchor != "" && !anchors(all[target])[anchor] {
				t.Errorf("%s links to %s, but %s has no such heading", page, m[1], target)
			}
		}
	}
}

// TestDocs: each file of the code that the documentation names exists.
func TestDocs(t *testing.T) {
	repo := os.DirFS("..")
	for page, text := range pages(t, repo) {
		for _, m := range named.FindAllStringSubmatch(text, -1) {
			if _, err := fs.Stat(repo, m[1]); err != nil {
				t.Errorf("%s names %s, which does not exist", page, m[1])
			}
		}
	}
}
