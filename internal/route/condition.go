package route

import "slices"

// Truth is the result of one condition.
type Truth string

// The truths. Undecided is for something that cannot be read. It counts as failed, and so does its
// negation.
const (
	Held      Truth = "held"
	NotHeld   Truth = "failed"
	Undecided Truth = "undecided"
)

// condition is one key of a match, or a group of them.
type condition struct {
	key     string   // its name below match, such as any[1].subject
	want    []string // as written
	message bool     // it needs the message, and not only its folder and size
	ofInbox bool     // it needs the inbox alone
	content bool     // it needs the decoded content; a group does if one of its conditions does
	names   []string // that its regular expressions capture
	group   []condition
	choice  bool // one of the group is enough
	negate  bool
	test    func(v *view, f *finding) // nil for a group
}

func (c condition) needsContent() bool {
	return c.content || slices.ContainsFunc(c.group, condition.needsContent)
}

// finding is the result of a condition.
type finding struct {
	*condition
	truth Truth
	got   []text   // what was looked at
	on    text     // of these, the one that matched
	by    *pattern // the pattern that matched it; nil for conditions without patterns
	why   string   // it is undecided
	group []finding
}

func (f *finding) unknown(why string) { f.truth, f.why = Undecided, why }

func (f *finding) is(held bool) {
	f.truth = NotHeld
	if held {
		f.truth = Held
	}
}

// try evaluates one condition.
func (c *condition) try(v *view) finding {
	f := finding{condition: c, truth: NotHeld}
	switch {
	case c.message && v.mail.Message == nil:
		f.unknown("the message could not be fetched")
	case c.test != nil && !c.ofInbox && v.mail.isAny():
		f.unknown("it depends on the message")
	case c.test != nil:
		c.test(v, &f)
	case c.choice:
		f.truth, f.group = combine(c.group, v, NotHeld, Held)
	default:
		f.truth, f.group = all(c.group, v)
	}
	if c.negate && f.truth != Undecided {
		f.is(f.truth == NotHeld)
	}
	return f
}

// all evaluates conditions that have to hold together.
func all(cs []condition, v *view) (Truth, []finding) {
	return combine(cs, v, Held, NotHeld)
}

// combine evaluates conditions in three-valued logic (Kleene). It begins with a truth. An undecided
// condition makes it undecided, and one with the truth decides settles it.
func combine(cs []condition, v *view, begin, decides Truth) (result Truth, found []finding) {
	result = begin
	for i := range cs {
		f := cs[i].try(v)
		found = append(found, f)
		switch {
		case f.truth == decides && !v.whole:
			return decides, found
		case f.truth == decides:
			result = decides
		case f.truth == Undecided && result == begin:
			result = Undecided
		}
	}
	return result, found
}

// undecided is the first finding that is undecided, or one inside it, in words; empty if there is
// none.
func undecided(found []finding) string {
	for _, f := range found {
		if why := undecided(f.group); why != "" {
			return why
		}
		if f.truth == Undecided {
			return f.key + " is undecided: " + f.why
		}
	}
	return ""
}

// captures collects the named groups of the regular expressions that held. The first of a name
// counts. Of a choice only the first match that held counts, and a negation captures nothing.
func captures(found []finding, into map[string]string) {
	for _, f := range found {
		switch {
		case f.truth != Held || f.negate:
		case f.by != nil:
			f.by.capture(f.on, into)
		case f.choice:
			first := slices.IndexFunc(f.group, func(f finding) bool { return f.truth == Held })
			captures(f.group[first:first+1], into)
		default:
			captures(f.group, into)
		}
	}
}

// captured are the names that the conditions can capture.
func captured(cs []condition) []string {
	var names []string
	for _, c := range cs {
		if !c.negate {
			names = append(append(names, c.names...), captured(c.group)...)
		}
	}
	return names
}
