package route

import "slices"

// verdict is the truth of a condition. Of what cannot be read nobody can say: neither the condition holds then, nor its
// contrary.
type verdict int

const (
	no verdict = iota
	yes
	unknown
)

// condition is one key of a match, or a group of them.
type condition struct {
	key     string   // its name below match, such as any[1].subject
	want    []string // as written
	message bool     // it needs the message, and not only its folder and size
	content bool     // it needs the decoded content
	names   []string // its regular expressions capture
	group   []condition
	choice  bool // one of the group is enough
	negate  bool
	test    func(v *view, f *finding) // nil for a group
}

// finding is what became of a condition.
type finding struct {
	*condition
	verdict verdict
	got     []text   // what was looked at
	on      text     // of that, what held
	by      *pattern // and the pattern it is like; nil when it is not a matter of patterns
	why     string   // it is unknown
	group   []finding
}

func (f *finding) unknown(why string) { f.verdict, f.why = unknown, why }

func (f *finding) is(held bool) {
	f.verdict = no
	if held {
		f.verdict = yes
	}
}

// try asks of one condition. With whole, groups are asked to their end, for a person to see; the verdict is the same.
func (c *condition) try(v *view, whole bool) finding {
	f := finding{condition: c}
	switch {
	case c.message && v.mail.Message == nil:
		f.unknown("the message could not be fetched")
	case c.test != nil:
		c.test(v, &f)
	case c.choice:
		f.verdict, f.group = combine(c.group, v, whole, no, yes)
	default:
		f.verdict, f.group = all(c.group, v, whole)
	}
	if c.negate && f.verdict != unknown {
		f.is(f.verdict == no)
	}
	return f
}

// all asks whether all of them hold.
func all(cs []condition, v *view, whole bool) (verdict, []finding) {
	return combine(cs, v, whole, yes, no)
}

// combine begins with a verdict that an unknown condition makes unknown, and that one which decides turns for good: the
// strong logic of Kleene.
func combine(cs []condition, v *view, whole bool, begin, decides verdict) (result verdict, found []finding) {
	result = begin
	for i := range cs {
		f := cs[i].try(v, whole)
		found = append(found, f)
		switch {
		case f.verdict == decides && !whole:
			return decides, found
		case f.verdict == decides:
			result = decides
		case f.verdict == unknown && result == begin:
			result = unknown
		}
	}
	return result, found
}

// undecided reports whether one of them, or of what is in it, is unknown: what others captured may not be the first.
func undecided(found []finding) bool {
	return slices.ContainsFunc(found, func(f finding) bool { return f.verdict == unknown || undecided(f.group) })
}

// captures collects the named groups of the regular expressions that held, of several of one name the first. Of a choice
// the first that held counts, and what a negation looked at never.
func captures(found []finding, into map[string]string) {
	for _, f := range found {
		switch {
		case f.verdict != yes || f.negate:
		case f.by != nil:
			f.by.capture(f.on, into)
		case f.choice:
			first := slices.IndexFunc(f.group, func(f finding) bool { return f.verdict == yes })
			captures(f.group[first:first+1], into)
		default:
			captures(f.group, into)
		}
	}
}

// captured are the names that conditions can capture, the same way.
func captured(cs []condition) []string {
	var names []string
	for _, c := range cs {
		if !c.negate {
			names = append(append(names, c.names...), captured(c.group)...)
		}
	}
	return names
}
