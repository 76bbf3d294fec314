package route

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// ToContacts adds the contacts that a message mentions to the recipients of a rule. A rule without
// other recipients that finds no contact does not match.
type ToContacts struct {
	In []string `yaml:"in"` // where to look: subject, body, attachment
}

// Mention is a contact that a message mentions.
type Mention struct {
	Name  string `json:"name"`
	Email string `json:"email"` // empty when there is none
	By    string `json:"by"`    // the name or keyword that was found, as in the directory
	In    string `json:"in"`    // subject, body, attachment
	On    string `json:"on"`    // the text around it, folded
}

// String is one line for a person.
func (m Mention) String() string {
	who := quote(m.Name)
	if m.By != m.Name {
		who += " by " + quote(m.By)
	}
	to := "<" + m.Email + ">"
	if m.Email == "" {
		to = "without an email address"
	}
	return fmt.Sprintf("contact %s, %s, in %s: %s", who, to, m.In, quote(m.On))
}

// places are where contacts are looked for. Each returns the texts, and the reason if there may be
// more.
var places = map[string]func(*view) ([]text, string){
	"subject":    func(v *view) ([]text, string) { return v.text("Subject"), "" },
	"body":       func(v *view) ([]text, string) { return v.body(), v.unread() },
	"attachment": func(v *view) ([]text, string) { return spaced(v.attachments()), v.missing() },
}

// spaced adds to file names the same names with spaces, so that Ann_Miller.pdf contains Ann Miller.
func spaced(names []text) []text {
	list := slices.Clone(names)
	for _, name := range names {
		if s := spaces.Replace(name.folded); s != name.folded {
			list = append(list, text{folded: squeeze(s)})
		}
	}
	return list
}

var spaces = strings.NewReplacer("_", " ", "-", " ", ".", " ", "+", " ", "%20", " ")

func (c *compiler) checkContacts() {
	const choice = "subject, body, attachment"
	switch {
	case c.ToContacts == nil:
		return
	case c.Skip:
		c.fail("skip", "contradicts to_contacts: a route either skips or has recipients")
	case len(c.ToContacts.In) == 0:
		c.fail("to_contacts.in", "is missing; say where contacts are looked for: one or more of %s", choice)
	}
	for i, in := range c.ToContacts.In {
		if _, ok := places[in]; !ok {
			c.fail(fmt.Sprintf("to_contacts.in[%d]", i), "%q is not one of %s", in, choice)
		}
	}
}

// UsesContacts reports whether a rule looks into the directory.
func (t *Table) UsesContacts() bool {
	return slices.ContainsFunc(t.rules, func(r compiled) bool { return r.ToContacts != nil })
}

// With is the same table with a directory. A table without one finds no contacts.
func (t *Table) With(d *Directory) *Table {
	return &Table{rules: t.rules, directory: d, maxTime: t.maxTime}
}

// located is what was found in one place of a message.
type located struct {
	found map[int]Mention
	why   string // why there may be more; empty otherwise
}

// locate looks for all contacts in one place. It does so once for all rules.
func (v *view) locate(in string) located {
	if l, ok := v.mentions[in]; ok {
		return l
	}
	l := located{found: map[int]Mention{}}
	switch {
	case v.directory == nil:
	case v.mail.Message == nil:
		l.why = "the message could not be fetched"
	default:
		var texts []text
		texts, l.why = places[in](v)
		for _, t := range texts {
			for i, m := range v.directory.find(t.folded) {
				if _, ok := l.found[i]; !ok {
					m.In = in
					l.found[i] = m
				}
			}
		}
	}
	v.mentions[in] = l
	return l
}

// mentioned are the contacts that a message mentions in these places, in the order of the
// directory. why is the reason if there may be more.
func (v *view) mentioned(in []string) (list []Mention, why string) {
	all := map[int]Mention{}
	for _, place := range in {
		l := v.locate(place)
		for i, m := range l.found {
			if _, ok := all[i]; !ok {
				all[i] = m
			}
		}
		if why == "" {
			why = l.why
		}
	}
	for _, i := range slices.Sorted(maps.Keys(all)) {
		list = append(list, all[i])
	}
	return list, why
}

// addContacts adds the contacts that the message mentions to a rule that matches. A rule that then
// has no recipients, and leaves out none, does not match. Nor does a rule whose only recipient is
// the inbox's own address, if another contact is mentioned or may be.
func (r *result) addContacts(v *view) {
	if r.ToContacts == nil {
		return
	}
	list, why := v.mentioned(r.ToContacts.In)
	r.contacts = list
	var unreachable []Mention
	for _, m := range list {
		if m.Email == "" {
			unreachable = append(unreachable, m)
			continue
		}
		r.add(v.mail, m.Email)
	}
	r.problem, r.unreached = missingEmails(unreachable), len(unreachable) > 0
	if why != "" {
		why = "to_contacts is undecided: " + why
		r.undecided = cmp.Or(r.undecided, why)
		r.problem = strings.TrimPrefix(r.problem+"; "+why, "; ")
	}
	switch {
	case len(r.to) > 0:
	case len(unreachable) > 0:
		r.outcome = NotUsed
	case why != "":
		r.outcome = Failed
	case r.leftOut == "":
		r.outcome = Failed
		r.problem = "to_contacts finds no contact of the directory in: " + strings.Join(r.ToContacts.In, ", ")
	}
}

// missingEmails says which contacts have no email address.
func missingEmails(list []Mention) string {
	const most = 10
	var lines []string
	for _, m := range list[:min(len(list), most)] {
		lines = append(lines,
			fmt.Sprintf("contact %s is named in the %s and has no email address", quote(m.Name), m.In))
	}
	if n := len(list) - most; n > 0 {
		lines = append(lines, fmt.Sprintf("%d more contacts have none", n))
	}
	return strings.Join(lines, "; ")
}
