package cmd

import (
	"bytes"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/spf13/cobra"
)

// namedType is a flag whose value has no name.
var namedType = regexp.MustCompile(
	`--[a-z-]+ (string|strings|stringArray|stringToString|int|int64|uint|uint32|count|duration)\b`)

// exitTable is the begin of what says what the exit codes mean.
var exitTable = regexp.MustCompile(`(?m)^Exit codes?( \d+)?:`)

// TestHelp: the help of every command fits 80 columns (but for cobra's own of completion), and
// names the exit codes and the values of flags.
func TestHelp(t *testing.T) {
	var all func(c *cobra.Command) [][]string
	all = func(c *cobra.Command) [][]string {
		paths := [][]string{strings.Fields(c.CommandPath())[1:]}
		for _, sub := range c.Commands() {
			paths = append(paths, all(sub)...)
		}
		return paths
	}
	var out bytes.Buffer
	a := &app{out: &out, err: &out, env: noEnv}
	root := a.rootCommand()
	root.InitDefaultCompletionCmd()
	root.InitDefaultHelpCmd()
	paths := all(root)
	if len(paths) < 40 {
		t.Errorf("there are %d commands, want all of them", len(paths))
	}
	for _, path := range paths {
		t.Run(strings.Join(path, " "), func(t *testing.T) {
			out.Reset()
			if code := a.run(t.Context(), append(path, "--help")); code != exitOK {
				t.Fatalf("exit code %d; it prints\n%s", code, &out)
			}
			only := regexp.MustCompile(`^(help|version|completion)\b`).MatchString(strings.Join(path, " "))
			if n := len(exitTable.FindAllString(out.String(), -1)); n != 1 && !only {
				t.Errorf("the exit codes stand there %d times, want once", n)
			}
			if m := namedType.FindString(out.String()); m != "" {
				t.Errorf("the flag %q shows a type of Go's; name the value between backquotes", m)
			}
			for line := range strings.Lines(out.String()) {
				n := utf8.RuneCountInString(strings.TrimSuffix(line, "\n"))
				if n > 80 && !slices.Contains(path, "completion") {
					t.Errorf("a line has %d columns, want at most 80:\n%s", n, line)
				}
			}
		})
	}
}
