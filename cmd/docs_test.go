package cmd

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// shown finds the command lines in the documentation: in code, and in blocks of code.
var shown = regexp.MustCompile("(?m)(?:`|^ {4,})(postrider (?:-c \\S+ )?[a-z][^`;#\n]*)")

// TestDocs: every command and every flag that the documentation shows exists.
func TestDocs(t *testing.T) {
	files, err := filepath.Glob("../docs/*.md")
	if err != nil {
		t.Fatal(err)
	}
	chinese, err := filepath.Glob("../docs/zh-CN/*.md")
	if err != nil || len(chinese) == 0 {
		t.Fatalf("docs/zh-CN has no pages: %v", err)
	}
	n := 0
	files = append(files, chinese...)
	files = append(files, "../README.md", "../README.zh-CN.md", "../CHANGELOG.md", "../config.example.yaml")
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range shown.FindAllStringSubmatch(string(text), -1) {
			n++
			if why := wrongCommand(m[1]); why != "" {
				t.Errorf("%s shows %q: %s", file, m[1], why)
			}
		}
	}
	if n < 40 {
		t.Errorf("the documentation shows %d command lines, want 40 at least: this test does not find them", n)
	}
}

// wrongCommand says why there is no such command line, or nothing.
func wrongCommand(line string) string {
	root := (&app{}).rootCommand()
	root.InitDefaultCompletionCmd()
	c, rest, err := root.Find(strings.Fields(line)[1:])
	switch {
	case err != nil:
		return err.Error()
	case c == root, c.HasSubCommands() && len(rest) > 0:
		return "there is no such command"
	}
	for _, flag := range regexp.MustCompile(`--[a-z-]+`).FindAllString(line, -1) {
		if name := flag[2:]; name != "help" && c.Flags().Lookup(name) == nil && c.InheritedFlags().Lookup(name) == nil {
			return "there is no flag " + flag
		}
	}
	return ""
}
