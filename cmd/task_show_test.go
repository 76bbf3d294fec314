package cmd

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"postrider/internal/tasks"
)

// TestShowTask is a task with all that strangers can write into it.
func TestShowTask(t *testing.T) {
	const address = "somebody.with.quite.a.long.name.indeed@and.a.subdomain.of.her.own.firm.example"
	noon := time.Date(2026, 2, 1, 12, 0, 0, 0, time.UTC)
	var out bytes.Buffer
	(&app{out: &out, width: 200}).showTask(tasks.Task{
		ID: 17, Status: tasks.Dead, Reason: "refused\nfor good",
		Identity: tasks.Identity{Subject: "red\x1b[41m alert\r\nstatus  forwarded"},
		Deliveries: []tasks.Delivery{
			{
				Recipient: address, Status: tasks.Failed, Code: 550, Reply: strings.Repeat("5.7.1 denied\n", 10),
				Attempts: 2,
			},
			{Recipient: "later@firm.example", Status: tasks.Pending},
		},
	}, []tasks.Event{
		{At: noon, Worker: "alpha:1:AAAA", Event: "lease_lost", Detail: "taken over from beta:2:BBBB"},
		{At: noon.Add(time.Second), Worker: "beta\x1b[2J:2:BBBB", Event: "conflict", Detail: strings.Repeat("開廷", 50)},
	})
	got := out.String()
	t.Log("\n" + got)
	for what, want := range map[string]string{
		"a subject stays in its line":         "subject      red [41m alert status forwarded\n",
		"an address stays whole":              "│ " + address + " │ failed  │ 550 ",
		"a code that there was not is blank":  "│ pending │      │",
		"a long reply is wrapped":             " 5.7.1 denied 5.7.1     │        2 │\n",
		"a worker plays no tricks":            "│ beta [2J:2:BBBB │",
		"the trail has times of a known zone": "│ 2026-02-01T12:00:01Z │ conflict ",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("%s: want %q", what, want)
		}
	}
	if strings.ContainsAny(got, "\x1b\r") {
		t.Error("control characters reach the terminal")
	}
	if strings.Index(got, "lease_lost") > strings.Index(got, "conflict") {
		t.Error("the trail is out of order")
	}
}

// TestShowGoneTask: the trail says why a task is gone.
func TestShowGoneTask(t *testing.T) {
	for event, want := range map[string]string{
		"purged": "task 5 was purged; its trail:\n", "forgotten": "task 5 is no longer in the registry; its trail:\n",
	} {
		var out bytes.Buffer
		(&app{out: &out, width: 200}).showGone(5, []tasks.Event{{Event: event}}, false)
		if !strings.HasPrefix(out.String(), want) {
			t.Errorf("%s: it shows\n%s\nwant %q first", event, out.String(), want)
		}
	}
}
