package route

import (
	"fmt"
	"slices"
	"strings"
	"sync"
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

// terms are the names and keywords, each different one once: by the octets that it begins with its length is found, and by all of
// them whose it is. That costs the same however many there are; it grows with how many different lengths those have that begin alike.
type terms struct {
	holders []holder
	of      map[string]int32 // the first holder of a term
	lengths map[uint32][]int // of the terms that begin alike, ascending
}

// holder is a contact that has a term.
type holder struct {
	contact int32
	term    int32 // 0 is the name, others are the keywords
	next    int32 // another holder of the term; 0 is none
}

func newTerms(contacts []Contact) *terms {
	t := &terms{of: map[string]int32{}, lengths: map[uint32][]int{}}
	t.holders = append(t.holders, holder{}) // which is none
	for i, c := range contacts {
		t.add(c.Name, holder{contact: int32(i)})
		for k, keyword := range c.Keywords {
			t.add(keyword, holder{contact: int32(i), term: int32(k + 1)})
		}
	}
	return t
}

func (t *terms) add(written string, h holder) {
	if CheckTerm(written) != nil {
		return
	}
	term := strings.TrimSpace(plain(squeeze(fold(written))))
	h.next = t.of[term]
	if key := beginning(term); h.next == 0 {
		list := t.lengths[key]
		if at, known := slices.BinarySearch(list, len(term)); !known {
			t.lengths[key] = slices.Insert(list, at, len(term))
		}
	}
	t.of[term] = int32(len(t.holders))
	t.holders = append(t.holders, h)
}

// beginning is what stands at the beginning of s, as far as all terms are long: two octets.
func beginning(s string) uint32 {
	if len(s) > 2 {
		return uint32(s[0])<<16 | uint32(s[1])<<8 | uint32(s[2])
	}
	return 1<<24 | uint32(s[0])<<8 | uint32(s[1])
}

// at calls each with the terms that stand alone at s[i:].
func (t *terms) at(s string, i int, each func(term int32)) {
	for _, head := range []string{s[i:min(i+2, len(s))], s[i:min(i+3, len(s))]} {
		if len(head) < 2 {
			return
		}
		for _, n := range t.lengths[beginning(head)] {
			if i+n > len(s) {
				break
			}
			if term := t.of[s[i:i+n]]; term != 0 && wholeAt(s, i, i+n) {
				each(term)
			}
		}
	}
}

// find is the contacts that a text names, by their places in the directory, each with the first term found.
func (d *Directory) find(folded string) map[int]Mention {
	t := d.terms()
	in := plain(folded)
	found := map[int]Mention{}
	seen := map[int32]bool{}
	for i := range in {
		if i > 0 && in[i] < 0x80 && in[i-1] < 0x80 && isWord(rune(in[i])) && isWord(rune(in[i-1])) { // within a word nothing stands alone
			continue
		}
		t.at(in, i, func(term int32) {
			for ; term != 0 && !seen[term]; term = t.holders[term].next {
				seen[term] = true
				h := t.holders[term]
				if _, ok := found[int(h.contact)]; !ok {
					found[int(h.contact)] = d.mention(h, around(in, i))
				}
			}
		})
	}
	return found
}

func (d *Directory) mention(h holder, on string) Mention {
	c := d.contacts[h.contact]
	m := Mention{Name: c.Name, Email: c.Email, By: c.Name, On: on}
	if h.term > 0 {
		m.By = c.Keywords[h.term-1]
	}
	return m
}

// around is what stands there, with a little of what is before it.
func around(s string, at int) string {
	if at <= maxExcerpt/2 {
		return excerpt(s)
	}
	return "…" + excerpt(strings.ToValidUTF8(s[at-maxExcerpt/4:min(len(s), at+maxExcerpt)], ""))
}
