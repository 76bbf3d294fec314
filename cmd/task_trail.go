package cmd

import (
	"fmt"
	"slices"
	"time"

	"github.com/jedib0t/go-pretty/v6/table"

	"postrider/internal/tasks"
)

// eventView is a line of the audit trail, as JSON.
type eventView struct {
	At     time.Time `json:"at"`
	Worker string    `json:"worker"`
	Event  string    `json:"event"`
	Detail string    `json:"detail"`
}

func viewEvents(events []tasks.Event) []eventView {
	out := []eventView{}
	for _, e := range events {
		out = append(out, eventView{e.At.UTC(), e.Worker, e.Event, e.Detail})
	}
	return out
}

// showTrail prints the audit trail, the oldest line first.
func (a *app) showTrail(events []tasks.Event) {
	if len(events) == 0 {
		return
	}
	t := newTable(a.out, "at", "event", "detail", "by")
	t.SetColumnConfigs([]table.ColumnConfig{wrapped("detail")})
	for _, e := range events {
		t.AppendRow(table.Row{a.when(&e.At), e.Event, printable(e.Detail), printable(e.Worker)})
	}
	t.Render()
}

// goneTask is what is left of a task that is no longer in the registry, as JSON.
type goneTask struct {
	ID     int64       `json:"id"`
	Gone   bool        `json:"gone"`
	Events []eventView `json:"events"`
}

func (a *app) showGone(id int64, events []tasks.Event, asJSON bool) error {
	if asJSON {
		return a.printJSON(goneTask{ID: id, Gone: true, Events: viewEvents(events)})
	}
	how := "is not in the registry any more: it was kept as long as `retention` says, or removed with its inbox"
	if slices.ContainsFunc(events, func(e tasks.Event) bool { return e.Event == "purged" }) {
		how = "was purged"
	}
	if _, err := fmt.Fprintf(a.out, "task %d %s; its trail:\n", id, how); err != nil {
		return err
	}
	a.showTrail(events)
	return nil
}
