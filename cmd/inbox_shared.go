package cmd

import (
	"context"
	"fmt"
	"slices"
	"strings"

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

// noteShared prints these notes about inboxes that are added or changed.
func (a *app) noteShared(ctx context.Context, s *services, changed ...inbox.Inbox) error {
	stored, err := s.activeInboxes(ctx)
	if err != nil {
		return err
	}
	changes := map[string]bool{} // by address
	for _, in := range changed {
		changes[in.Address] = true
	}
	stored = slices.DeleteFunc(stored, func(in inbox.Inbox) bool { return changes[in.Address] })
	byLogin := map[string][]inbox.Inbox{}
	for i, in := range slices.Concat(stored, changed) {
		login := strings.ToLower(in.HostPort()) + " " + in.Username
		if i >= len(stored) {
			for _, note := range s.shared(in, byLogin[login]) {
				_, _ = fmt.Fprintf(a.err, "note: inbox %s: %s\n", in.Address, text.Line(note))
			}
		}
		byLogin[login] = append(byLogin[login], in)
	}
	return nil
}
