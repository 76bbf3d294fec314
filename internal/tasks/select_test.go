package tasks

import (
	"slices"
	"testing"
)

func TestSelect(t *testing.T) {
	in := func(statuses ...Status) Filter { return Filter{Statuses: statuses} }
	for _, tt := range []struct {
		name    string
		command Command
		filter  Filter
		want    Filter
		fault   string
	}{
		{
			"what retry means", RetryCommand(),
			Filter{Inboxes: []int64{7}},
			Filter{Inboxes: []int64{7}, Statuses: []Status{Error, Uncertain, Dead}},
			"",
		},
		{"a state that was named", SkipCommand(), in(Received), in(Received), ""},
		{
			"ages of purge count from the end", PurgeCommand(),
			Filter{Registered: 5},
			Filter{Ended: 5, Statuses: []Status{Forwarded}},
			"",
		},
		{"what retry means of what bounced", RetryCommand(), Filter{Bounced: true}, in(Forwarded, Dead), ""},
		{
			"of what bounced, a state that was named", RetryCommand(),
			Filter{Bounced: true, Statuses: []Status{Forwarded}},
			in(Forwarded), "",
		},
		{
			"forwarded, and perhaps not bounced", RetryCommand(), in(Forwarded),
			Filter{},
			"is for tasks that are forwarded only with --bounced",
		},
		{
			"a state that retry is not for", RetryCommand(), in(Received),
			Filter{},
			"is not for tasks that are received, " +
				"but for error, uncertain, dead, forwarded and bounced, skipped_no_match, skipped",
		},
		{"a wrong state", DeliveredCommand(), in(Dead), Filter{}, "is not for tasks that are dead, but for uncertain"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, err := tt.command.Select(tt.filter)
			if tt.fault != "" {
				if err == nil || err.Error() != tt.fault {
					t.Errorf("the error is %v, want %s", err, tt.fault)
				}
				return
			}
			if err != nil ||
				!slices.Equal(got.Statuses, tt.want.Statuses) || !slices.Equal(got.Inboxes, tt.want.Inboxes) ||
				got.Ended != tt.want.Ended || got.Registered != tt.want.Registered {
				t.Errorf("the filter is %+v, %v; want %+v", got, err, tt.want)
			}
		})
	}
}

func TestTally(t *testing.T) {
	var y Tally
	for id, s := range []Status{Dead, Uncertain, Dead} {
		y.Add(Task{ID: int64(id), Status: s, Inbox: "desk@firm.example"})
	}
	if want := "3 tasks: 1 uncertain, 2 dead, in desk@firm.example"; y.String() != want {
		t.Errorf("the tally is %q, want %q", y, want)
	}
	for _, in := range []string{"a@firm.example", "b@firm.example", "c@firm.example"} {
		y.Add(Task{Status: Dead, Inbox: in})
	}
	if want := "6 tasks: 1 uncertain, 5 dead, in 4 inboxes"; y.String() != want {
		t.Errorf("the tally is %q, want %q", y, want)
	}
}
