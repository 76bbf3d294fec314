package route

import "strings"

// grams are the runs of three octets in a long text, hashed. Most of what two hundred rules look
// for is not in them, and so not in the text.
type grams [1 << 10]uint64

func gramsOf(s string) *grams {
	g := &grams{}
	for i := 2; i < len(s); i++ {
		h := gram(s, i)
		g[h>>6] |= 1 << (h & 63)
	}
	return g
}

func gram(s string, i int) uint32 {
	return (uint32(s[i-2])*0x9e3779b1 ^ uint32(s[i-1])*0x85ebca6b ^ uint32(s[i])*0xc2b2ae35) >> 16
}

// may reports whether a text with these grams may contain s.
func (g *grams) may(s string) bool {
	for i := 2; i < len(s); i++ {
		if h := gram(s, i); g[h>>6]&(1<<(h&63)) == 0 {
			return false
		}
	}
	return true
}

// has reports whether t contains a folded text.
func (t text) has(part string) bool {
	return (t.grams == nil || t.grams.may(part)) && strings.Contains(t.folded, part)
}
