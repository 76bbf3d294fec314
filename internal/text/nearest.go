package text

import "strings"

// Nearest is the known name that s is probably a misspelling of, or empty. It ignores case. Of an
// address only what is before the @ says how far off it may be: many inboxes share a domain.
func Nearest(s string, known []string) string {
	name, _, _ := strings.Cut(s, "@")
	if name == "*" { // all inboxes of a domain
		name = s
	}
	best, limit := "", max(1, len([]rune(name))/3)
	for _, k := range known {
		if d := distance(strings.ToLower(s), strings.ToLower(k)); d <= limit {
			best, limit = k, d-1
		}
	}
	return best
}

// DidYouMean asks for the nearest known name: "; did you mean INBOX?", or nothing when none is
// near.
func DidYouMean(s string, known []string) string {
	if near := Nearest(s, known); near != "" {
		return "; did you mean " + near + "?"
	}
	return ""
}

// distance is how many letters have to be inserted, removed, replaced or swapped with their
// neighbour (optimal string alignment).
func distance(a, b string) int {
	s, t := []rune(a), []rune(b)
	var before []int
	last := make([]int, len(t)+1)
	for j := range last {
		last[j] = j
	}
	for i := range s {
		row := make([]int, len(t)+1)
		row[0] = i + 1
		for j := range t {
			cost := 1
			if s[i] == t[j] {
				cost = 0
			}
			row[j+1] = min(last[j]+cost, last[j+1]+1, row[j]+1)
			if i > 0 && j > 0 && s[i] == t[j-1] && s[i-1] == t[j] {
				row[j+1] = min(row[j+1], before[j-1]+1)
			}
		}
		before, last = last, row
	}
	return last[len(t)]
}
