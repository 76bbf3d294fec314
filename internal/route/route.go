// Package route decides who gets a message.
//
// A table of rules is compiled once and asked for each message. Rules are tried in order. The first
// that matches decides, unless it has continue: then its recipients are collected and the next rule
// is tried. All keys of a match have to hold, and a list means any of its entries; without keys it
// holds for every message. A condition on something that cannot be read, or not decoded within
// maxTime and the limits of package message, is undecided: neither it nor its negation holds.
//
// Addresses, inboxes, labels and folders are compared with globs (* any text, ? one character) that
// cover all of the text; other texts are searched for a substring, or a regular expression in
// slashes (RE2). Case, width and composition do not count, and an internationalised domain equals
// its xn-- form. What named groups capture can stand in recipients, the priority and a note; a rule
// whose capture makes no address is not used, and the next one is tried. With to_contacts a rule
// adds the contacts that the message mentions; the decision says who of them has no address. The
// inbox's own address is left out, unless a rule says otherwise (own.go).
//
// Decide and Explain are one evaluation, and decode the content once, if a rule needs it. When the
// caller's context ends, the decision is incomplete and must not be used. Times are those of the
// arrival (view.go), so that a later decision is the same. The package knows neither IMAP, SMTP,
// the database nor the configuration file.
package route

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"postrider/internal/address"
	"postrider/internal/message"
	words "postrider/internal/text"
)

// Priority is the order in which tasks are processed: high before normal.
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
	After      After       `yaml:"after"`
	Continue   bool        `yaml:"continue"` // collect To and go on to the next rule
	Skip       bool        `yaml:"skip"`     // do not forward, on purpose
}

// Match is what has to be true of a message. A nil or zero key is not looked at.
type Match struct {
	Inbox         []string            `yaml:"inbox"`  // globs
	Label         []string            `yaml:"label"`  // globs
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

// Mail is what a rule looks at. If Message is nil, only its place and size are known. If it has no
// folder either, it stands for any message of the inbox.
type Mail struct {
	Inbox, Folder string
	Labels        []string // of the inbox, as name=value
	Message       *message.Message
	Size          int64     // octets
	At            time.Time // when it was registered; now, if it is not registered yet
}

// isAny reports whether m stands for any message of its inbox.
func (m Mail) isAny() bool { return m.Message == nil && m.Folder == "" }

// Decision is who gets a message. Without recipients the message is not forwarded: on purpose if
// Skip is set, else because no rule matched.
type Decision struct {
	Route    string   // the names in Matched, joined by "+"; at most 255 octets, "…" stands for the rest
	Matched  []string // the names of the rules that matched
	To       []string // each mailbox once, in the order of the rules
	Priority Priority // high when any rule that matched is
	Skip     bool
	Loop     bool     // with Skip: its only recipient is the inbox that it came to
	Reason   string   // one line for a person; with Skip it begins with by_route:, automated: or loop:
	LeftOut  string   // the inbox's own address, if it was left out of the recipients; Note says why
	Unsure   bool     // more of the message may lead to another decision
	Doubts   []string // with Unsure: rules that are undecided, and why; those with a problem are in Problems
	Err      error    // with Unsure: the message could not be read; another try may succeed
	// Problems are captures that cannot be used, and contacts without an address or not looked for.
	// They may quote the message.
	Problems []string

	Unreached bool // a rule in Problems names a recipient that has no address
}

// Table is a compiled list of rules. It does not change and may be used by several goroutines at
// once.
type Table struct {
	rules     []compiled
	directory *Directory // nil: it is empty
	maxTime   time.Duration
}

// maxTime is how long the content of one message may take to decode. Decoding takes less than a
// second, unless the machine is very busy.
const maxTime = 10 * time.Second

// Decide says who gets m. A rule that skips ends the search; recipients of earlier rules remain.
func (t *Table) Decide(ctx context.Context, m Mail) Decision {
	d := Decision{Priority: Normal}
	byProgram := automated(m)
	seen := map[string]bool{}
	var why string      // the last matching rule adds no recipients on purpose
	var mayMatch string // the first rule that is undecided, and why
	results, failed := t.evaluate(ctx, m, false)
	for _, r := range results {
		if r.problem != "" && r.outcome != Failed {
			d.Problems = append(d.Problems, fmt.Sprintf("route %q: %s", r.Name, r.problem))
			d.Unreached = d.Unreached || r.unreached
		}
		if r.undecided != "" {
			d.Unsure = true
			doubt := fmt.Sprintf("route %q: %s", r.Name, words.Cut(r.undecided, maxWhy))
			if mayMatch == "" && r.outcome == Failed {
				mayMatch = "; " + doubt
			}
			if r.problem == "" || r.outcome == Failed {
				d.Doubts = append(d.Doubts, doubt)
			}
		}
		if r.outcome == Matched {
			d.Unsure = d.Unsure || m.Message == nil && r.Automated == SkipAutomated // a program may have sent it
			why = d.take(r, byProgram, seen)
		}
	}
	if d.Unsure {
		d.Err = failed
	}
	if d.LeftOut != "" && slices.ContainsFunc(d.To, m.isOwn) { // another rule forwards it
		d.LeftOut = ""
	}
	d.Skip = len(d.Matched) > 0 && len(d.To) == 0
	d.Loop = d.Loop && d.Skip
	d.Route = joined(d.Matched)
	d.Reason = strings.Join(append([]string{d.reason(why, mayMatch)}, d.Problems...), "; ")
	return d
}

const maxWhy = 200 // characters of why a rule is undecided

// take adds what a matching rule says. It returns the reason if the rule adds no recipients. seen
// holds the mailboxes in d.To.
func (d *Decision) take(r result, byProgram string, seen map[string]bool) (why string) {
	d.Matched, d.Loop = append(d.Matched, r.Name), false
	if r.urgency == High {
		d.Priority = High
	}
	if why = r.skips(byProgram); why != "" {
		return why
	}
	d.LeftOut = cmp.Or(d.LeftOut, r.leftOut)
	for _, to := range r.to {
		if key := address.Mailbox(to); !seen[key] {
			seen[key] = true
			d.To = append(d.To, to)
		}
	}
	if len(r.to) == 0 {
		d.Loop = true
		return fmt.Sprintf("loop: the only recipient of route %q is the inbox's own address, %s; "+
			"if that is another mailbox at the relay, set own_address: forward", r.Name, r.leftOut)
	}
	return ""
}

func (d Decision) reason(skipped, mayMatch string) string {
	why := "matches route " + strings.Join(d.Matched, ", ")
	switch {
	case len(d.Matched) == 0:
		return "no route matches" + mayMatch
	case d.Skip:
		why = skipped
	}
	if d.LeftOut != "" && !d.Loop {
		why += "; " + d.Note()
	}
	return why
}

// result is the evaluation of one rule.
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

	unreached bool   // it names a recipient that has no address
	undecided string // why it is, or its captures or contacts are; empty if nothing is
}

// evaluate tries the rules up to the one that decides. failed is why the message could not be read.
func (t *Table) evaluate(ctx context.Context, m Mail, whole bool) (results []result, failed error) {
	limited, cancel := context.WithTimeout(ctx, cmp.Or(t.maxTime, maxTime))
	defer cancel()
	v := newView(limited, m)
	v.directory, v.whole = t.directory, whole
	for i := range t.rules {
		one := t.rules[i].try(v)
		results = append(results, one)
		if one.outcome == Matched && !one.Continue || ctx.Err() != nil {
			break
		}
	}
	if v.parts != nil {
		failed = v.parts.Err
	}
	return results, failed
}

func (r *compiled) try(v *view) result {
	res := result{compiled: r, outcome: Failed}
	held, found := all(r.conditions, v)
	res.found = found
	if held == Undecided || held == Held && r.captures() { // another group may be the first that captures
		res.undecided = undecided(found)
	}
	if held != Held {
		return res
	}
	res.captured = map[string]string{}
	captures(found, res.captured)
	to, err := r.recipients(res.captured)
	if err != nil {
		res.outcome, res.problem, res.unreached = NotUsed, err.Error(), true
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
