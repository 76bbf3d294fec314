package inbox

// nearest returns the candidate with the smallest edit distance to s; empty when no candidate is
// similar.
func nearest(s string, candidates []string) string {
	best, limit := "", max(2, len(s)/4)
	for _, c := range candidates {
		if d := distance(s, c); d <= limit {
			best, limit = c, d-1
		}
	}
	return best
}

// distance is the Levenshtein distance, in octets.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			replace := diagonal
			if a[i] != b[j] {
				replace++
			}
			diagonal = row[j+1]
			row[j+1] = min(replace, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
