// Package plan decides what follows from an occurrence: which destinations get an event and what is
// in it, and which action is carried out on the IMAP server. It reads the registry as it is now:
// the event of a requeued task has its current state.
package plan

import (
	"context"
	"maps"
	"slices"
	"strconv"
	"time"

	"postrider/internal/inbox"
	"postrider/internal/outbox"
	"postrider/internal/outbox/cloudevent"
	"postrider/internal/route"
	"postrider/internal/tasks"
)

// Rule is which events a destination gets. Empty lists hold for all.
type Rule struct {
	Destination string
	On          []outbox.Kind
	Inboxes     inbox.Selection
	Routes      []string
	Headers     bool // the event has the message's header fields, where they are known
}

// Registry is what is read of tasks.
type Registry interface {
	// Tasks are those that are there, by their IDs.
	Tasks(ctx context.Context, ids []int64) (map[int64]tasks.Task, error)
	// Trails are the audit trails of tasks, in order.
	Trails(ctx context.Context, ids []int64) (map[int64][]tasks.Event, error)
	// Headers are the headers of tasks, where they are known.
	Headers(ctx context.Context, ids []int64) (map[int64]tasks.Header, error)
}

// Inboxes is what is read of inboxes.
type Inboxes interface {
	// ByID returns those that are there, disabled ones too.
	ByID(ctx context.Context, ids []int64) (map[int64]inbox.Inbox, error)
}

// Planner has the rules.
type Planner struct {
	Rules   []Rule
	Source  string // of events: a URI of the installation
	Tasks   Registry
	Inboxes Inboxes
	After   After
}

// After says what is done on the server, by how a task ended and the route it had; nil for nothing.
type After func(kind outbox.Kind, route string) []Step

// Wants reports whether an action is among that, and how long after the task's end.
func (a After) Wants(kind outbox.Kind, route, action string) (delay time.Duration, wanted bool) {
	if a == nil {
		return 0, false
	}
	for _, s := range a(kind, route) {
		if s.Action == action {
			return s.Delay, true
		}
	}
	return 0, false
}

// Step is one thing to do on the server once a task has ended.
type Step struct {
	Action string // as in outbox.Entry
	Delay  time.Duration
}

// Steps are what a says of tasks that ended like that.
func Steps(kind outbox.Kind, a route.After) (steps []Step) {
	action := map[outbox.Kind]route.Action{
		outbox.Forwarded: a.Forwarded, outbox.SkippedNoMatch: a.SkippedNoMatch, outbox.Dead: a.Dead,
	}[kind]
	if action.Acts() {
		steps = append(steps, Step{Action: string(action)})
	}
	_, moved := action.Folder()
	// Of several routes each may be one.
	if d := a.Deletes(); d > 0 && kind == outbox.Forwarded && action != route.Delete && !moved {
		steps = append(steps, Step{Action: string(route.Delete), Delay: d})
	}
	return steps
}

// Kinds are those that a rule wants.
func Kinds(rules []Rule) (kinds []outbox.Kind) {
	for _, r := range rules {
		for _, k := range r.On {
			if !slices.Contains(kinds, k) {
				kinds = append(kinds, k)
			}
		}
	}
	return kinds
}

// IncludeHeaders reports whether events of the inbox's messages have their header fields.
func IncludeHeaders(rules []Rule, in inbox.Inbox) bool {
	return slices.ContainsFunc(rules, func(r Rule) bool { return r.Headers && r.Inboxes.Has(in) })
}

// Plan implements outbox.Plan. What was deleted since has no events: a task that was purged, an
// inbox that was removed. An event that cannot be written is dead.
func (p *Planner) Plan(ctx context.Context, os []outbox.Occurrence) ([]outbox.Planned, error) {
	if len(p.Rules) == 0 && p.After == nil {
		return nil, nil
	}
	known, err := p.read(ctx, os)
	if err != nil {
		return nil, err
	}
	var planned []outbox.Planned
	for _, o := range os {
		id, route := o.InboxID, ""
		task, isTask := known.tasks[o.TaskID]
		if isTask {
			id, route = task.InboxID, task.Route
		}
		in, ok := known.inboxes[id]
		if !ok || o.TaskID != 0 && !isTask {
			continue
		}
		planned = append(planned, p.steps(o, id, route)...)
		for _, r := range p.Rules {
			if !r.wants(o.Kind, in, route) {
				continue
			}
			event := cloudevent.Event{ID: outbox.EventID(o, r.Destination), Source: p.Source, Kind: o.Kind, Time: o.At}
			if isTask {
				event.Subject, event.Data = strconv.FormatInt(o.TaskID, 10), known.task(task, in, r.Headers)
			} else {
				event.Subject, event.Data = in.Address, details(in)
			}
			one := outbox.Planned{Occurrence: o, Destination: r.Destination, EventID: event.ID, InboxID: id}
			if one.Body, err = cloudevent.Encode(event); err != nil {
				one.Error = err.Error() // it must not hold up what comes after it
			}
			planned = append(planned, one)
		}
	}
	return planned, nil
}

// steps are what is done on the server after what happened to a task.
func (p *Planner) steps(o outbox.Occurrence, inboxID int64, route string) (planned []outbox.Planned) {
	if p.After == nil || o.TaskID == 0 {
		return nil
	}
	for _, s := range p.After(o.Kind, route) {
		planned = append(planned, outbox.Planned{
			Occurrence: o, Destination: outbox.Server, EventID: outbox.EventID(o, outbox.Server+" "+s.Action),
			InboxID: inboxID, Action: s.Action, Delay: s.Delay,
		})
	}
	return planned
}

func (r Rule) wants(kind outbox.Kind, in inbox.Inbox, by string) bool {
	return slices.Contains(r.On, kind) && r.Inboxes.Has(in) && (len(r.Routes) == 0 || route.Decided(by, r.Routes))
}

// known is what occurrences are about.
type known struct {
	tasks   map[int64]tasks.Task
	trails  map[int64][]tasks.Event
	headers map[int64]tasks.Header
	inboxes map[int64]inbox.Inbox
}

func (p *Planner) read(ctx context.Context, os []outbox.Occurrence) (k known, err error) {
	var ids []int64
	for _, o := range os {
		if o.TaskID != 0 && !slices.Contains(ids, o.TaskID) {
			ids = append(ids, o.TaskID)
		}
	}
	if k.tasks, err = p.Tasks.Tasks(ctx, ids); err != nil {
		return k, err
	}
	if k.trails, err = p.Tasks.Trails(ctx, ids); err != nil {
		return k, err
	}
	if slices.ContainsFunc(p.Rules, func(r Rule) bool { return r.Headers }) {
		if k.headers, err = p.Tasks.Headers(ctx, ids); err != nil {
			return k, err
		}
	}
	boxes := map[int64]bool{}
	for _, o := range os {
		if o.TaskID == 0 {
			boxes[o.InboxID] = true
		}
	}
	for _, t := range k.tasks {
		boxes[t.InboxID] = true
	}
	k.inboxes, err = p.Inboxes.ByID(ctx, slices.Sorted(maps.Keys(boxes)))
	return k, err
}

func (k known) task(t tasks.Task, in inbox.Inbox, header bool) cloudevent.Task {
	d := cloudevent.NewTask(t, k.trails[t.ID])
	d.Labels = in.Labels
	if h, ok := k.headers[t.ID]; ok && header {
		d.Header = &h
	}
	return d
}

func details(in inbox.Inbox) cloudevent.Inbox {
	return cloudevent.Inbox{Inbox: in.Address, Labels: in.Labels, Since: in.FailingSince, Error: in.LastError}
}
