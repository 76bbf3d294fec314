package route

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// ToContacts adds the people of the directory that a message names, each with an address, to the recipients of a rule. A
// rule that has no others and finds nobody does not match.
type ToContacts struct {
	In []string `yaml:"in"` // where to look: subject, body, attachment
}

// Mention is a contact that a message names.
type Mention struct {
	Name  string `json:"name"`
	Email string `json:"email"` // empty when there is none
	By    string `json:"by"`    // the name or keyword that was found, as in the directory
	In    string `json:"in"`    // subject, body, attachment
	On    string `json:"on"`    // the place, folded
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

// places are where contacts can be looked for. The texts, and why there may be more of them.
var places = map[string]func(*view) ([]text, string){
	"subject":    func(v *view) ([]text, string) { return v.text("Subject"), "" },
	"body":       func(v *view) ([]text, string) { return v.body(), v.content().Incomplete },
	"attachment": func(v *view) ([]text, string) { return spaced(v.attachments()), v.content().Incomplete },
}

// spaced are names of files, and the same with spaces for what people write instead of them: Ann_Miller.pdf.
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

// With is the same table with a directory. One without finds no contacts.
func (t *Table) With(d *Directory) *Table { return &Table{rules: t.rules, directory: d} }

// located is what was found at one place of a message.
type located struct {
	found map[int]Mention
	why   string // there may be more
}

// locate looks for all contacts at one place, once for all rules.
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

// named are the contacts that a message names at these places, in the order of the directory, and why there may be more.
func (v *view) named(in []string) (list []Mention, why string) {
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

// addContacts adds the contacts that the message names to a rule that matches. When the rule has no recipients then, not even one
// that is left out, it does not match; nor when the inbox's own address is all it has, and somebody else is named, or may be.
func (r *result) addContacts(v *view) {
	if r.ToContacts == nil {
		return
	}
	list, why := v.named(r.ToContacts.In)
	r.contacts, r.unsure = list, r.unsure || why != ""
	var mute []Mention
	for _, m := range list {
		if m.Email == "" {
			mute = append(mute, m)
			continue
		}
		r.add(v.mail, m.Email)
	}
	r.problem = unreachable(mute)
	switch {
	case len(r.to) > 0:
	case len(mute) > 0:
		r.outcome = PassedOver
	case why != "":
		r.outcome, r.problem = Failed, "to_contacts is undecided: "+why
	case r.leftOut == "":
		r.outcome, r.problem = Failed, "to_contacts finds nobody of the directory in: "+strings.Join(r.ToContacts.In, ", ")
	}
}

// unreachable says which contacts have no address.
func unreachable(list []Mention) string {
	const most = 10
	var lines []string
	for _, m := range list[:min(len(list), most)] {
		lines = append(lines, fmt.Sprintf("contact %s is named in the %s and has no email address", quote(m.Name), m.In))
	}
	if n := len(list) - most; n > 0 {
		lines = append(lines, fmt.Sprintf("%d more contacts have none", n))
	}
	return strings.Join(lines, "; ")
}
