package cmd

import (
	"context"
	"fmt"
	"slices"

	"postrider/internal/inbox"
	"postrider/internal/tasks"
	"postrider/internal/text"
)

// shared are notes about inboxes of the list that read what in reads, too. With dedupe: all a
// recipient gets such a message once.
func (s *services) shared(in inbox.Inbox, list []inbox.Inbox) []string {
	if s.cfg.Dedupe == tasks.DedupeAll {
		return nil
	}
	return in.Shared(list)
}

// noteShared prints these notes about inboxes that are added, changed or enabled.
func (a *app) noteShared(ctx context.Context, s *services, changed ...inbox.Inbox) error {
	stored, err := s.inboxes.Active(ctx)
	if err != nil {
		return err
	}
	changes := map[string]bool{} // by address
	for _, in := range changed {
		changes[in.Address] = true
	}
	stored = slices.DeleteFunc(stored, func(in inbox.Inbox) bool { return changes[in.Address] })
	byAccount := map[string][]inbox.Inbox{}
	for i, in := range slices.Concat(stored, changed) {
		if i >= len(stored) {
			for _, note := range s.shared(in, byAccount[in.Account()]) {
				_, _ = fmt.Fprintf(a.err, "note: inbox %s: %s\n", in.Address, text.Line(note))
			}
		}
		byAccount[in.Account()] = append(byAccount[in.Account()], in)
	}
	return nil
}
