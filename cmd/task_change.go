package cmd

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"postrider/internal/tasks"
)

// change is what a person does to tasks.
type change struct {
	do func(q tasks.Queue, ctx context.Context, who string, ids ...int64) (int, error)
	tasks.Change
	ended bool                    // --older-than counts from when they ended, not from when they were registered
	ask   string                  // begins the question, as in "Retry 3 tasks?"
	done  func(tasks.Task) string // what became of a task that was so before
	would func(tasks.Task) string // and what would become of it in a dry run
	kept  string                  // why the queue may keep a task in one of these states, when nobody else has changed it
}

// always is the same for every task.
func always(text string) func(tasks.Task) string { return func(tasks.Task) string { return text } }

func retry() change {
	return change{
		do: tasks.Queue.Requeue, Change: tasks.ToRetry(),
		ask: "Retry", done: always("the next run tries it anew"), would: always("would be tried anew by the next run"),
	}
}

func skip() change {
	return change{
		do: tasks.Queue.Skip, Change: tasks.ToSkip(),
		ask: "Skip", done: always("skipped"), would: always("would be skipped"),
	}
}

func delivered() change {
	return change{
		do: tasks.Queue.Resolve, Change: tasks.ToResolve(),
		ask: "Take as delivered", done: arrived("counts", "goes"), would: arrived("would count", "would go"),
	}
}

// arrived says that a message counts as forwarded, or that it goes on for those who do not have it.
func arrived(counts, goes string) func(tasks.Task) string {
	return func(t tasks.Task) string {
		without := tasks.Without(t.Deliveries)
		if len(without) == 0 {
			return counts + " as forwarded"
		}
		return fmt.Sprintf("%s as delivered to whom it was being sent; the next run %s on for %s", counts, goes, printable(strings.Join(without, ", ")))
	}
}

// notDelivered is retry for the tasks that delivered is for.
func notDelivered() change {
	how := retry()
	how.Change, how.ask = tasks.ToResolve(), "Send again"
	return how
}

func purge() change {
	return change{
		do: tasks.Queue.Purge, Change: tasks.ToPurge(), ended: true,
		ask: "Delete", done: always("deleted; its message stays known and is not forwarded again"), would: always("would be deleted"),
		kept: "the task that it is a duplicate of was not forwarded, and it may have to take its place; try again when that one was forwarded or is deleted",
	}
}

func (a *app) taskRetryCommand() *cobra.Command {
	how := retry()
	return a.changeCommand("retry", "Let tasks begin anew; recipients that got the message do not get it again",
		"Without --status a filter means what failed: "+list(how.Meant)+".\nName skipped ones with --status to have them tried anew, too. "+
			"A copy of what was or will be\nforwarded is skipped again.", &how)
}

func (a *app) taskSkipCommand() *cobra.Command {
	how := skip()
	return a.changeCommand("skip", "End tasks without forwarding the message",
		"Without --status a filter means what failed: "+list(how.Meant)+".\nThose that wait for their first try are meant only by --status received. "+
			"Copies that come later are\nskipped, too.", &how)
}

func (a *app) taskPurgeCommand() *cobra.Command {
	how := purge()
	return a.changeCommand("purge", "Delete tasks that ended; what somebody got is not forwarded again",
		"Without --status a filter means forwarded tasks. The audit trail of a deleted task stays.", &how)
}

func (a *app) taskResolveCommand() *cobra.Command {
	how := delivered()
	c := a.changeCommand("resolve", "Decide on uncertain tasks: the message arrived, or is to be sent again",
		"Say what became of the messages: --delivered, or --retry. Only uncertain tasks are changed.", &how)
	var arrived, again bool
	c.Flags().BoolVar(&arrived, "delivered", false, "the message arrived: the tasks count as forwarded, or go on for other recipients that it has not reached yet")
	c.Flags().BoolVar(&again, "retry", false, "the message did not arrive: the next run sends it again")
	c.Use += " --delivered | --retry"
	c.PreRunE = func(*cobra.Command, []string) error {
		if arrived == again {
			return usage(errors.New("say what became of the message: --delivered (it arrived) or --retry (send it again)"))
		}
		if again {
			how = notDelivered()
		}
		return nil
	}
	return c
}

func list(states []tasks.Status) string { return strings.Join(names(states), ", ") }

// changeOptions say to which tasks, and how to go about it.
type changeOptions struct {
	taskFilter
	yes, dryRun, json bool
}

const changeHelp = `

Name the tasks by their IDs, or choose them with filters: --status, --inbox, --route,
--older-than, which all have to hold. With filters it counts them and asks; --yes answers that
for a script, --dry-run only tells which they are. What was counted is what is changed, without
those that are in another state by then. Runs go on beside it; stopped half-way, it says how far
it came. ` + "`postrider task show ID`" + ` tells who changed a task, and when.
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
	if how.ended {
		age = endedAge
	}
	opts.register(a, c, how.From, age)
	c.Flags().BoolVar(&opts.yes, "yes", false, "do not ask")
	c.Flags().BoolVar(&opts.dryRun, "dry-run", false, "only say what would be changed")
	c.Flags().BoolVar(&opts.json, "json", false, "print one JSON object: how many were changed, and which not and why")
	return c
}
