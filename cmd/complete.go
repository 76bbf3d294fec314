package cmd

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"postrider/internal/inbox"
	"postrider/internal/tasks"
	"postrider/internal/text"
)

// completeTasks is how many tasks the shell offers.
const completeTasks = 50

// complete sets the completion of a flag. It fails only for a flag that does not exist.
func complete(c *cobra.Command, flag string, f cobra.CompletionFunc) {
	_ = c.RegisterFlagCompletionFunc(flag, f)
}

// values completes the fixed values of a flag.
func values[T ~string](c *cobra.Command, flag string, all ...T) {
	complete(c, flag, cobra.FixedCompletions(text.Strings(all), cobra.ShellCompDirectiveNoFileComp))
}

// among reads the values of a flag, each of which has to be one of all. The error calls them what.
func among[T ~string](what string, given []string, all []T) (out []T, _ error) {
	for _, one := range given {
		if !slices.Contains(all, T(one)) {
			known := text.Strings(all)
			return nil, usage(fmt.Errorf("there is no %s %q; the %[1]ss are %[3]s%[4]s",
				what, one, strings.Join(known, ", "), text.DidYouMean(one, known)))
		}
		out = append(out, T(one))
	}
	return out, nil
}

// routeNames completes the names of routes.
func (a *app) routeNames(c *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
	cfg, err := a.loadConfig(c.Context())
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	return (&services{cfg: cfg}).routeNames(), cobra.ShellCompDirectiveNoFileComp
}

// stored completes what is in the database. It answers within a second or not at all.
func (a *app) stored(
	c *cobra.Command, list func(context.Context, *services) ([]string, error),
) (out []string, _ cobra.ShellCompDirective) {
	ctx, cancel := context.WithTimeout(c.Context(), time.Second)
	defer cancel()
	err := a.with(ctx, func(s *services) (err error) {
		out, err = list(ctx, s)
		return err
	})
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	return out, cobra.ShellCompDirectiveNoFileComp
}

// addresses completes the addresses of inboxes.
func (a *app) addresses(c *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
	return a.stored(c, func(ctx context.Context, s *services) (out []string, _ error) {
		boxes, err := s.inboxes.List(ctx)
		for _, in := range boxes {
			out = append(out, cobra.CompletionWithDesc(in.Address, cmp.Or(in.Description, in.Host)))
		}
		return out, err
	})
}

// labels completes the labels that inboxes have.
func (a *app) labels(c *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
	return a.stored(c, func(ctx context.Context, s *services) ([]string, error) {
		boxes, err := s.inboxes.List(ctx)
		return inbox.LabelsOf(boxes), err
	})
}

// completeFolders completes the names of folders that inboxes have.
func (a *app) completeFolders(c *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
	return a.stored(c, func(ctx context.Context, s *services) (out []string, _ error) {
		boxes, err := s.inboxes.List(ctx)
		for _, in := range boxes {
			for _, f := range in.Folders {
				out = append(out, f.Name)
			}
		}
		slices.Sort(out)
		return slices.Compact(out), err
	})
}

// taskIDs completes the IDs of the newest tasks in these states; without states of all.
func (a *app) taskIDs(states ...tasks.Status) cobra.CompletionFunc {
	return func(c *cobra.Command, given []string, _ string) ([]string, cobra.ShellCompDirective) {
		ids, directive := a.stored(c, func(ctx context.Context, s *services) (out []string, _ error) {
			err := s.queue.List(ctx, tasks.Filter{Statuses: states, Limit: completeTasks}, func(t tasks.Task) error {
				id := strconv.FormatInt(t.ID, 10)
				if !slices.Contains(given, id) {
					what := string(t.Status) + ": " + text.Cut(text.Line(t.Identity.Subject), 40)
					out = append(out, cobra.CompletionWithDesc(id, what))
				}
				return nil
			})
			return out, err
		})
		return ids, directive | cobra.ShellCompDirectiveKeepOrder
	}
}
