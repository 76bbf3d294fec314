package cmd

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"postrider/internal/tasks"
)

// forChange is the filter for a change, checked before the database is opened.
func (o *changeOptions) forChange(c *cobra.Command, args []string, how change) (tasks.Filter, error) {
	switch {
	case len(args) > 0 && o.any():
		return tasks.Filter{}, usage(errors.New("there are IDs and filters; give either, so that it is clear which tasks are meant"))
	case len(args) == 0 && !o.any():
		return tasks.Filter{}, usage(fmt.Errorf("`%s` needs the ID of a task, or several, or a filter such as --status %s or --older-than 30d; see `%[1]s --help`",
			c.CommandPath(), how.Meant[len(how.Meant)-1]))
	}
	filter, err := o.parse()
	if err != nil {
		return filter, err
	}
	for _, s := range filter.Statuses {
		if !slices.Contains(how.From, s) {
			return filter, usage(fmt.Errorf("`%s` is not for tasks that are %s, but for %s", c.CommandPath(), s, list(how.From)))
		}
	}
	if len(filter.Statuses) == 0 {
		filter.Statuses = how.Meant
	}
	if how.ended {
		filter.Ended, filter.Registered = filter.Registered, 0
	}
	return filter, nil
}

// choose finds the tasks that a filter selects, and asks. From then on only these are meant, as long as they are in a state
// that was asked about.
func (j *job) choose(ctx context.Context, filter tasks.Filter) error {
	var found tally
	if err := j.queue.List(ctx, filter, func(t tasks.Task) error { found.add(t); return nil }); err != nil {
		return err
	}
	j.filtered, j.ids, j.how.From = true, found.ids, filter.Statuses
	if len(j.ids) == 0 || j.opts.dryRun {
		return nil
	}
	return j.confirm(j.opts.yes, fmt.Sprintf("%s %s?", j.how.ask, found))
}

// tally counts the tasks that a filter selects.
type tally struct {
	ids      []int64
	byStatus map[tasks.Status]int
	inboxes  []string
}

func (y *tally) add(t tasks.Task) {
	if y.byStatus == nil {
		y.byStatus = map[tasks.Status]int{}
	}
	y.ids = append(y.ids, t.ID)
	y.byStatus[t.Status]++
	if !slices.Contains(y.inboxes, t.Inbox) {
		y.inboxes = append(y.inboxes, t.Inbox)
	}
}

// String is like "213 tasks: 13 uncertain, 200 dead, in desk@firm.example".
func (y tally) String() string {
	parts := []string{}
	for _, s := range tasks.Statuses {
		if n := y.byStatus[s]; n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, s))
		}
	}
	where := strings.Join(y.inboxes, ", ")
	if len(y.inboxes) > 3 {
		where = fmt.Sprintf("%d inboxes", len(y.inboxes))
	}
	return fmt.Sprintf("%s: %s, in %s", countTasks(len(y.ids)), strings.Join(parts, ", "), where)
}

func countTasks(n int) string {
	if n == 1 {
		return "1 task"
	}
	return fmt.Sprintf("%d tasks", n)
}
