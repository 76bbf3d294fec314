package inbox

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"postrider/internal/text"
)

// Selection chooses inboxes. Both fields have to hold; an empty one holds for every inbox.
type Selection struct {
	Inboxes []string // an inbox has one of these addresses; * is any text, ? one character
	Labels  []string // it has all of these: name=value, or name with any value
}

// Empty reports whether the selection chooses every inbox.
func (s Selection) Empty() bool { return len(s.Inboxes) == 0 && len(s.Labels) == 0 }

// Choose returns the chosen ones of boxes. An address that no inbox has is a *NotFoundError; a glob
// or labels that choose no inbox are an *InvalidError.
func (s Selection) Choose(boxes []Inbox) ([]Inbox, error) {
	for _, address := range s.Inboxes {
		if !slices.ContainsFunc(boxes, addressed(address)) {
			return nil, noneNamed(boxes, fold(address))
		}
	}
	chosen := keep(boxes, s.Has)
	if len(chosen) == 0 && len(s.Labels) > 0 {
		return nil, &InvalidError{s.noneLabelled(keep(boxes, Selection{Inboxes: s.Inboxes}.Has))}
	}
	return chosen, nil
}

// Chosen lists the inboxes that a selection chooses, disabled ones too.
func (s *Store) Chosen(ctx context.Context, sel Selection) ([]Inbox, error) {
	all, err := s.List(ctx)
	if err != nil {
		return nil, err
	}
	return sel.Choose(all)
}

// ActiveOf lists the active inboxes that a selection chooses. A disabled one that it names by its
// address is an *InvalidError.
func (s *Store) ActiveOf(ctx context.Context, sel Selection) ([]Inbox, error) {
	if sel.Empty() {
		return s.Active(ctx)
	}
	boxes, err := s.Chosen(ctx, sel)
	if err != nil {
		return nil, err
	}
	named := slices.Clone(sel.Inboxes)
	for i, address := range named {
		named[i] = fold(address)
	}
	for _, in := range boxes {
		if !in.Active && slices.Contains(named, in.Address) {
			return nil, &InvalidError{fmt.Errorf("inbox %s is disabled; enable it with `postrider inbox enable %s`",
				in.Address, text.Arg(in.Address))}
		}
	}
	return keep(boxes, func(in Inbox) bool { return in.Active }), nil
}

// addressed compares the addresses of inboxes with an address or a glob.
func addressed(address string) func(Inbox) bool {
	is := text.Glob(fold(address))
	return func(in Inbox) bool { return is(in.Address) }
}

func noneNamed(boxes []Inbox, address string) error {
	if strings.ContainsAny(address, "*?") {
		hint := cmp.Or(text.DidYouMean(address, domains(boxes)), "; `postrider inbox list` shows all inboxes")
		return &InvalidError{fmt.Errorf("no inbox matches %s%s", address, hint)}
	}
	if _, err := ParseAddress(address); err != nil {
		return err
	}
	return &NotFoundError{Address: address, Nearest: text.Nearest(address, addresses(boxes))}
}

// noneLabelled says which labels there are instead.
func (s Selection) noneLabelled(boxes []Inbox) error {
	who := "no inbox"
	if len(s.Inboxes) > 0 {
		who = "none of the inboxes " + strings.Join(s.Inboxes, ", ")
	}
	labels := LabelsOf(boxes)
	for _, label := range s.Labels {
		switch {
		case slices.ContainsFunc(boxes, func(in Inbox) bool { return in.Labels.Has(label) }):
		case len(labels) == 0:
			return fmt.Errorf("%s has a label; set one with `postrider inbox set ADDR --label tenant=acme`", who)
		default:
			hint := cmp.Or(text.DidYouMean(label, labels), "; labels in use: "+some(labels))
			return fmt.Errorf("%s has the label %q%s", who, label, hint)
		}
	}
	return fmt.Errorf("%s has all of the labels %s together", who, strings.Join(s.Labels, ", "))
}

// LabelsOf are all labels of the inboxes, each as name and as name=value, sorted.
func LabelsOf(boxes []Inbox) []string {
	all := map[string]bool{}
	for _, in := range boxes {
		for name, value := range in.Labels {
			all[name], all[name+"="+value] = true, true
		}
	}
	return slices.Sorted(maps.Keys(all))
}

// some names the first few labels that have a value.
func some(labels []string) string {
	const few = 10
	labels = keep(labels, func(label string) bool { return strings.Contains(label, "=") })
	return strings.Join(text.Some(labels, few), ", ")
}

func addresses(boxes []Inbox) []string {
	out := make([]string, len(boxes))
	for i, in := range boxes {
		out[i] = in.Address
	}
	return out
}

// domains are the globs for all inboxes of a domain.
func domains(boxes []Inbox) []string {
	var out []string
	for _, address := range addresses(boxes) {
		glob := "*" + address[max(strings.LastIndexByte(address, '@'), 0):]
		if !slices.Contains(out, glob) {
			out = append(out, glob)
		}
	}
	return out
}

func keep[T any](all []T, is func(T) bool) []T {
	var kept []T
	for _, one := range all {
		if is(one) {
			kept = append(kept, one)
		}
	}
	return kept
}

// Has reports whether the selection chooses an inbox.
func (s Selection) Has(in Inbox) bool {
	if slices.ContainsFunc(s.Labels, func(label string) bool { return !in.Labels.Has(label) }) {
		return false
	}
	return len(s.Inboxes) == 0 || slices.ContainsFunc(s.Inboxes, func(address string) bool {
		return addressed(address)(in)
	})
}
