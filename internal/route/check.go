package route

import (
	"errors"
	"fmt"
	"net/mail"
	"strings"
	"unicode"
	"unicode/utf8"
)

// maxName leaves room for several names in the column that holds a task's route.
const maxName = 64

func (c *compiler) checkName(first map[string]int) {
	switch earlier, taken := first[c.Name]; {
	case c.Name == "":
		c.fail("name", "is missing; tasks and reports name the route that decided")
	case utf8.RuneCountInString(c.Name) > maxName:
		c.fail("name", "is longer than %d characters", maxName)
	case strings.ContainsFunc(c.Name, unicode.IsControl) || strings.Contains(c.Name, plus):
		c.fail("name", "must not contain + or control characters: + joins the names when several routes match")
	case c.Name == cut:
		c.fail("name", "must not be %s alone, which stands for the rest of the names when many routes match", cut)
	case taken:
		c.fail("name", "is the name of route number %d too; names have to differ", earlier+1)
	default:
		first[c.Name] = c.index
	}
}

// checkFate looks at what happens to a message that matches.
func (c *compiler) checkFate() {
	switch {
	case isTemplate(string(c.Priority)):
		c.checkTemplate("priority", string(c.Priority))
	case c.Priority != "" && c.Priority != Normal && c.Priority != High:
		c.fail("priority", "%q is not one of high, normal", c.Priority)
	}
	switch c.Uncertain {
	case "", Retry, Hold:
	default:
		c.fail("uncertain", "%q is not one of retry, hold", c.Uncertain)
	}
	switch c.Automated {
	case "", ForwardAutomated, SkipAutomated:
	default:
		c.fail("automated", "%q is not one of forward, skip", c.Automated)
	}
	switch {
	case c.Skip && len(c.To) > 0:
		c.fail("skip", "contradicts to: a route either skips or has recipients")
	case c.Skip && c.Uncertain != "":
		c.fail("skip", "contradicts uncertain: a route that skips sends nothing")
	case c.Skip && c.Automated != "":
		c.fail("skip", "contradicts automated: a route that skips sends nothing")
	case c.Skip && c.Continue:
		c.fail("skip", "contradicts continue: a route that skips is the last one")
	case !c.Skip && len(c.To) == 0 && c.ToContacts == nil:
		c.fail("to", "is missing; name at least one recipient, or to_contacts, or write skip: true to forward to nobody on purpose")
	}
	c.checkContacts()
	for i, to := range c.To {
		c.checkTo(fmt.Sprintf("to[%d]", i), to)
	}
}

// CheckAddress reports what keeps s from being a mailbox that mail can be sent to: local@domain, without a name (RFC
// 5321 4.1.2), within the lengths of 4.5.3.1.
func CheckAddress(s string) error {
	a, err := mail.ParseAddress(s)
	switch {
	case s == "":
		return errors.New("an address is missing")
	case err != nil:
		return fmt.Errorf("%q is no address; write it like name@domain.example", s)
	case a.Address != s:
		return fmt.Errorf("%q is more than an address; write only %s", s, a.Address)
	case strings.ContainsAny(s[strings.LastIndexByte(s, '@')+1:], "!#$%&'*+/=?^`{|}~"): // net/mail lets them through
		return fmt.Errorf("%q is no address: its domain has a character that no domain has", s)
	case len(s) > 254 || strings.LastIndexByte(s, '@') > 64:
		return fmt.Errorf("%q is longer than mail allows (64 octets before the @, 254 in all)", s)
	}
	return nil
}
