package cmd

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"postrider/internal/address"
	"postrider/internal/text"
)

// unknownNames are remarks on inboxes and labels that the configuration names, and no inbox has: a
// route or an alert that waits for one may be misspelt. Globs are not looked at.
func (s *services) unknownNames(ctx context.Context) (notes []string, _ error) {
	boxes, err := s.inboxes.List(ctx)
	if err != nil || len(boxes) == 0 {
		return nil, err
	}
	var addresses, labels []string // and the names of labels
	for _, in := range boxes {
		addresses, labels = append(addresses, in.Address), append(labels, in.Labels.Texts()...)
		labels = slices.AppendSeq(labels, maps.Keys(in.Labels))
	}
	has := func(label string) bool {
		return slices.ContainsFunc(labels, func(l string) bool { return strings.EqualFold(l, label) })
	}
	for i, r := range s.cfg.Routes {
		for _, in := range r.Match.Inbox {
			if isGlob(in) || slices.ContainsFunc(addresses, func(a string) bool { return address.Same(a, in) }) {
				continue
			}
			notes = append(notes, fmt.Sprintf("routes[%d].match.inbox: there is no inbox %s%s",
				i, in, text.DidYouMean(in, addresses)))
		}
		for _, label := range r.Match.Label {
			if !isGlob(label) && !has(label) {
				notes = append(notes, fmt.Sprintf("routes[%d].match.label: no inbox has the label %s%s",
					i, label, text.DidYouMean(label, labels)))
			}
		}
	}
	for _, label := range slices.Sorted(maps.Keys(s.cfg.Alerts.Labels)) {
		if !has(label) {
			notes = append(notes, fmt.Sprintf("alerts.labels: no inbox has the label %s%s",
				label, text.DidYouMean(label, labels)))
		}
	}
	return notes, nil
}

// isGlob reports whether a pattern can match more than its own text.
func isGlob(pattern string) bool { return strings.ContainsAny(pattern, "*?[/") }
