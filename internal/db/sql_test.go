package db

import (
	"strings"
	"testing"
)

func TestCut(t *testing.T) {
	for _, c := range []struct {
		name, in, want string
		limit          int
	}{
		{"short", "abc", "abc", 3},
		{"cut", "abcd", "abc", 3},
		{"cut before a rune", "ab日", "ab", 4},
		{"whole rune", "ab日", "ab日", 5},
		{"not UTF-8", "a\xffb", "a\uFFFDb", 10},
		{"grown by the replacement", "\xff\xff", "\uFFFD", 1 + len("\uFFFD")},
		{"empty", "", "", 3},
	} {
		if got := Cut(c.in, c.limit); got != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
	if got := Cut(strings.Repeat("日", 100_000), 4000); len(got) > 4000 {
		t.Errorf("%d octets, want at most %d", len(got), 4000)
	}
}
