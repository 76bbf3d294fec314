package cmd

import (
	"fmt"
	"testing"

	"postrider/internal/tasks"
	"postrider/internal/terminal"
)

// TestRecipients: a script gets all recipients of a message, a terminal as many as fit.
func TestRecipients(t *testing.T) {
	for _, c := range []struct {
		width int
		to    []string
		want  string
	}{
		{0, nil, ""},
		{0, []string{"a@x.example"}, "a@x.example"},
		{0, []string{"a@x.example", "b@x.example", "c@x.example"}, "a@x.example, b@x.example, c@x.example"},
		{80, nil, ""},
		{80, []string{"a@x.example"}, "a@x.example"},
		{80, []string{"a@x.example", "b@x.example", "c@x.example"}, "a@x.example +2"},
	} {
		var task tasks.Task
		for _, to := range c.to {
			task.Deliveries = append(task.Deliveries, tasks.Delivery{Recipient: to})
		}
		if got := fmt.Sprint(taskRow(&terminal.Table{Width: c.width}, task)[4]); got != c.want {
			t.Errorf("with %d columns and %q the recipients are %q, want %q", c.width, c.to, got, c.want)
		}
	}
}
