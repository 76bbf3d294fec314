package terminal

import (
	"slices"
	"strings"
	"unicode/utf8"
)

// Fill breaks the lines of those paragraphs again that are wider than width; the others stay as
// they are.
func Fill(s string, width int) string {
	paragraphs := strings.Split(s, "\n\n")
	for i, p := range paragraphs {
		if slices.ContainsFunc(strings.Split(p, "\n"), func(line string) bool { return utf8.RuneCountInString(line) > width }) {
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
