package route

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"unicode"

	"postrider/internal/address"
)

// placeholder stands for what a regular expression of the rule has captured, as in
// ${client}@firm.example.
var placeholder = regexp.MustCompile(`\$\{(\w*)\}`)

// expand puts what was captured into a template.
func expand(template string, captured map[string]string) string {
	return placeholder.ReplaceAllStringFunc(template, func(s string) string { return captured[s[2:len(s)-1]] })
}

func isTemplate(s string) bool { return strings.Contains(s, "${") }

// captures reports whether the rule uses what is captured.
func (r Rule) captures() bool {
	return isTemplate(string(r.Priority)) || slices.ContainsFunc(r.To, isTemplate)
}

// Captured is what the rules named in route capture from m. route is a Decision's, of this table or
// an earlier one. Of several groups with one name, the first that found something counts. A rule
// that is gone or no longer matches captures nothing.
func (t *Table) Captured(ctx context.Context, route string, m Mail) map[string]string {
	v, into := newView(ctx, m), map[string]string{}
	names := t.names(ctx, route, m)
	for _, r := range t.rules {
		if !slices.Contains(names, r.Name) {
			continue
		}
		if held, found := all(r.conditions, v); held == Held {
			captures(found, into)
		}
	}
	return into
}

// Captures are the names that the rules can capture. It is not nil.
func (t *Table) Captures() []string {
	names := []string{}
	for _, r := range t.rules {
		names = append(names, captured(r.conditions)...)
	}
	return names
}

// checkTemplate checks that the match captures every placeholder of an address or a priority.
func (c *compiler) checkTemplate(key, template string) bool {
	ok := true
	for _, m := range placeholder.FindAllStringSubmatch(template, -1) {
		if c.matchFailed || slices.Contains(c.names, m[1]) {
			continue
		}
		ok = false
		c.fail(key, "%s is not captured; match needs a regular expression with a group of that name, "+
			"such as subject: '/case (?P<%s>\\d+)/'", m[0], m[1])
	}
	if strings.Contains(placeholder.ReplaceAllString(template, ""), "${") {
		c.fail(key, "%q has ${ without a name and } behind it; write it like ${client}", template)
		return false
	}
	return ok
}

// checkTo checks one recipient. Of a template it checks what is written; what is captured is
// checked for each message.
func (c *compiler) checkTo(key, to string) {
	if !isTemplate(to) {
		if err := address.Check(to); err != nil {
			c.fail(key, "%s", err)
		}
		return
	}
	if !c.checkTemplate(key, to) {
		return
	}
	sample := placeholder.ReplaceAllString(to, "x")
	if !strings.Contains(sample, "@") { // all of it is captured
		sample = placeholder.ReplaceAllString(to, "x@x.example")
	}
	if address.Check(sample) != nil {
		c.fail(key, "%q is not an address, whatever is captured; write it like ${client}@firm.example", to)
	}
}

// recipients are the addresses of a rule that matched. The error names one that is not an address.
func (r Rule) recipients(captured map[string]string) ([]string, error) {
	var list []string
	for i, to := range r.To {
		made := expand(to, captured)
		if isTemplate(to) {
			if err := checkMade(made, to, captured); err != nil {
				return nil, fmt.Errorf("to[%d] (%q) becomes %q, which is not an address: %w", i, to, excerpt(made), err)
			}
		}
		list = append(list, made)
	}
	return list, nil
}

// checkMade checks an address made of a template. A stranger wrote what is captured, and must not
// use characters with a meaning to relays or shells.
func checkMade(made, template string, captured map[string]string) error {
	for _, m := range placeholder.FindAllStringSubmatch(template, -1) {
		for _, r := range captured[m[1]] {
			if !unicode.IsLetter(r) && !unicode.IsDigit(r) && !strings.ContainsRune("@._+-='", r) {
				return fmt.Errorf("captured text may put only letters, digits and @ . _ + - = ' "+
					"into an address, not %q", r)
			}
		}
	}
	if strings.HasPrefix(made, "-") && !strings.HasPrefix(template, "-") {
		return errors.New("what is captured may not make it begin with a dash")
	}
	err := address.Check(made)
	return cmp.Or(errors.Unwrap(err), err) // without the address, which the caller names
}

// priority is the priority of a rule that matched. If what was captured is none, it is normal, and
// the error says so.
func (r Rule) priority(captured map[string]string) (Priority, error) {
	switch p := Priority(fold(expand(string(r.Priority), captured))); p {
	case "":
		return Normal, nil
	case Normal, High:
		return p, nil
	default:
		return Normal, fmt.Errorf("priority (%q) becomes %q, which is not a priority; normal is used",
			r.Priority, excerpt(string(p)))
	}
}
