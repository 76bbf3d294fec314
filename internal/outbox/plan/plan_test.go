package plan

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"testing"
	"time"

	"postrider/internal/inbox"
	"postrider/internal/outbox"
	"postrider/internal/route"
	"postrider/internal/tasks"
)

// registry is what is known of tasks and inboxes.
type registry struct {
	tasks   map[int64]tasks.Task
	inboxes []inbox.Inbox
}

func (r registry) Tasks(_ context.Context, ids []int64) (map[int64]tasks.Task, error) {
	out := map[int64]tasks.Task{}
	for _, id := range ids {
		if t, ok := r.tasks[id]; ok {
			out[id] = t
		}
	}
	return out, nil
}

func (r registry) Trails(_ context.Context, ids []int64) (map[int64][]tasks.Event, error) {
	out := map[int64][]tasks.Event{}
	for _, id := range ids {
		out[id] = []tasks.Event{{TaskID: id, Event: "requeued"}}
	}
	return out, nil
}

func (r registry) Headers(context.Context, []int64) (map[int64]tasks.Header, error) {
	return map[int64]tasks.Header{1: {Fields: []tasks.HeaderField{{Name: "x-case", Value: "7"}}, Cut: true}}, nil
}

func (r registry) ByID(_ context.Context, ids []int64) (map[int64]inbox.Inbox, error) {
	out := map[int64]inbox.Inbox{}
	for _, in := range r.inboxes {
		if slices.Contains(ids, in.ID) {
			out[in.ID] = in
		}
	}
	return out, nil
}

// TestPlan: who gets which event. What was deleted since has none, and the IDs are always the same.
func TestPlan(t *testing.T) {
	known := registry{
		tasks: map[int64]tasks.Task{
			1: {ID: 1, InboxID: 7, Inbox: "desk@firm.example", Route: "archive+court", Status: tasks.Forwarded},
			2: {ID: 2, InboxID: 8, Inbox: "sales@other.example", Route: "all", Status: tasks.Dead},
		},
		inboxes: []inbox.Inbox{
			{ID: 7, Address: "desk@firm.example", Labels: inbox.Labels{"tenant": "acme"}},
			{ID: 8, Address: "sales@other.example"},
			{ID: 9, Address: "desk@third.example", LastError: "refused"},
		},
	}
	kinds := []outbox.Kind{outbox.Forwarded, outbox.Dead, outbox.InboxUnreachable}
	firm := inbox.Selection{Inboxes: []string{"*@FIRM.example"}}
	acme := inbox.Selection{Labels: []string{"tenant=acme"}}
	p := &Planner{Source: "postrider://firm.example", Tasks: known, Inboxes: known, Rules: []Rule{
		{Destination: "all", On: kinds},
		{Destination: "court", On: kinds, Routes: []string{"court"}},
		{Destination: "firm", On: []outbox.Kind{outbox.Forwarded, outbox.Dead}, Inboxes: firm},
		{Destination: "acme", On: []outbox.Kind{outbox.Dead}, Inboxes: acme},
	}}
	at := time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)
	happened := []outbox.Occurrence{
		{ID: 1, Kind: outbox.Registered, TaskID: 1, At: at},
		{ID: 2, Kind: outbox.Forwarded, TaskID: 1, At: at},
		{ID: 3, Kind: outbox.Dead, TaskID: 2, At: at},
		{ID: 4, Kind: outbox.Dead, TaskID: 99, At: at},
		{ID: 5, Kind: outbox.InboxUnreachable, InboxID: 9, At: at},
		{ID: 6, Kind: outbox.InboxUnreachable, InboxID: 99, At: at},
	}
	planned, err := p.Plan(t.Context(), happened)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, e := range planned {
		var event struct{ ID, Source, Type, Subject string }
		if err := json.Unmarshal(e.Body, &event); err != nil || event.ID != e.EventID || event.Source != p.Source {
			t.Errorf("the body is %s, %v; want an event with the ID %s", e.Body, err, e.EventID)
		}
		got = append(got, fmt.Sprint(e.Destination, " ", event.Type, " ", event.Subject, " ", e.InboxID))
	}
	want := []string{
		"all postrider.task.forwarded.v1 1 7",
		"court postrider.task.forwarded.v1 1 7",
		"firm postrider.task.forwarded.v1 1 7",
		"all postrider.task.dead.v1 2 8",
		"all postrider.inbox.unreachable.v1 desk@third.example 9",
	}
	if !slices.Equal(got, want) {
		t.Errorf("planned are\n%q\nwant\n%q", got, want)
	}
	again, err := p.Plan(t.Context(), happened)
	if err != nil || len(again) != len(planned) ||
		again[0].EventID != planned[0].EventID || planned[0].EventID == planned[1].EventID {
		t.Errorf("planned again are %+v, %v; want the same IDs, a different one for each destination", again, err)
	}
	if got := Kinds(p.Rules); !slices.Equal(got, kinds) {
		t.Errorf("wanted are %q", got)
	}
}

// twoDead are the ends of the tasks 1 and 2.
var twoDead = []outbox.Occurrence{{ID: 1, Kind: outbox.Dead, TaskID: 1}, {ID: 2, Kind: outbox.Dead, TaskID: 2}}

// TestPlanHeaders: an event has the header where it is to be included, and is known.
func TestPlanHeaders(t *testing.T) {
	known := registry{
		tasks:   map[int64]tasks.Task{1: {ID: 1, InboxID: 7}, 2: {ID: 2, InboxID: 7}},
		inboxes: []inbox.Inbox{{ID: 7, Address: "desk@firm.example"}, {ID: 8, Address: "sales@other.example"}},
	}
	desks := inbox.Selection{Inboxes: []string{"desk@*"}}
	p := &Planner{Source: "postrider://firm.example", Tasks: known, Inboxes: known, Rules: []Rule{
		{Destination: "with", On: []outbox.Kind{outbox.Dead}, Inboxes: desks, Headers: true},
		{Destination: "without", On: []outbox.Kind{outbox.Dead}},
	}}
	planned, err := p.Plan(t.Context(), twoDead)
	if err != nil || len(planned) != 4 {
		t.Fatalf("planned are %+v, %v; want four", planned, err)
	}
	for i, e := range planned {
		var event struct{ Data map[string]json.RawMessage }
		if err := json.Unmarshal(e.Body, &event); err != nil {
			t.Fatal(err)
		}
		header, cut := string(event.Data["header"]), string(event.Data["header_cut"])
		if i == 0 && (header != `[{"name":"x-case","value":"7"}]` || cut != "true") || i > 0 && header+cut != "" {
			t.Errorf("the event of task %d for %s has the header %s, cut: %s; want one in the first alone",
				e.Occurrence.TaskID, e.Destination, header, cut)
		}
	}
	if in := known.inboxes; !IncludeHeaders(p.Rules, in[0]) || IncludeHeaders(p.Rules, in[1]) {
		t.Error("headers are to be kept of the first inbox alone")
	}
}

// TestPlanBroken: an event that cannot be written is dead, and holds up no other.
func TestPlanBroken(t *testing.T) {
	known := registry{
		tasks: map[int64]tasks.Task{
			1: {ID: 1, InboxID: 7, CreatedAt: time.Date(10_000, 1, 1, 0, 0, 0, 0, time.UTC)}, // JSON has no such year
			2: {ID: 2, InboxID: 7},
		},
		inboxes: []inbox.Inbox{{ID: 7, Address: "desk@firm.example"}},
	}
	p := &Planner{Source: "postrider://firm.example", Tasks: known, Inboxes: known, Rules: []Rule{
		{Destination: "crm", On: []outbox.Kind{outbox.Dead}},
	}}
	planned, err := p.Plan(t.Context(), twoDead)
	if err != nil || len(planned) != 2 {
		t.Fatalf("planned are %+v, %v; want two", planned, err)
	}
	if planned[0].Error == "" || planned[0].Body != nil || planned[1].Error != "" || planned[1].Body == nil {
		t.Errorf("planned are %+v, want the first without a body and with its error, and the other with a body",
			planned)
	}
}

// TestPlanAfter: what is done on the server follows from ends of tasks, beside the events.
func TestPlanAfter(t *testing.T) {
	known := registry{
		tasks:   map[int64]tasks.Task{1: {ID: 1, InboxID: 7, Route: "court", Status: tasks.Forwarded}},
		inboxes: []inbox.Inbox{{ID: 7, Address: "desk@firm.example"}},
	}
	p := &Planner{Tasks: known, Inboxes: known, After: func(kind outbox.Kind, route string) []Step {
		return []Step{{Action: fmt.Sprintf("flag:%s-%s", kind, route)}, {Action: "delete", Delay: time.Hour}}
	}}
	got, err := p.Plan(t.Context(), []outbox.Occurrence{
		{ID: 3, Kind: outbox.Forwarded, TaskID: 1},
		{ID: 4, Kind: outbox.Forwarded, TaskID: 9},
		{ID: 5, Kind: outbox.InboxOK, InboxID: 7},
	})
	if err != nil || len(got) != 2 {
		t.Fatalf("Plan = %+v, %v; want two", got, err)
	}
	one, two := got[0], got[1]
	if one.Destination != outbox.Server || one.InboxID != 7 || one.Action != "flag:forwarded-court" ||
		one.Delay != 0 || one.Occurrence.ID != 3 {
		t.Errorf("the first is %+v", one)
	}
	if two.Action != "delete" || two.Delay != time.Hour || two.EventID == one.EventID {
		t.Errorf("the second is %+v", two)
	}
}

// TestSteps: delete_after is a step of its own, unless the message is gone from its folder by then.
func TestSteps(t *testing.T) {
	day := 24 * time.Hour
	later := Step{Action: "delete", Delay: day}
	for _, c := range []struct {
		forwarded route.Action
		kind      outbox.Kind
		want      []Step
	}{
		{"", outbox.Forwarded, []Step{later}},
		{route.Keep, outbox.Forwarded, []Step{later}},
		{route.Seen, outbox.Forwarded, []Step{{Action: "seen"}, later}},
		{route.Delete, outbox.Forwarded, []Step{{Action: "delete"}}},
		{"move:Done", outbox.Forwarded, []Step{{Action: "move:Done"}}},
		{route.Seen, outbox.Dead, []Step{{Action: "flag:X"}}},
		{route.Seen, outbox.SkippedNoMatch, nil},
		{route.Seen, outbox.Registered, nil},
	} {
		steps := Steps(c.kind, route.After{Forwarded: c.forwarded, Dead: "flag:X", DeleteAfter: &day})
		if !slices.Equal(steps, c.want) {
			t.Errorf("after %s, with forwarded: %q, the steps are %v, want %v", c.kind, c.forwarded, steps, c.want)
		}
	}
}

// TestWants: an action is wanted with its delay, and none of a configuration without actions.
func TestWants(t *testing.T) {
	a := After(func(outbox.Kind, string) []Step {
		return []Step{{Action: "seen"}, {Action: "delete", Delay: time.Hour}}
	})
	for action, want := range map[string]bool{"seen": true, "delete": true, "move:Done": false} {
		delay, wanted := a.Wants(outbox.Forwarded, "", action)
		if wanted != want || (delay > 0) != (action == "delete") {
			t.Errorf("Wants(%s) = %v, %v; want %v", action, delay, wanted, want)
		}
	}
	if _, wanted := After(nil).Wants(outbox.Forwarded, "", "seen"); wanted {
		t.Error("seen is wanted, want nothing")
	}
}
