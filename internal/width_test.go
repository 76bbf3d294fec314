package internal_test

import (
	"io/fs"
	"os"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"
)

// widest is how many columns a line of prose may have, with tabs of four.
const widest = 100

var (
	comment = regexp.MustCompile(`^\t*// [^ ]`)
	// notProse are tables, code, and what has no place to break it.
	notProse = regexp.MustCompile(`^(\||    |\s*<)|^\s*\S+$|\]\([^)]*$|://`)
)

// TestWidth: comments and prose have at most 100 columns.
func TestWidth(t *testing.T) {
	repo := os.DirFS("..")
	for page, text := range pages(t, repo) {
		if !strings.Contains(page, "zh-CN") { // its signs are two columns wide
			fits(t, page, text, func(line string) bool { return !notProse.MatchString(line) })
		}
	}
	err := fs.WalkDir(repo, ".", func(path string, _ fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, ".go") {
			return err
		}
		text, err := fs.ReadFile(repo, path)
		fits(t, path, string(text), func(line string) bool {
			return comment.MatchString(line) && !strings.Contains(line, "://")
		})
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// fits fails for the lines of prose that are too wide.
func fits(t *testing.T, path, text string, isProse func(line string) bool) {
	n, fenced := 0, false
	for line := range strings.Lines(text) {
		n++
		line = strings.TrimSuffix(line, "\n")
		if strings.HasPrefix(strings.TrimSpace(line), "```") {
			fenced = !fenced
		}
		if fenced || !isProse(line) {
			continue
		}
		if columns := utf8.RuneCountInString(strings.ReplaceAll(line, "\t", "    ")); columns > widest {
			t.Errorf("%s:%d has %d columns, want at most %d", path, n, columns, widest)
		}
	}
}
