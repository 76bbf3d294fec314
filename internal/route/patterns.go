package route

import (
	"fmt"
	"strconv"
)

// patterns is the condition that one of the texts matches one of the patterns.
func (c *compiler) patterns(
	s scope, key string, want []string, compile func(string) (*pattern, error), get func(*view) []text,
) []condition {
	if want == nil {
		return nil
	}
	if len(want) == 0 {
		c.failIn(s, key, "is an empty list, and would match nothing; remove the key, or give a pattern")
		return nil
	}
	var list []*pattern
	var names []string
	for i, s2 := range want {
		p, err := compile(s2)
		if err != nil {
			c.failIn(s, fmt.Sprintf("%s[%d]", key, i), "%s", err)
			continue
		}
		list, names = append(list, p), append(names, p.names()...)
	}
	return []condition{{key: s.prefix + key, want: want, names: names, test: func(v *view, f *finding) {
		f.compare(get(v), list)
	}}}
}

// look notes what is looked at.
func (f *finding) look(t ...text) { f.got = t }

func (f *finding) compare(texts []text, any []*pattern) {
	f.look(texts...)
	for _, t := range texts {
		for _, p := range any {
			if p.holds(t) {
				f.truth, f.on, f.by = Held, t, p
				return
			}
		}
	}
}

// contents are the conditions that need the decoded content. If that is incomplete, something that
// was not found is undecided.
func (c *compiler) contents(m Match, s scope) []condition {
	list := append(
		undecidable(c.patterns(s, "attachment", m.Attachment, filePattern, (*view).attachments), (*view).missing),
		undecidable(c.patterns(s, "body", m.Body, textPattern, (*view).body), (*view).unread)...)
	if m.HasAttachment != nil {
		list = append(list, hasAttachment(s, *m.HasAttachment))
	}
	for i := range list {
		list[i].message, list[i].content = true, true
	}
	return list
}

// undecidable are conditions on what may not be all of it; why says so.
func undecidable(list []condition, why func(*view) string) []condition {
	for i := range list {
		test := list[i].test
		list[i].test = func(v *view, f *finding) {
			test(v, f)
			if why := why(v); why != "" && f.by == nil {
				f.unknown(why)
			}
		}
	}
	return list
}

func hasAttachment(s scope, want bool) condition {
	wanted := []string{strconv.FormatBool(want)}
	return condition{key: s.prefix + "has_attachment", want: wanted, test: func(v *view, f *finding) {
		has := v.content().HasAttachment
		f.look(text{shown: strconv.FormatBool(has)})
		if why := v.missing(); why != "" && !has {
			f.unknown(why)
			return
		}
		f.is(has == want)
	}}
}
