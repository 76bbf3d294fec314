package terminal

import (
	"slices"
	"strings"
	"unicode/utf8"
)

// Fill breaks the lines of paragraphs that are wider than width again. The others stay as they are,
// and so do those with indented lines, which are examples and lists.
func Fill(s string, width int) string {
	wide := func(line string) bool { return utf8.RuneCountInString(line) > width }
	indented := func(line string) bool { return strings.HasPrefix(line, "  ") }
	paragraphs := strings.Split(s, "\n\n")
	for i, p := range paragraphs {
		if lines := strings.Split(p, "\n"); slices.ContainsFunc(lines, wide) && !slices.ContainsFunc(lines, indented) {
			paragraphs[i] = fill(p, width)
		}
	}
	return strings.Join(paragraphs, "\n\n")
}

func fill(paragraph string, width int) string {
	var lines []string
	line := ""
	for _, word := range strings.Fields(paragraph) {
		if line != "" && utf8.RuneCountInString(line)+1+utf8.RuneCountInString(word) > width {
			lines = append(lines, line)
			line = ""
		}
		line = strings.TrimPrefix(line+" "+word, " ")
	}
	return strings.Join(append(lines, line), "\n")
}
