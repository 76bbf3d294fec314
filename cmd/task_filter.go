package cmd

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"postrider/internal/config"
	"postrider/internal/tasks"
)

// taskFilter are the flags that select tasks, the same for every command of tasks.
type taskFilter struct {
	statuses                []string
	inbox, route, olderThan string
	given                   func(flag string) bool
}

// What --older-than counts from.
const (
	registeredAge = "were registered"
	endedAge      = "ended"
)

// register adds the flags to a command that is for tasks in these states; age says what --older-than counts from.
func (f *taskFilter) register(a *app, c *cobra.Command, states []tasks.Status, age string) {
	flags := c.Flags()
	flags.StringArrayVar(&f.statuses, "status", nil, "only tasks in this `STATE`, may be repeated")
	flags.StringVar(&f.inbox, "inbox", "", "only tasks of the inbox `ADDR`")
	flags.StringVar(&f.route, "route", "", "only tasks that the route `NAME` decided, or helped to decide")
	flags.StringVar(&f.olderThan, "older-than", "", "only tasks that "+age+" at least `D` ago, such as 90d or 36h")
	f.given = flags.Changed
	complete(c, "status", cobra.FixedCompletions(names(states), cobra.ShellCompDirectiveNoFileComp))
	complete(c, "inbox", a.addresses)
	complete(c, "route", a.routeNames)
}

// any reports whether one of the flags was given. An empty value is one, so that an unset variable in a script does not
// select everything.
func (f *taskFilter) any() bool {
	return slices.ContainsFunc([]string{"status", "inbox", "route", "older-than"}, f.given)
}

// parse reads what needs no database. The age is how long ago a task was registered.
func (f *taskFilter) parse() (tasks.Filter, error) {
	var out tasks.Filter
	var err error
	if out.Statuses, err = parseStatuses(f.statuses); err == nil && f.given("older-than") {
		out.Registered, err = parseAge("--older-than", f.olderThan)
	}
	return out, err
}

// lookUp adds what the registry and the configuration know by name.
func (f *taskFilter) lookUp(ctx context.Context, s *services, filter *tasks.Filter) error {
	if f.given("inbox") {
		in, err := s.inboxes.Get(ctx, f.inbox)
		if err != nil {
			return err
		}
		filter.InboxID = in.ID
	}
	if f.given("route") {
		filter.Route = f.route
		return s.knownRoute(ctx, f.route)
	}
	return nil
}

// knownRoute fails for a route that the configuration does not have, and that no task of former days names either.
func (s *services) knownRoute(ctx context.Context, name string) error {
	known := s.routeNames()
	found := slices.Contains(known, name)
	if !found && name != "" {
		err := s.queue.List(ctx, tasks.Filter{Route: name, Limit: 1}, func(tasks.Task) error { found = true; return nil })
		if err != nil {
			return err
		}
	}
	if found {
		return nil
	}
	quoted := make([]string, len(known))
	for i, k := range known {
		quoted[i] = strconv.Quote(k)
	}
	return usage(fmt.Errorf("there is no route %q, and no task that names it; the routes are %s%s", name, strings.Join(quoted, ", "), meant(name, known)))
}

func (s *services) routeNames() []string {
	var out []string
	for _, r := range s.cfg.Routes {
		out = append(out, r.Name)
	}
	return out
}

// routeNames completes the names of routes.
func (a *app) routeNames(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	cfg, err := a.loadConfig()
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	return (&services{cfg: cfg}).routeNames(), cobra.ShellCompDirectiveNoFileComp
}

// complete sets the completion of a flag. It fails only for a flag that does not exist.
func complete(c *cobra.Command, flag string, f cobra.CompletionFunc) {
	_ = c.RegisterFlagCompletionFunc(flag, f)
}

func names(states []tasks.Status) []string {
	var out []string
	for _, s := range states {
		out = append(out, string(s))
	}
	return out
}

// parseStatuses names the nearest state when there is no such one.
func parseStatuses(given []string) ([]tasks.Status, error) {
	var out []tasks.Status
	for _, name := range given {
		if !slices.Contains(tasks.Statuses, tasks.Status(name)) {
			known := names(tasks.Statuses)
			return nil, usage(fmt.Errorf("there is no state %q; the states are %s%s", name, strings.Join(known, ", "), meant(name, known)))
		}
		out = append(out, tasks.Status(name))
	}
	return out, nil
}

// meant asks for the nearest of the names there are, if any is near. It has cobra, which does it for commands, find it.
func meant(name string, known []string) string {
	c := &cobra.Command{SuggestionsMinimumDistance: 2}
	for _, k := range known {
		if !strings.Contains(k, " ") { // the rest would be taken for arguments
			c.AddCommand(&cobra.Command{Use: k, Run: func(*cobra.Command, []string) {}})
		}
	}
	near := c.SuggestionsFor(name)
	if len(near) == 0 {
		return ""
	}
	return "; did you mean " + strings.Join(near, " or ") + "?"
}

// parseAge reads a duration that may be in days.
func parseAge(flag, s string) (time.Duration, error) {
	d, err := config.Duration(s)
	if err != nil || d < 0 {
		return 0, usage(fmt.Errorf("%s is %q; write it like 90d or 36h, up to 65535d", flag, s))
	}
	return d, nil
}
