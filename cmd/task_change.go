package cmd

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"postrider/internal/tasks"
	"postrider/internal/text"
)

// change is a command for tasks, and its words.
type change struct {
	tasks.Command
	ask   string                  // begins the question, as in "Retry 3 tasks?"
	done  func(tasks.Task) string // the outcome for a task that was so before
	would func(tasks.Task) string // the same in a dry run
}

// always is the same for every task.
func always(s string) func(tasks.Task) string { return func(tasks.Task) string { return s } }

func retry() change {
	return change{
		Command: tasks.RetryCommand(),
		ask:     "Retry", done: requeued, would: always("would be requeued"),
	}
}

func requeued(t tasks.Task) string { return "requeued; " + nextRun(t) + " tries it again" }

// nextRun is the next run that works on a task. Nothing of a disabled inbox is worked on.
func nextRun(t tasks.Task) string {
	if t.Disabled {
		return "the next run after `postrider inbox enable " + text.Arg(t.Inbox) + "`"
	}
	return "the next run"
}

func skip() change {
	return change{Command: tasks.SkipCommand(), ask: "Skip", done: always("skipped"), would: always("would be skipped")}
}

func delivered() change {
	return change{
		Command: tasks.DeliveredCommand(), ask: "Mark as delivered",
		done: arrived("counts", "continues"), would: arrived("would count", "would continue"),
	}
}

// arrived says that a message counts as forwarded, or that the task continues for those who do not
// have it.
func arrived(counts, continues string) func(tasks.Task) string {
	return func(t tasks.Task) string {
		without := tasks.Without(t.Deliveries)
		if len(without) == 0 {
			return counts + " as forwarded"
		}
		return fmt.Sprintf("%s as delivered to the recipients it was being sent to; %s %s with %s",
			counts, nextRun(t), continues, text.Line(strings.Join(without, ", ")))
	}
}

// notDelivered is retry for the tasks that delivered is for.
func notDelivered() change {
	how := retry()
	how.Command, how.ask = tasks.NotDeliveredCommand(), "Send again"
	return how
}

func purge() change {
	return change{
		Command: tasks.PurgeCommand(), ask: "Delete",
		done: always("deleted; its message stays known and is not forwarded again"), would: always("would be deleted"),
	}
}

func (a *app) taskRetryCommand() *cobra.Command {
	how := retry()
	return a.changeCommand("retry", "Requeue tasks; recipients who have the message are left out",
		`Without --status a filter selects failed tasks: error, uncertain, dead. Skipped
tasks are requeued when --status names them. A copy of a message that was or
will be forwarded is skipped again. --bounced selects tasks, forwarded or
dead, that bounced after the relay had accepted them. They are sent again to the
recipients whose copy bounced, and not to recipients who have the message.`, &how)
}

func (a *app) taskSkipCommand() *cobra.Command {
	how := skip()
	return a.changeCommand("skip", "End tasks without forwarding the message",
		`Without --status a filter selects failed tasks: error, uncertain, dead. Tasks
that wait for their first attempt are selected by --status received only. Later
copies of the message are skipped, too.`, &how)
}

func (a *app) taskPurgeCommand() *cobra.Command {
	how := purge()
	return a.changeCommand("purge", "Delete ended tasks; this does not forward anything again",
		"Without --status a filter selects forwarded tasks. The audit trail of a deleted\ntask stays.", &how)
}

func (a *app) taskResolveCommand() *cobra.Command {
	how := delivered()
	c := a.changeCommand("resolve", "Decide about uncertain tasks: delivered, or send again",
		"Say what became of the messages: --delivered, or --retry. Only uncertain tasks\nare changed.", &how)
	var arrived, again bool
	c.Flags().BoolVar(&arrived, "delivered", false,
		"the message arrived: the tasks count as forwarded, or continue with recipients that it has not reached")
	c.Flags().BoolVar(&again, "retry", false, "the message did not arrive: the next run sends it again")
	c.Use += " --delivered | --retry"
	c.PreRunE = func(*cobra.Command, []string) error {
		if arrived == again {
			return usage(errors.New("say what became of the message: " +
				"--delivered (it arrived) or --retry (send it again)"))
		}
		if again {
			how = notDelivered()
		}
		return nil
	}
	return c
}

// changeOptions select the tasks and the way of changing them.
type changeOptions struct {
	taskFilter
	yes, dryRun, json bool
}

const changeHelp = `

Name the tasks by their IDs, or select them with filters: --status, --inbox,
--label, --route, --older-than; all of them have to match. With filters the
command counts the tasks and asks. --yes skips the question, for scripts;
--dry-run only shows the tasks. The command changes the tasks that it counted,
except those that are in another state by then. Runs may continue meanwhile. If
the command is stopped half-way, it prints how many tasks it changed.
` + "`postrider task show ID`" + ` shows who changed a task, and when.
`

// changeCommand is a command that makes a change; how is read when it runs.
func (a *app) changeCommand(name, short, long string, how *change) *cobra.Command {
	var opts changeOptions
	c := &cobra.Command{
		Use:   name + " {ID... | FILTER...}",
		Short: short,
		Long:  short + ".\n\n" + long + changeHelp + exitHelp,
		RunE:  func(c *cobra.Command, args []string) error { return a.changeTasks(c, args, *how, opts) },
	}
	age := registeredAge
	if how.Ended {
		age = endedAge
	}
	opts.register(a, c, how.From, age)
	if len(how.Bounced) > 0 {
		opts.registerBounced(c)
	}
	completed := slices.DeleteFunc(slices.Clone(how.From), func(s tasks.Status) bool {
		return slices.Contains(how.OnlyBounced, s)
	})
	c.ValidArgsFunction = a.taskIDs(completed...)
	c.Flags().BoolVar(&opts.yes, "yes", false, "do not ask")
	c.Flags().BoolVar(&opts.dryRun, "dry-run", false, "only show what would be changed")
	c.Flags().BoolVar(&opts.json, "json", false,
		"print one JSON object: how many were changed, and which were not and why")
	return c
}

// changeTasks makes a change to the tasks named by their IDs, or to those that the filter selects.
func (a *app) changeTasks(c *cobra.Command, args []string, how change, opts changeOptions) error {
	ids, err := parseTaskIDs(args)
	if err != nil {
		return err
	}
	filter, err := opts.forChange(c, args, how)
	if err != nil {
		return err
	}
	return a.with(c.Context(), func(s *services) error {
		j := a.job(s.queue, how, opts)
		j.By, j.IDs = tasks.By{Who: a.who(s.host())}, ids
		if len(ids) == 0 {
			if err := opts.lookUp(c.Context(), s, &filter); err != nil {
				return err
			}
			if err := j.choose(c.Context(), s.queue, filter); err != nil {
				return err
			}
		}
		ctx, stop := s.untilSignal(c.Context())
		defer stop()
		return j.run(ctx)
	})
}

// forChange is the filter for a change, checked before the database is opened.
func (o *changeOptions) forChange(c *cobra.Command, args []string, how change) (tasks.Filter, error) {
	switch {
	case len(args) > 0 && o.any():
		return tasks.Filter{}, usage(errors.New("there are IDs and filters; give either, " +
			"so that it is clear which tasks are meant"))
	case len(args) == 0 && !o.any():
		return tasks.Filter{}, usage(fmt.Errorf("`%s` needs the ID of a task, or several, "+
			"or a filter such as --status %s or --older-than 30d; see `%[1]s --help`",
			c.CommandPath(), how.Meant[len(how.Meant)-1]))
	}
	filter, err := o.parse()
	if err != nil {
		return filter, err
	}
	if filter, err = how.Select(filter); err != nil {
		return filter, usage(fmt.Errorf("`%s` %w", c.CommandPath(), err))
	}
	return filter, nil
}

// job is one change, and its output.
type job struct {
	tasks.Job
	app  *app
	how  change
	json bool
	yes  bool
}

func (a *app) job(queue tasks.Changer, how change, opts changeOptions) *job {
	j := &job{
		Job: tasks.Job{Queue: queue, Command: how.Command, DryRun: opts.dryRun},
		app: a, how: how, json: opts.json, yes: opts.yes,
	}
	j.Each = j.line
	return j
}

// choose finds the tasks that a filter selects, and asks. From then on the job is for these, in the
// states asked about.
func (j *job) choose(ctx context.Context, queue tasks.Reader, filter tasks.Filter) error {
	var found tasks.Tally
	if err := queue.List(ctx, filter, func(t tasks.Task) error { found.Add(t); return nil }); err != nil {
		return err
	}
	j.Bulk, j.IDs, j.From = true, found.IDs, filter.Statuses
	if len(j.IDs) == 0 || j.DryRun {
		return nil
	}
	return j.app.confirm(j.yes, fmt.Sprintf("%s %s?", j.how.ask, found))
}

// run makes the change, until ctx ends.
func (j *job) run(ctx context.Context) error {
	r, err := j.Apply(ctx)
	if err != nil {
		return err
	}
	j.summary(r)
	end := outcome(len(j.IDs)-r.Changed, len(j.IDs))
	if r.Left > 0 {
		return &exitError{
			exitCode(end),
			fmt.Errorf("stopped: %d of %d tasks were changed, %d were not reached and are unchanged",
				r.Changed, len(j.IDs), r.Left),
		}
	}
	return end
}

// line prints the outcome of one task; what was done, on a terminal only.
func (j *job) line(t tasks.Task, why string) error {
	what := ""
	switch {
	case j.json:
		return nil
	case why != "":
		what = "not changed, " + text.Line(why)
	case j.DryRun:
		subject := text.Cut(text.Line(t.Identity.Subject), 60)
		what = fmt.Sprintf("%s (%s, %s, %q)", j.how.would(t), t.Status, t.Inbox, subject)
	default:
		j.app.tell("task %d: %s\n", t.ID, j.how.done(t))
		return nil
	}
	j.app.print("task %d: %s\n", t.ID, what)
	return nil
}

func (j *job) summary(r tasks.Applied) {
	switch {
	case j.json:
		j.app.printJSON(r)
	case !j.Bulk:
	case r.DryRun && len(j.IDs) == 0:
		j.app.print("No task matches.\n")
	case r.DryRun && j.how.Ended:
		j.app.print("%s would be deleted.\n", text.Count(r.Changed, "task"))
	case r.DryRun:
		j.app.print("%s would be changed.\n", text.Count(r.Changed, "task"))
	case r.MovedOn > 0:
		j.app.print("%d changed, %d not, %d changed concurrently.\n", r.Changed, len(r.NotChanged), r.MovedOn)
	case len(r.NotChanged) > 0:
		j.app.print("%d changed, %d not.\n", r.Changed, len(r.NotChanged))
	case len(j.IDs) == 0:
		j.app.tell("No task matches; nothing was changed.\n")
	case j.how.Ended:
		j.app.tell("%s deleted.\n", text.Count(r.Changed, "task"))
	default:
		j.app.tell("%s changed.\n", text.Count(r.Changed, "task"))
	}
}
