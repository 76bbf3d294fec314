package cmd

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/spf13/cobra"

	"postrider/internal/tasks"
)

func (a *app) taskCommand() *cobra.Command {
	return group("task", "Look at the registry of messages, and at those that need a person",
		a.taskListCommand(), a.taskShowCommand(), a.taskRetryCommand(), a.taskSkipCommand(),
		a.taskResolveCommand(), a.taskPurgeCommand())
}

// tableLimit is how many tasks a table shows unless told otherwise; it is held in memory.
const tableLimit = 100

type taskListOptions struct {
	taskFilter
	limit int
	json  bool
}

func (a *app) taskListCommand() *cobra.Command {
	var opts taskListOptions
	c := &cobra.Command{
		Use:   "list [--status S]... [--inbox ADDR] [--route NAME] [--older-than D] [--limit N] [--json]",
		Short: "List the registered messages and where they stand",
		Long: `list shows registered messages. The table has the newest ` + strconv.Itoa(tableLimit) + `, or as many as --limit says, and tells
when there are more. --json prints all, oldest first, one object a line; with --limit the newest.

States: ` + strings.Join(names(tasks.Statuses), ", ") + `
` + exitHelp,
		Args: takesNone,
		RunE: func(c *cobra.Command, _ []string) error { return a.taskList(c.Context(), opts) },
	}
	opts.register(a, c, tasks.Statuses, registeredAge)
	c.Flags().IntVar(&opts.limit, "limit", 0, "at most the newest `N`")
	c.Flags().BoolVar(&opts.json, "json", false, "print one JSON object a line")
	return c
}

func (a *app) taskList(ctx context.Context, opts taskListOptions) error {
	if opts.limit < 0 {
		return usage(errors.New("--limit is negative"))
	}
	filter, err := opts.parse()
	if err != nil {
		return err
	}
	filter.Limit = opts.limit
	return a.with(ctx, func(s *services) error {
		if err := opts.lookUp(ctx, s, &filter); err != nil {
			return err
		}
		if opts.json {
			return a.taskLines(ctx, s.queue, filter)
		}
		next := "No message is registered; `postrider run` registers what is new."
		if opts.any() {
			next = "No message is so; `postrider task list` without filters shows all."
		}
		return a.taskTable(ctx, s.queue, filter, next)
	})
}

func (a *app) taskLines(ctx context.Context, queue tasks.Queue, filter tasks.Filter) error {
	out := bufio.NewWriter(a.out)
	lines := &app{out: out}
	err := queue.List(ctx, filter, func(t tasks.Task) error { return lines.printJSON(viewTask(t)) })
	return errors.Join(err, out.Flush())
}

func (a *app) taskTable(ctx context.Context, queue tasks.Queue, filter tasks.Filter, next string) error {
	limit := filter.Limit
	if limit == 0 {
		limit = tableLimit
		filter.Limit = limit + 1
	}
	t := newTable(a.out, "id", "inbox", "folder", "uid", "status", "attempts", "subject", "route", "")
	more := false
	err := queue.List(ctx, filter, func(task tasks.Task) error {
		if more = t.Length() == limit; more {
			return nil
		}
		t.AppendRow(table.Row{
			task.ID, task.Inbox, printable(task.Folder), task.UID, task.Status, task.Attempts,
			shorten(printable(task.Subject), 40), task.Route, shorten(printable(task.Reason), 60),
		})
		return nil
	})
	if err != nil {
		return err
	}
	err = a.show(t, next)
	if more {
		_, err = fmt.Fprintf(a.out, "These are the newest %d; --limit N shows more, --json all.\n", limit)
	}
	return err
}

// taskView is a task as JSON, as other programs rely on it.
type taskView struct {
	ID           int64          `json:"id"`
	Inbox        string         `json:"inbox"`
	Folder       string         `json:"folder"`
	UIDValidity  uint32         `json:"uid_validity"`
	UID          uint32         `json:"uid"`
	MessageID    string         `json:"message_id"`
	Subject      string         `json:"subject"`
	Status       tasks.Status   `json:"status"`
	AttemptCount int            `json:"attempt_count"`
	Route        string         `json:"route"`
	ErrorMessage string         `json:"error_message"`
	Deliveries   []deliveryView `json:"deliveries"`
}

type deliveryView struct {
	Recipient string               `json:"recipient"`
	Status    tasks.DeliveryStatus `json:"status"`
	Code      int                  `json:"code"`
	Reply     string               `json:"reply"`
}

func viewTask(t tasks.Task) taskView {
	v := taskView{
		ID: t.ID, Inbox: t.Inbox, Folder: t.Folder, UIDValidity: t.UIDValidity(), UID: t.UID, MessageID: t.MessageID,
		Subject: t.Subject, Status: t.Status, AttemptCount: t.Attempts, Route: t.Route, ErrorMessage: t.Reason,
		Deliveries: []deliveryView{},
	}
	for _, d := range t.Deliveries {
		v.Deliveries = append(v.Deliveries, deliveryView{d.Recipient, d.Status, d.Code, d.Reply})
	}
	return v
}
