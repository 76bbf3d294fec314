package route

import (
	"fmt"
	"strings"
	"sync"

	ahocorasick "github.com/petar-dambovaliev/aho-corasick"
)

// Contact is a person of the directory.
type Contact struct {
	Name     string
	Email    string // empty: known, and cannot be written to
	Keywords []string
}

// Directory finds contacts in texts by their names and keywords: all at once, in one pass over a text. Nothing of it
// changes, and it may be used by several goroutines at once.
type Directory struct {
	contacts []Contact
	terms    func() *terms // made when the first text is looked through: a pass without new mail needs none
}

// NewDirectory returns the directory of these contacts, all of which are looked for. What CheckTerm refuses is not looked for.
func NewDirectory(contacts []Contact) *Directory {
	return &Directory{contacts, sync.OnceValue(func() *terms { return newTerms(contacts) })}
}

// CheckTerm reports what keeps a name or keyword from being looked for: with fewer than two letters or digits it would be
// found everywhere.
func CheckTerm(s string) error {
	n := 0
	for _, r := range plain(squeeze(fold(s))) {
		if isWord(r) {
			n++
		}
	}
	if n < 2 {
		return fmt.Errorf("%q is too short to be looked for: it would be found everywhere; write at least two letters or digits", s)
	}
	return nil
}

// terms are the names and keywords, each different one once.
type terms struct {
	automaton ahocorasick.AhoCorasick
	of        [][]holder // by pattern
}

// holder is a contact that has a term.
type holder struct {
	contact int
	written string
}

func newTerms(contacts []Contact) *terms {
	t := &terms{}
	at := map[string]int{}
	var patterns []string
	for i, c := range contacts {
		for _, written := range append([]string{c.Name}, c.Keywords...) {
			if CheckTerm(written) != nil {
				continue
			}
			p := strings.TrimSpace(plain(squeeze(fold(written))))
			if _, ok := at[p]; !ok {
				at[p] = len(patterns)
				patterns, t.of = append(patterns, p), append(t.of, nil)
			}
			t.of[at[p]] = append(t.of[at[p]], holder{i, written})
		}
	}
	builder := ahocorasick.NewAhoCorasickBuilder(ahocorasick.Opts{}) // its own notion of words knows ASCII alone
	t.automaton = builder.Build(patterns)
	return t
}

// find is the contacts that a text names, by their places in the directory, each with the first term found.
func (d *Directory) find(folded string) map[int]Mention {
	t := d.terms()
	if len(t.of) == 0 {
		return nil
	}
	in := plain(folded)
	found := map[int]Mention{}
	seen := make([]bool, len(t.of))
	for it := t.automaton.IterOverlapping(in); ; {
		m := it.Next()
		if m == nil {
			return found
		}
		if seen[m.Pattern()] || !wholeAt(in, m.Start(), m.End()) {
			continue
		}
		seen[m.Pattern()] = true
		for _, h := range t.of[m.Pattern()] {
			if _, ok := found[h.contact]; !ok {
				c := d.contacts[h.contact]
				found[h.contact] = Mention{Name: c.Name, Email: c.Email, By: h.written, On: around(in, m.Start())}
			}
		}
	}
}

// around is what stands there, with a little of what is before it.
func around(s string, at int) string {
	if at <= maxExcerpt/2 {
		return excerpt(s)
	}
	return "…" + excerpt(strings.ToValidUTF8(s[at-maxExcerpt/4:min(len(s), at+maxExcerpt)], ""))
}
