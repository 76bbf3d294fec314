// Package route decides who gets a message.
//
// A table of rules is compiled once and then asked for each message. Rules are tried in order and the first that
// matches decides, unless it says continue: then its recipients are collected and the next rule is tried. All keys of
// a match have to hold, a list means any of, and a match without keys holds for every message, also for one whose
// header nobody can read.
//
// Addresses, inboxes and folders are compared with globs (* any text, ? one character) that have to cover all of it.
// Text is searched for a substring, or for a regular expression written /so/ (RE2). Neither looks at case, at how a
// character is composed or how wide it is; an internationalised domain equals its xn-- form.
//
// Decide and Explain are one evaluation. The package knows neither IMAP, SMTP, the database nor the configuration
// file.
package route

import (
	"fmt"
	"strings"

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
	Name      string    `yaml:"name"`
	Match     Match     `yaml:"match"`
	To        []string  `yaml:"to"` // plain addresses
	Priority  Priority  `yaml:"priority"`
	Uncertain Uncertain `yaml:"uncertain"`
	Continue  bool      `yaml:"continue"` // collect To and go on to the next rule
	Skip      bool      `yaml:"skip"`     // forward to nobody on purpose
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
	Header        map[string][]string `yaml:"header"`  // field name -> text
	ListID        []string            `yaml:"list_id"` // text, or a glob for the identifier
	HasAttachment *bool               `yaml:"has_attachment"`
	Larger        Size                `yaml:"larger"`  // than this many octets
	Smaller       Size                `yaml:"smaller"` // than this many octets
}

// Mail is what a rule looks at. Message may be nil: nothing is known of its header then.
type Mail struct {
	Inbox, Folder string
	Message       *message.Message
	Size          int64 // octets
}

// Decision is who gets a message. Without recipients it is forwarded to nobody: on purpose when Skip is set, and else
// because no rule matched.
type Decision struct {
	Route    string   // the names of the rules that matched, joined by "+"; at most 255 octets, "…" standing for the rest
	Matched  []string // the same names
	To       []string // each mailbox once, in the order of the rules
	Priority Priority // high when any rule that matched is
	Skip     bool
	Reason   string // one line for a person
}

// Table is a compiled list of rules. It does not change and may be used by several goroutines at once.
type Table struct{ rules []compiled }

// Decide says who gets m. A rule that skips ends the search; what earlier rules collected still goes out.
func (t *Table) Decide(m Mail) Decision {
	d := Decision{Priority: Normal}
	seen := map[string]bool{}
	skip := false
	for i, s := range t.evaluate(m) {
		if s.Outcome != Matched {
			continue
		}
		r := t.rules[i]
		d.Matched = append(d.Matched, r.Name)
		skip = r.Skip
		if r.Priority == High {
			d.Priority = High
		}
		for _, to := range r.To {
			if key := mailbox(to); !seen[key] {
				seen[key] = true
				d.To = append(d.To, to)
			}
		}
	}
	d.Skip = skip && len(d.To) == 0
	d.Route = joined(d.Matched)
	switch {
	case len(d.Matched) == 0:
		d.Reason = "no route matches"
	case d.Skip:
		d.Reason = fmt.Sprintf("route %q skips it", d.Matched[len(d.Matched)-1])
	default:
		d.Reason = "matches route " + strings.Join(d.Matched, ", ")
	}
	return d
}
