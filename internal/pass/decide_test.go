package pass

import (
	"slices"
	"strings"
	"testing"

	"postrider/internal/message"
	"postrider/internal/route"
	"postrider/internal/tasks"
)

// TestTooLargeByLittle: sizes that round to the same are in octets.
func TestTooLargeByLittle(t *testing.T) {
	for size, want := range map[int64]string{
		20_001: "too_large: 20001 octets, forward.max_size is 20000",
		30_000: "too_large: 29 KiB, forward.max_size is 20 KiB",
	} {
		if got := tooLarge(size, 20_000); got != want {
			t.Errorf("the reason is %q, want %q", got, want)
		}
	}
}

// TestDecide: what the routes and the hops of a message come to.
func TestDecide(t *testing.T) {
	const hop = "Received: from x by y; Mon, 2 Jan 2006 15:04:05 +0000\r\n"
	one := []string{team}
	all := route.Rule{Name: "r", To: one}
	high := route.Rule{Name: "r", To: one, Priority: route.High}
	both := route.Rule{Name: "r", To: []string{boxA, team}}
	nothing := route.Rule{Name: "r", Match: subject("nothing like it"), To: one}
	skip := route.Rule{Name: "r", Skip: true}
	for name, c := range map[string]struct {
		rule       route.Rule
		header     string
		status     tasks.Status
		skip       tasks.SkipReason
		recipients []string
		priority   tasks.Priority
		keep       tasks.KeepReason
	}{
		"a route":         {all, "", tasks.Received, "", one, tasks.Normal, ""},
		"a high route":    {high, "", tasks.Received, "", one, tasks.High, ""},
		"the inbox, too":  {both, "", tasks.Received, "", one, tasks.Normal, tasks.KeepOwnCopy},
		"no route":        {nothing, "", tasks.SkippedNoMatch, "", nil, tasks.Normal, ""},
		"a skip":          {skip, "", tasks.Skipped, tasks.SkipByRoute, nil, tasks.Normal, ""},
		"too many hops":   {all, strings.Repeat(hop, 4), tasks.Skipped, tasks.SkipLoop, nil, tasks.Normal, ""},
		"just few enough": {all, strings.Repeat(hop, 2), tasks.Received, "", one, tasks.Normal, ""},
	} {
		t.Run(name, func(t *testing.T) {
			table, err := route.Compile([]route.Rule{c.rule})
			check(t, err)
			m := spooled(t, &message.Spooler{Limit: budget, Budget: budget}, []byte(c.header+string(fakeMail("hello"))))
			defer func() { check(t, m.Close()) }()
			mail := route.Mail{Inbox: boxA, Folder: "INBOX", Message: m, Size: m.Body.Size()}
			d, _ := byRoutes(t.Context(), table, mail, 3)
			if d.Status() != c.status || d.Skip != c.skip || !slices.Equal(d.Recipients, c.recipients) ||
				d.Priority != c.priority || d.Keep != c.keep {
				t.Errorf("the decision is %s, %+v; want %s %s, recipients %q, priority %d, the keep reason %q",
					d.Status(), d, c.status, c.skip, c.recipients, c.priority, c.keep)
			}
			if d.Status() != tasks.Received && d.Reason == "" {
				t.Error("nobody gets it, and there is no reason")
			}
		})
	}
}
