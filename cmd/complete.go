package cmd

import (
	"context"
	"slices"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"postrider/internal/tasks"
	"postrider/internal/text"
)

// completeTasks is how many tasks the shell offers.
const completeTasks = 50

// values completes the fixed values of a flag.
func values(c *cobra.Command, flag string, all ...string) {
	complete(c, flag, cobra.FixedCompletions(all, cobra.ShellCompDirectiveNoFileComp))
}

// completeFolders completes the names of folders that inboxes have. It answers within a second or not
// at all.
func (a *app) completeFolders(c *cobra.Command, _ []string, _ string) (out []string, _ cobra.ShellCompDirective) {
	ctx, cancel := context.WithTimeout(c.Context(), time.Second)
	defer cancel()
	err := a.with(ctx, func(s *services) error {
		boxes, err := s.inboxes.List(ctx, false)
		for _, in := range boxes {
			for _, f := range in.Folders {
				if !slices.Contains(out, f.Name) {
					out = append(out, f.Name)
				}
			}
		}
		return err
	})
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	slices.Sort(out)
	return out, cobra.ShellCompDirectiveNoFileComp
}

// taskIDs completes the IDs of the newest tasks in these states; without states of all. It answers
// within a second or not at all.
func (a *app) taskIDs(states ...tasks.Status) cobra.CompletionFunc {
	return func(c *cobra.Command, given []string, _ string) (out []string, _ cobra.ShellCompDirective) {
		ctx, cancel := context.WithTimeout(c.Context(), time.Second)
		defer cancel()
		err := a.with(ctx, func(s *services) error {
			return s.queue.List(ctx, tasks.Filter{Statuses: states, Limit: completeTasks}, func(t tasks.Task) error {
				id := strconv.FormatInt(t.ID, 10)
				if !slices.Contains(given, id) {
					what := string(t.Status) + ": " + text.Cut(text.Line(t.Identity.Subject), 40)
					out = append(out, cobra.CompletionWithDesc(id, what))
				}
				return nil
			})
		})
		if err != nil {
			return nil, cobra.ShellCompDirectiveError
		}
		return out, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveKeepOrder
	}
}
