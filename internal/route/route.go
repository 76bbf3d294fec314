// Package route decides who gets a message.
//
// A table of rules is compiled once and then asked for each message. Rules are tried in order and the first that
// matches decides, unless it says continue: then its recipients are collected and the next rule is tried. All keys of
// a match have to hold, a list means any of, and a match without keys holds for every message, also for one whose
// header nobody can read. A condition on what cannot be read is undecided: neither it nor its negation holds.
//
// Addresses, inboxes and folders are compared with globs (* any text, ? one character) that have to cover all of it.
// Text is searched for a substring, or for a regular expression written /so/ (RE2). Neither looks at case, at how a
// character is composed or how wide it is; an internationalised domain equals its xn-- form. What the named groups of a
// regular expression capture can stand in recipients, the priority and a note; a rule whose recipient comes out as no address is
// passed over, and the next ones are tried.
//
// A recipient that is the inbox's own address is left out, unless a rule says otherwise (own.go).
//
// With to_contacts a rule adds the contacts that the message names. They are looked for all at once, as whole words in scripts
// that have them and anywhere in others; one that is nobody's address leads to no recipient, and is told of.
//
// The content is decoded once a decision, when a rule asks for it, and no further than package message allows. Time is that
// of arrival (view.go), so that a decision made again later is the same. Decide and Explain are one evaluation. The
// package knows neither IMAP, SMTP, the database nor the configuration file.
package route

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"postrider/internal/message"
)

// Priority is the order in which tasks are worked off: high before normal.
type Priority string

// The priorities. A rule that names none is normal.
const (
	Normal Priority = "normal"
	High   Priority = "high"
)

// Rule says who gets the messages that match.
type Rule struct {
	Name       string      `yaml:"name"`
	Match      Match       `yaml:"match"`
	To         []string    `yaml:"to"` // plain addresses, with ${name} for what match has captured
	ToContacts *ToContacts `yaml:"to_contacts"`
	Priority   Priority    `yaml:"priority"` // the same way
	Uncertain  Uncertain   `yaml:"uncertain"`
	Automated  Automated   `yaml:"automated"`
	OwnAddress OwnAddress  `yaml:"own_address"`
	Mode       Mode        `yaml:"mode"`
	Fallback   Fallback    `yaml:"fallback"`
	Resent     *bool       `yaml:"resent"`
	Continue   bool        `yaml:"continue"` // collect To and go on to the next rule
	Skip       bool        `yaml:"skip"`     // forward to nobody on purpose
}

// Match is what has to be true of a message. A nil or zero key is not looked at.
type Match struct {
	Inbox         []string            `yaml:"inbox"`  // globs
	Folder        []string            `yaml:"folder"` // globs
	From          []string            `yaml:"from"`   // globs
	To            []string            `yaml:"to"`     // globs
	Cc            []string            `yaml:"cc"`     // globs
	Recipient     []string            `yaml:"recipient"`
	Subject       []string            `yaml:"subject"` // text
	Body          []string            `yaml:"body"`    // text
	Header        map[string][]string `yaml:"header"`  // field name -> text
	ListID        []string            `yaml:"list_id"` // text, or a glob for the identifier
	HasAttachment *bool               `yaml:"has_attachment"`
	Attachment    []string            `yaml:"attachment"` // text, or a glob for a file name
	Larger        Size                `yaml:"larger"`     // than this many octets
	Smaller       Size                `yaml:"smaller"`    // than this many octets
	Age           *Age                `yaml:"age"`        // when it was registered
	Weekday       []string            `yaml:"weekday"`    // of its arrival: sat, mon-fri
	Hours         []string            `yaml:"hours"`      // of its arrival: 08:00-18:00
	TimeZone      string              `yaml:"time_zone"`  // of weekday, hours and when, also in groups; an IANA name
	Any           []Match             `yaml:"any"`        // one of them holds
	Not           *Match              `yaml:"not"`        // does not hold
	When          string              `yaml:"when"`       // an expression, see type environment
}

// Mail is what a rule looks at. Message may be nil: nothing is known of it then but where it lies, and its size.
type Mail struct {
	Inbox, Folder string
	Message       *message.Message
	Size          int64     // octets
	At            time.Time // when it was registered, or now if that is still to come
}

// Decision is who gets a message. Without recipients it is forwarded to nobody: on purpose when Skip is set, and else
// because no rule matched.
type Decision struct {
	Route    string   // the names of the rules that matched, joined by "+"; at most 255 octets, "…" standing for the rest
	Matched  []string // the same names
	To       []string // each mailbox once, in the order of the rules
	Priority Priority // high when any rule that matched is
	Skip     bool
	Reason   string   // one line for a person; with Skip it begins with ByRoute, ByAutomated or ByOwnAddress
	LeftOut  string   // the inbox's own address, as a rule has it, when nobody gets the message for it; Note says so
	Unsure   bool     // not all that was asked could be told: with more of the message the decision may be another
	Problems []string // what was captured and could not be used, and contacts without an address, one line each; it may quote the message
}

// Table is a compiled list of rules. It does not change and may be used by several goroutines at once.
type Table struct {
	rules     []compiled
	directory *Directory // nil: nobody is in it
}

// Decide says who gets m. A rule that skips ends the search; what earlier rules collected still goes out.
func (t *Table) Decide(m Mail) Decision {
	d := Decision{Priority: Normal}
	robot := automated(m)
	seen := map[string]bool{}
	var why string // the last rule that matched adds nobody on purpose
	for _, r := range t.evaluate(m, false) {
		if r.problem != "" && r.outcome != Failed {
			d.Problems = append(d.Problems, fmt.Sprintf("route %q: %s", r.Name, r.problem))
		}
		d.Unsure = d.Unsure || r.unsure
		if r.outcome == Matched {
			d.Unsure = d.Unsure || m.Message == nil && r.Automated == SkipAutomated // a program's, perhaps
			why = d.take(r, robot, seen)
		}
	}
	if d.LeftOut != "" && slices.ContainsFunc(d.To, m.own) { // another rule forwards it
		d.LeftOut = ""
	}
	d.Skip = len(d.Matched) > 0 && len(d.To) == 0
	d.Route = joined(d.Matched)
	d.Reason = strings.Join(append([]string{d.reason(why)}, d.Problems...), "; ")
	return d
}

// take adds what a rule says that matches. It returns why that is nobody, if it is. seen are the mailboxes in d.To.
func (d *Decision) take(r result, robot string, seen map[string]bool) (nobody string) {
	d.Matched = append(d.Matched, r.Name)
	if r.urgency == High {
		d.Priority = High
	}
	if nobody = r.skips(robot); nobody != "" {
		return nobody
	}
	d.LeftOut = cmp.Or(d.LeftOut, r.leftOut)
	for _, to := range r.to {
		if key := mailbox(to); !seen[key] {
			seen[key] = true
			d.To = append(d.To, to)
		}
	}
	if len(r.to) == 0 {
		return fmt.Sprintf("%s route %q has no other recipient", ByOwnAddress, r.Name)
	}
	return ""
}

func (d Decision) reason(skipped string) string {
	why := "matches route " + strings.Join(d.Matched, ", ")
	switch {
	case len(d.Matched) == 0:
		return "no route matches"
	case d.Skip:
		why = skipped
	}
	if d.LeftOut != "" {
		why += "; " + d.Note()
	}
	return why
}

// result is what became of one rule.
type result struct {
	*compiled
	outcome  Outcome
	found    []finding
	captured map[string]string
	to       []string
	leftOut  string // the inbox's own address, which is not in to
	contacts []Mention
	urgency  Priority
	problem  string
	unsure   bool // it could not be decided, or not what it captures or whom of the directory it finds
}

// evaluate tries the rules up to and including the one that decides. With whole, all conditions of a rule are asked, for a
// person to see; the outcome is the same.
func (t *Table) evaluate(m Mail, whole bool) []result {
	v := newView(m)
	v.directory = t.directory
	var results []result
	for i := range t.rules {
		one := t.rules[i].try(v, whole)
		results = append(results, one)
		if one.outcome == Matched && !one.Continue {
			break
		}
	}
	return results
}

func (r *compiled) try(v *view, whole bool) result {
	res := result{compiled: r, outcome: Failed}
	held, found := all(r.conditions, v, whole)
	res.found, res.unsure = found, held == unknown
	if held != yes {
		return res
	}
	res.unsure = r.captures() && undecided(found)
	res.captured = map[string]string{}
	captures(found, res.captured)
	to, err := r.recipients(res.captured)
	if err != nil {
		res.outcome, res.problem = PassedOver, err.Error()
		return res
	}
	res.outcome = Matched
	res.add(v.mail, to...)
	res.addContacts(v)
	if res.urgency, err = r.priority(res.captured); err != nil && res.outcome == Matched {
		res.problem = strings.TrimPrefix(res.problem+"; "+err.Error(), "; ")
	}
	return res
}
