package route

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// Error is one fault of one rule.
type Error struct {
	Index   int    // of the rule, from 0
	Route   string // its name; empty when it has none
	Key     string // such as "to[1]" or "match.subject[0]"
	Problem string
}

// Error names the route, the key and the problem.
func (e Error) Error() string {
	name := strconv.Quote(e.Route)
	if e.Route == "" {
		name = "number " + strconv.Itoa(e.Index+1)
	}
	return fmt.Sprintf("route %s: %s: %s", name, e.Key, e.Problem)
}

// Errors are all faults of a list of rules.
type Errors []Error

// Error is one line for each fault.
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

// condition is one key of a match.
type condition struct {
	key   string
	want  []string
	holds func(*view) (bool, []text)
}

// Compile checks all rules and prepares them. The error is of type Errors and tells of every fault at once.
func Compile(rules []Rule) (*Table, error) {
	var errs Errors
	table := &Table{}
	first := map[string]int{}
	for i, r := range rules {
		c := compiler{Rule: r, index: i, errs: &errs}
		c.checkName(first)
		c.checkFate()
		c.compileMatch()
		table.rules = append(table.rules, compiled{r, c.conditions})
	}
	if len(errs) > 0 {
		return nil, errs
	}
	return table, nil
}

// compiler works on one rule.
type compiler struct {
	Rule
	index      int
	errs       *Errors
	conditions []condition
}

func (c *compiler) fail(key, format string, args ...any) {
	*c.errs = append(*c.errs, Error{c.index, c.Name, key, fmt.Sprintf(format, args...)})
}

func (c *compiler) compileMatch() {
	m := c.Match
	c.size("larger", "more than ", m.Larger, func(size, limit int64) bool { return size > limit })
	c.size("smaller", "less than ", m.Smaller, func(size, limit int64) bool { return size < limit })
	c.patterns("inbox", m.Inbox, addressPattern, func(v *view) []text { return []text{newAddress(v.mail.Inbox)} })
	c.patterns("folder", m.Folder, namePattern, func(v *view) []text { return []text{newText(v.mail.Folder)} })
	c.patterns("from", m.From, addressPattern, func(v *view) []text { return v.addressesOf("From") })
	c.patterns("to", m.To, addressPattern, func(v *view) []text { return v.addressesOf("To") })
	c.patterns("cc", m.Cc, addressPattern, func(v *view) []text { return v.addressesOf("Cc") })
	c.patterns("recipient", m.Recipient, addressPattern, func(v *view) []text { return v.addressesOf(recipientFields...) })
	c.patterns("subject", m.Subject, textPattern, func(v *view) []text { return v.text("Subject") })
	c.patterns("list_id", m.ListID, listPattern, func(v *view) []text { return v.text("List-Id") })
	for _, name := range slices.Sorted(maps.Keys(m.Header)) {
		if !isFieldName(name) {
			c.fail("match.header."+name, "is no name of a header field; it is written like X-Spam-Flag, without a colon")
		}
		want := m.Header[name]
		if want == nil {
			want = []string{}
		}
		c.patterns("header."+name, want, textPattern, func(v *view) []text { return v.text(name) })
	}
	if m.HasAttachment != nil {
		c.attachment(*m.HasAttachment)
	}
}

func (c *compiler) patterns(key string, want []string, compile func(string) (pattern, error), get func(*view) []text) {
	if want == nil {
		return
	}
	if len(want) == 0 {
		c.fail("match."+key, "is an empty list, and would match nothing; remove the key, or give a pattern")
		return
	}
	var any []pattern
	for i, s := range want {
		p, err := compile(s)
		if err != nil {
			c.fail(fmt.Sprintf("match.%s[%d]", key, i), "%s", err)
			continue
		}
		any = append(any, p)
	}
	c.conditions = append(c.conditions, condition{key, want, func(v *view) (bool, []text) {
		texts := get(v)
		for _, t := range texts {
			for _, p := range any {
				if p(t) {
					return true, nil
				}
			}
		}
		return false, texts
	}})
}

func (c *compiler) size(key, words string, limit Size, holds func(size, limit int64) bool) {
	switch {
	case limit == 0:
		return
	case limit < 0:
		c.fail("match."+key, "has to be above 0")
		return
	}
	c.conditions = append(c.conditions, condition{key, []string{words + limit.String()}, func(v *view) (bool, []text) {
		return holds(v.mail.Size, int64(limit)), []text{{shown: Size(v.mail.Size).String()}}
	}})
}

func (c *compiler) attachment(want bool) {
	c.conditions = append(c.conditions, condition{"has_attachment", []string{strconv.FormatBool(want)}, func(v *view) (bool, []text) {
		has := v.hasAttachment()
		return has == want, []text{{shown: strconv.FormatBool(has)}}
	}})
}

// isFieldName is RFC 5322 2.2: printable ASCII without a colon.
func isFieldName(s string) bool {
	return s != "" && !strings.ContainsFunc(s, func(r rune) bool { return r <= ' ' || r == ':' || r >= 0x7f })
}
