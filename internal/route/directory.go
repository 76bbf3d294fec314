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
	Email    string // may be empty
	Keywords []string
}

// Directory finds all contacts in a text by their names and keywords, in one pass over the text. It
// does not change and is safe for concurrent use.
type Directory struct {
	contacts []Contact
	terms    func() *terms // built on first use: a pass without new mail needs none
}

// NewDirectory returns the directory of these contacts. It ignores terms that CheckTerm refuses.
func NewDirectory(contacts []Contact) *Directory {
	return &Directory{contacts, sync.OnceValue(func() *terms { return newTerms(contacts) })}
}

// CheckTerm refuses a name or keyword with fewer than two letters or digits, which would be found
// everywhere.
func CheckTerm(s string) error {
	n := 0
	for _, r := range plain(squeeze(fold(s))) {
		if isWord(r) {
			n++
		}
	}
	if n < 2 {
		return fmt.Errorf("%q is too short to search for: it would be found everywhere; "+
			"write at least two letters or digits", s)
	}
	return nil
}

// terms are the names and keywords, each different one once. The first octets of a term lead to the
// lengths of the terms that begin like it, and text of such a length is looked up in a map. The
// cost depends on the number of these lengths, and not on the number of terms.
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

// beginning is the first three octets of s, or two if that is all.
func beginning(s string) uint32 {
	if len(s) > 2 {
		return uint32(s[0])<<16 | uint32(s[1])<<8 | uint32(s[2])
	}
	return 1<<24 | uint32(s[0])<<8 | uint32(s[1])
}

// at calls each with the terms that stand at s[i:] as whole words.
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

// find returns the contacts that a text mentions, by their index in the directory, each with the
// first term found.
func (d *Directory) find(folded string) map[int]Mention {
	t := d.terms()
	in := plain(folded)
	found := map[int]Mention{}
	seen := map[int32]bool{}
	for i := range in {
		if i > 0 && in[i] < 0x80 && in[i-1] < 0x80 && isWord(rune(in[i])) && isWord(rune(in[i-1])) {
			continue // within a word
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

// around is the text at a place, and a little of the text before it.
func around(s string, at int) string {
	if at <= maxExcerpt/2 {
		return excerpt(s)
	}
	return "…" + excerpt(strings.ToValidUTF8(s[at-maxExcerpt/4:min(len(s), at+maxExcerpt)], ""))
}
