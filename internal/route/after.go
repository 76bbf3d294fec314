package route

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Action is what happens to a message on its server once its task has ended: Keep, Seen, Delete,
// "flag:" and a flag, or "move:" and a folder. Empty: unset.
type Action string

// Actions without an argument.
const (
	Keep   Action = "keep"   // nothing
	Seen   Action = "seen"   // \Seen (RFC 3501 2.3.2)
	Delete Action = "delete" // for good
)

const (
	flagPrefix = "flag:"
	movePrefix = "move:"
)

// Acts reports whether there is an action other than Keep.
func (a Action) Acts() bool { return a != "" && a != Keep }

// Flag is the flag that a message gets, if it gets one.
func (a Action) Flag() (string, bool) {
	if a == Seen {
		return `\Seen`, true
	}
	return strings.CutPrefix(string(a), flagPrefix)
}

// Folder is where a message is moved, if it is moved.
func (a Action) Folder() (string, bool) { return strings.CutPrefix(string(a), movePrefix) }

// maxFolder is the longest name of a folder, in octets.
const maxFolder = 240

// UnmarshalText reads keep, seen, delete, "flag: FLAG" and "move: FOLDER".
func (a *Action) UnmarshalText(b []byte) error {
	in := strings.TrimSpace(string(b))
	word, arg, has := strings.Cut(in, ":")
	arg = strings.TrimSpace(arg)
	switch word = strings.TrimSpace(word); {
	case !has && slices.Contains([]Action{Keep, Seen, Delete}, Action(in)):
		*a = Action(in)
	case has && word == "flag":
		if err := checkFlag(arg); err != nil {
			return err
		}
		*a = Action(flagPrefix + arg)
	case has && word == "move":
		control := func(r rune) bool { return r < ' ' || r == 0x7f }
		if arg == "" || len(arg) > maxFolder || strings.ContainsFunc(arg, control) {
			return fmt.Errorf("%q is not the name of a folder; it has 1 to %d octets and no control characters",
				arg, maxFolder)
		}
		if strings.EqualFold(arg, "INBOX") {
			arg = "INBOX" // the only name that is case-insensitive (RFC 3501 5.1)
		}
		*a = Action(movePrefix + arg)
	case strings.HasPrefix(in, "{"):
		return fmt.Errorf("is text with braces, %q; in a variable or in quotes, "+
			"write flag: FLAG or move: FOLDER without them", in)
	default:
		return fmt.Errorf("has to be keep, seen, delete, {flag: FLAG} or {move: FOLDER}, not %q", in)
	}
	return nil
}

// systemFlags are those that a client may set (RFC 3501 2.3.2) and that do not delete.
var systemFlags = []string{`\Answered`, `\Flagged`, `\Seen`}

// checkFlag accepts keywords, which are atoms (RFC 3501 9), and systemFlags.
func checkFlag(flag string) error {
	switch {
	case strings.HasPrefix(flag, `\`) && !slices.Contains(systemFlags, flag):
		return fmt.Errorf("%s is not a flag that can be set; use %s or a keyword such as $Forwarded",
			flag, strings.Join(systemFlags, ", "))
	case strings.HasPrefix(flag, `\`):
		return nil
	case flag == "" || len(flag) > maxFolder || strings.ContainsFunc(flag, outsideAtom):
		return fmt.Errorf(`%q is not a keyword; it has ASCII letters and digits, and none of (){%%*"\]`, flag)
	}
	return nil
}

// outsideAtom reports whether r is a character that no atom has (RFC 3501 9).
func outsideAtom(r rune) bool { return r <= ' ' || r >= 0x7f || strings.ContainsRune(`(){%*"\]`, r) }

// After is what happens to messages on their server, by how their tasks ended.
type After struct {
	Forwarded      Action         `yaml:"forwarded"`
	Dead           Action         `yaml:"dead"`
	DeleteAfter    *time.Duration `yaml:"delete_after"` // since the message was forwarded; nil or 0: never
	SkippedNoMatch Action         `yaml:"-"`            // never of a route: a message that no route matches has none
}

// Deletes is how long after its end a forwarded message is deleted; 0 for never.
func (a After) Deletes() time.Duration {
	if a.DeleteAfter == nil {
		return 0
	}
	return *a.DeleteAfter
}

// Or fills the unset keys of a from general.
func (a After) Or(general After) After {
	general.Forwarded = cmp.Or(a.Forwarded, general.Forwarded)
	general.Dead = cmp.Or(a.Dead, general.Dead)
	general.DeleteAfter = cmp.Or(a.DeleteAfter, general.DeleteAfter)
	return general
}

// After returns the actions for messages that were decided by route: the Route of a Decision, of
// this table or an earlier one. For each key the first named rule that has it decides; if none has
// it, general does. If the names were cut off, one of the missing rules may say keep, so nothing is
// done for the keys that no named rule has.
func (t *Table) After(route string, general After) After {
	var said After
	for name := range strings.SplitSeq(route, separator) {
		if name == ellipsis {
			never := time.Duration(0)
			return said.Or(After{Forwarded: Keep, SkippedNoMatch: Keep, Dead: Keep, DeleteAfter: &never})
		}
		said = said.Or(t.rule(name).After)
	}
	return said.Or(general)
}

// Check returns what is wrong with a as a whole, and the key; empty strings if nothing is.
func (a After) Check() (key, problem string) {
	kind := kindOf(a.Forwarded)
	switch d := a.Deletes(); {
	case a.Dead == Delete || kindOf(a.Dead) == "move":
		return "dead", "cannot be " + kindOf(a.Dead) + ": the message has to stay where it is, " +
			"so that `postrider task retry` finds it; use keep, seen or flag"
	case d < 0:
		return "delete_after", "is negative"
	case d > 0 && (kind == "delete" || kind == "move"):
		return "delete_after", "cannot be combined with forwarded: " + kind + ", because the message is gone " +
			"from its folder by then; use one of them (delete_after: 0s is never)"
	}
	return "", ""
}

func kindOf(a Action) string {
	kind, _, _ := strings.Cut(string(a), ":")
	return kind
}

// Actions are those that a message of the inbox, which has these labels, may get, without Keep.
// general decides alone of a message that no rule matches, or that is dead before a rule decides.
func (t *Table) Actions(general After, inbox string, labels ...string) []Action {
	var all []Action
	add := func(a After) {
		one := []Action{a.Forwarded, a.SkippedNoMatch, a.Dead}
		if a.Deletes() > 0 {
			one = append(one, Delete)
		}
		for _, action := range one {
			if action.Acts() && !slices.Contains(all, action) {
				all = append(all, action)
			}
		}
	}
	add(After{SkippedNoMatch: general.SkippedNoMatch, Dead: general.Dead})
	for _, r := range t.mayMatch(Mail{Inbox: inbox, Labels: labels}) {
		if r.Skip { // it sends nothing, but recipients of earlier rules remain
			add(r.After)
		} else {
			add(r.After.Or(general))
		}
	}
	return all
}
