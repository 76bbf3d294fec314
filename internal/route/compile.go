package route

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Error is one error in one rule.
type Error struct {
	Index   int    // of the rule, from 0
	Route   string // its name; empty when it has none
	Key     string // such as "to[1]" or "match.any[0].subject[0]"
	Problem string
	Char    int // of the value, from 1, at which the error is; 0 for the value as a whole
}

// Error names the route, the key and the problem.
func (e Error) Error() string {
	name := strconv.Quote(e.Route)
	if e.Route == "" {
		name = "number " + strconv.Itoa(e.Index+1)
	}
	return fmt.Sprintf("route %s: %s: %s", name, e.Key, e.Problem)
}

// Errors are all errors in a list of rules.
type Errors []Error

// Error is one line for each error.
func (e Errors) Error() string {
	lines := make([]string, len(e))
	for i, one := range e {
		lines[i] = one.Error()
	}
	return strings.Join(lines, "\n")
}

// compiled is a rule with its conditions ready, cheap ones first.
type compiled struct {
	Rule
	conditions []condition
}

// Compile checks all rules and prepares them. The error is of type Errors and has all errors.
func Compile(rules []Rule) (*Table, error) {
	var errs Errors
	table := &Table{}
	first := map[string]int{}
	for i, r := range rules {
		var inMatch Errors
		conditions := (&compiler{Rule: r, index: i, errs: &inMatch}).match(r.Match, scope{})
		c := compiler{Rule: r, index: i, errs: &errs, names: captured(conditions), matchFailed: len(inMatch) > 0}
		c.checkName(first)
		c.checkActions()
		errs = append(errs, inMatch...)
		table.rules = append(table.rules, compiled{r, conditions})
	}
	if len(errs) > 0 {
		return nil, errs
	}
	return table, nil
}

// compiler works on one rule.
type compiler struct {
	Rule
	index       int
	errs        *Errors
	names       []string // that match captures
	matchFailed bool     // match has errors, so that names may be incomplete
}

func (c *compiler) fail(key, format string, args ...any) { c.failAt(0, key, format, args...) }

func (c *compiler) failAt(char int, key, format string, args ...any) {
	*c.errs = append(*c.errs, Error{c.index, c.Name, key, fmt.Sprintf(format, args...), char})
}

// scope is where a match stands: at the top of a rule, or in groups.
type scope struct {
	prefix string // of its keys, such as "any[0]."
	depth  int
	zone   *time.Location // nil where none is named
}

func (c *compiler) failIn(s scope, key, format string, args ...any) {
	c.fail("match."+s.prefix+key, format, args...)
}

// maxGroups bounds how deep groups are nested. It also ends a group that contains itself.
const maxGroups = 10

// match compiles all keys of a match. Conditions that need the content come last.
func (c *compiler) match(m Match, s scope) []condition {
	s.zone = c.timeZone(m, s)
	list := slices.Concat(c.sizes(m, s), c.times(m, s), c.fields(m, s), c.groups(m, s), c.contents(m, s),
		c.expression(m, s))
	slices.SortStableFunc(list, func(a, b condition) int {
		switch a, b := a.needsContent(), b.needsContent(); {
		case a == b:
			return 0
		case b:
			return -1
		}
		return 1
	})
	return list
}

func (c *compiler) fields(m Match, s scope) []condition {
	addresses := func(key string, want []string, fields ...string) []condition {
		of := func(v *view) []text { return v.addressesOf(fields...) }
		return ofMessage(c.patterns(s, key, want, addressPattern, of))
	}
	texts := func(key string, want []string, compile func(string) (*pattern, error), field string) []condition {
		return ofMessage(c.patterns(s, key, want, compile, func(v *view) []text { return v.text(field) }))
	}
	list := slices.Concat(
		c.inbox(m, s),
		c.label(m, s),
		c.patterns(s, "folder", m.Folder, namePattern, func(v *view) []text { return []text{newText(v.mail.Folder)} }),
		addresses("from", m.From, "From"),
		addresses("to", m.To, "To"),
		addresses("cc", m.Cc, "Cc"),
		addresses("recipient", m.Recipient, recipientFields...),
		texts("subject", m.Subject, textPattern, "Subject"),
		texts("list_id", m.ListID, listPattern, "List-Id"),
	)
	if m.Header != nil && len(m.Header) == 0 {
		c.failIn(s, "header", "is empty, and would match everything; remove it")
	}
	for _, name := range slices.Sorted(maps.Keys(m.Header)) {
		if !isFieldName(name) {
			c.failIn(s, "header."+name, "is not the name of a header field; write it like X-Spam-Flag, without a colon")
		}
		want := m.Header[name]
		if want == nil {
			want = []string{}
		}
		list = append(list, texts("header."+name, want, textPattern, name)...)
	}
	return list
}

func ofMessage(list []condition) []condition {
	for i := range list {
		list[i].message = true
	}
	return list
}

func (c *compiler) inbox(m Match, s scope) []condition {
	return ofInbox(c.patterns(s, "inbox", m.Inbox, addressPattern, func(v *view) []text {
		return []text{newAddress(v.mail.Inbox)}
	}))
}

// ofInbox are conditions that are unknown if `route test` is run without --inbox.
func ofInbox(list []condition) []condition {
	for i := range list {
		test := list[i].test
		list[i].ofInbox = true
		list[i].test = func(v *view, f *finding) {
			if v.mail.Inbox == "" {
				f.unknown("it is not known in which inbox the message is; say it with --inbox")
				return
			}
			test(v, f)
		}
	}
	return list
}

func (c *compiler) sizes(m Match, s scope) []condition {
	if m.Larger > 0 && m.Smaller > 0 && m.Smaller <= m.Larger+1 {
		c.failIn(s, "smaller", "matches nothing: it has to be above larger")
	}
	return slices.Concat(
		c.size(s, "larger", "more than ", m.Larger, func(size, limit int64) bool { return size > limit }),
		c.size(s, "smaller", "less than ", m.Smaller, func(size, limit int64) bool { return size < limit }),
	)
}

func (c *compiler) size(s scope, key, words string, limit Size, holds func(size, limit int64) bool) []condition {
	switch {
	case limit == 0:
		return nil
	case limit < 0:
		c.failIn(s, key, "has to be above 0")
		return nil
	}
	return []condition{{key: s.prefix + key, want: []string{words + limit.String()}, test: func(v *view, f *finding) {
		f.look(text{shown: Size(v.mail.Size).String()})
		f.is(holds(v.mail.Size, int64(limit)))
	}}}
}

// groups are the keys that have matches inside.
func (c *compiler) groups(m Match, s scope) []condition {
	if s.depth == maxGroups {
		if m.Any != nil || m.Not != nil {
			c.failIn(s, "any", "groups are nested more than %d deep; write a part of it as when", maxGroups)
		}
		return nil
	}
	var list []condition
	if m.Any != nil {
		list = append(list, c.anyOf(m.Any, s)...)
	}
	if m.Not != nil {
		inner := c.inner(*m.Not, s, "not", "nothing")
		list = append(list, condition{key: s.prefix + "not", negate: true, group: inner})
	}
	return list
}

func (c *compiler) anyOf(list []Match, s scope) []condition {
	if len(list) == 0 {
		c.failIn(s, "any", "is an empty list, and would match nothing; remove the key, or give a match")
		return nil
	}
	group := make([]condition, len(list))
	for i, m := range list {
		key := fmt.Sprintf("any[%d]", i)
		inner := c.inner(m, s, key, "everything")
		group[i] = condition{key: s.prefix + key, group: inner}
	}
	return []condition{{key: s.prefix + "any", choice: true, group: group}}
}

func (c *compiler) inner(m Match, s scope, key, would string) []condition {
	before := len(*c.errs)
	list := c.match(m, scope{s.prefix + key + ".", s.depth + 1, s.zone})
	if len(list) == 0 && len(*c.errs) == before {
		c.failIn(s, key, "has no conditions, and would match %s; remove it, or give one", would)
	}
	return list
}

// isFieldName is RFC 5322 2.2: printable ASCII without a colon.
func isFieldName(s string) bool {
	return s != "" && !strings.ContainsFunc(s, func(r rune) bool { return r <= ' ' || r == ':' || r >= 0x7f })
}
