package cmd

import (
	"context"
	"fmt"
	"strings"
	"time"

	"postrider/internal/tasks"
	"postrider/internal/terminal"
)

// taskHeader are the columns of `task list`. A terminal shows those that are not for scripts.
var (
	taskHeader     = []string{"id", "time", "inbox", "from", "to", "subject", "state"}
	taskForScripts = []string{"attempts", "route", "reason", "folder", "uid"}
)

func (a *app) taskTable(ctx context.Context, queue tasks.Reader, filter tasks.Filter, next string) error {
	limit := filter.Limit
	if limit == 0 {
		limit = tableLimit
		filter.Limit = limit + 1
	}
	g := a.painted(a.table(taskHeader...), "state", paintState)
	if g.Width == 0 {
		g.Header = append(g.Header, taskForScripts...)
	}
	more := false
	err := queue.List(ctx, filter, func(t tasks.Task) error {
		if more = g.Len() == limit; more {
			return nil
		}
		g.Add(taskRow(g, t)...)
		return nil
	})
	if err != nil {
		return err
	}
	if common := g.Common("inbox"); common != "" {
		a.print("Messages of %s:\n", common)
	}
	g.Squeeze("from", "to", "subject", "inbox")
	a.show(g, next)
	if more {
		a.print("These are the newest %d; --limit N shows more, --json all.\n", limit)
	}
	return nil
}

func taskRow(g *terminal.Table, t tasks.Task) []any {
	if g.Width > 0 {
		state := string(t.Status)
		if t.HasBounced() {
			state += bouncedMark
		}
		return []any{
			t.ID, shortTime(t.CreatedAt, time.Now()), t.Inbox, bare(t.Identity.Sender), firstRecipient(t),
			t.Identity.Subject, state,
		}
	}
	return []any{
		t.ID, t.CreatedAt.UTC().Format(time.RFC3339), t.Inbox, t.Identity.Sender, strings.Join(recipients(t), ", "),
		t.Identity.Subject, t.Status, t.Attempts, t.Route, t.Reason, t.Folder, t.UID,
	}
}

// bouncedMark follows the state of a task of which a delivery bounced.
const bouncedMark = ", bounced"

// shortTime is a local time: without the year when that is this one, and without the time of day
// otherwise.
func shortTime(at, now time.Time) string {
	at, now = at.Local(), now.Local()
	if at.Year() == now.Year() {
		return at.Format("01-02 15:04")
	}
	return at.Format("2006-01-02")
}

// bare is the address of a sender, without the name.
func bare(sender string) string {
	if _, rest, ok := strings.Cut(sender, "<"); ok {
		if address, _, ok := strings.Cut(rest, ">"); ok && address != "" {
			return address
		}
	}
	return sender
}

func recipients(t tasks.Task) (all []string) {
	for _, d := range t.Deliveries {
		all = append(all, d.Recipient)
	}
	return all
}

// firstRecipient is the first recipient, and how many more there are.
func firstRecipient(t tasks.Task) string {
	all := recipients(t)
	if len(all) < 2 {
		return strings.Join(all, "")
	}
	return fmt.Sprintf("%s +%d", all[0], len(all)-1)
}
