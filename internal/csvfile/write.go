package csvfile

import "strings"

// Format writes the line of a file. In quotes is what has to be, and what a spreadsheet may take
// for a formula.
func Format(fields ...string) string {
	out := make([]string, len(fields))
	for i, f := range fields {
		out[i] = f
		if f != strings.TrimSpace(f) || strings.ContainsAny(f, ",;\t\"\r\n") ||
			f != "" && strings.Contains("=+-@", f[:1]) {
			out[i] = `"` + strings.ReplaceAll(f, `"`, `""`) + `"`
		}
	}
	return strings.Join(out, ",") + "\n"
}
