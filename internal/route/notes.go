package route

import (
	"fmt"
	"slices"
	"strings"

	"postrider/internal/address"
)

// Recipients are the addresses that the routes name, each mailbox once: not those that a message
// or the directory decides.
func (t *Table) Recipients() []string {
	var out []string
	seen := map[string]bool{}
	for _, r := range t.rules {
		for _, to := range r.To {
			if key := address.Mailbox(to); !isTemplate(to) && !seen[key] {
				seen[key] = true
				out = append(out, to)
			}
		}
	}
	return out
}

// Notes are remarks on routes that are valid, but may not do what they were written for. An
// operator may want them so.
func (t *Table) Notes() []string {
	names, taker := t.Unreached()
	if len(names) == 0 {
		return nil
	}
	which, before := "the route", "it"
	if len(names) > 1 {
		which, before = "the routes", "them"
	}
	return []string{fmt.Sprintf("no message reaches %s %s, because the route %q before %s takes every message; "+
		"move %[3]q to the end, or add continue: true to it", which, quoteAll(names, ", "), taker, before)}
}

// InboxNotes are remarks on routes that have the inbox's own address as a recipient. The relay may
// know another mailbox by that address, as while a server is moved. general are the actions for
// messages of all routes.
func (t *Table) InboxNotes(general After, inbox string, labels ...string) []string {
	forwards, nobody, others := t.Returns(inbox, labels...)
	others = slices.DeleteFunc(others, func(route string) bool {
		a := t.After(route, general)
		return a.Forwarded != Delete && a.Deletes() == 0
	})
	var out []string
	if len(forwards) > 0 {
		out = append(out, fmt.Sprintf("route %s forwards to this inbox's own address (own_address: forward): "+
			"if that leads back here, each message arrives a second time and is skipped (loop); "+
			"set own_address: skip to leave the address out", strings.Join(forwards, ", ")))
	}
	if len(nobody) > 0 {
		out = append(out, fmt.Sprintf("route %s forwards only to this inbox's own address, "+
			"which has the message already, so it skips each message (loop): "+
			"add a recipient, or `match: {not: {inbox: %s}}`, "+
			"or own_address: forward if this address is another mailbox at the relay",
			strings.Join(nobody, ", "), inbox))
	}
	if len(others) > 0 {
		out = append(out, fmt.Sprintf("route %s also names this inbox's own address, "+
			"whose only copy is the one here, so the message is not deleted (section after): "+
			"move it, or set own_address: forward if this address is another mailbox at the relay",
			strings.Join(others, ", ")))
	}
	return out
}
