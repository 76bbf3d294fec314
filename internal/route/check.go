package route

import (
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// maxName leaves room for several names in the column that holds a task's route.
const maxName = 64

func (c *compiler) checkName(first map[string]int) {
	switch earlier, taken := first[c.Name]; {
	case strings.TrimSpace(c.Name) == "":
		c.fail("name", "is missing; tasks and reports name the route that decided")
	case utf8.RuneCountInString(c.Name) > maxName:
		c.fail("name", "is longer than %d characters", maxName)
	case strings.ContainsFunc(c.Name, unicode.IsControl) || strings.Contains(c.Name, separator):
		c.fail("name", "must not contain + or control characters: + joins the names when several routes match")
	case c.Name == ellipsis:
		c.fail("name", "must not be %s alone, which stands for the rest of the names when many routes match", ellipsis)
	case taken:
		c.fail("name", "is the name of route number %d too; names have to differ", earlier+1)
	default:
		first[c.Name] = c.index
	}
}

// oneOf checks a key that may be left out.
func (c *compiler) oneOf(key, value string, words ...string) {
	if value != "" && !slices.Contains(words, value) {
		c.fail(key, "%q is not one of %s", value, strings.Join(words, ", "))
	}
}

// checkActions checks what a rule does with a message that matches.
func (c *compiler) checkActions() {
	switch {
	case isTemplate(string(c.Priority)):
		c.checkTemplate("priority", string(c.Priority))
	case c.Priority != "" && c.Priority != Normal && c.Priority != High:
		c.fail("priority", "%q is not one of high, normal", c.Priority)
	}
	c.oneOf("uncertain", string(c.Uncertain), "retry", "hold")
	c.oneOf("automated", string(c.Automated), "forward", "skip")
	c.oneOf("own_address", string(c.OwnAddress), "skip", "forward")
	c.oneOf("mode", string(c.Mode), "auto", "redirect", "rewrite", "attach")
	c.oneOf("fallback", string(c.Fallback), "attach", "none")
	switch {
	case c.Skip && len(c.To) > 0:
		c.fail("skip", "contradicts to: a route either skips or has recipients")
	case c.Skip && c.Continue:
		c.fail("skip", "contradicts continue: a route that skips is the last one")
	case !c.Skip && len(c.To) == 0 && c.ToContacts == nil:
		c.fail("to", "is missing; name at least one recipient, or to_contacts, "+
			"or write skip: true to forward to nobody on purpose")
	}
	for _, sending := range []struct {
		key string
		set bool
	}{
		{"priority", c.Priority != ""},
		{"uncertain", c.Uncertain != ""},
		{"automated", c.Automated != ""},
		{"own_address", c.OwnAddress != ""},
		{"mode, fallback and resent", c.Mode != "" || c.Fallback != "" || c.Resent != nil},
	} {
		if c.Skip && sending.set {
			c.fail("skip", "contradicts %s: a route that skips sends nothing", sending.key)
		}
	}
	c.checkContacts()
	for i, to := range c.To {
		c.checkTo(fmt.Sprintf("to[%d]", i), to)
	}
}
