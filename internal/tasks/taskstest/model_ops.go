package taskstest

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"postrider/internal/tasks"
)

// Message is one entry of a page. Route says how it is decided: not yet when empty; "none" and
// "skip" have no recipient.
type Message struct {
	UID          uint32
	Content      int
	Unread, High bool
	Route        string
	To           []string
}

func (m Message) entry(s *side) tasks.Entry {
	e := tasks.Entry{UID: m.UID, Stated: s.said(m.Content), Identity: s.identity(m.Content)}
	if m.Unread {
		e.Identity, e.Mode = tasks.Identity{Fingerprint: e.Outline()}, "notice"
	}
	e.Decision = decide(m.Route, m.To)
	if m.High && e.Decision != nil {
		e.Decision.Priority = tasks.High
	}
	return e
}

func decide(route string, to []string) *tasks.Decision {
	switch route {
	case "":
		return nil
	case "none":
		return &tasks.Decision{Revision: "r1", Reason: "no one"}
	case "skip":
		return &tasks.Decision{Revision: "r1", Skip: tasks.SkipByRoute, Reason: "by_route: list", Recipients: to}
	}
	d := &tasks.Decision{
		Revision: "r1", Route: route, Recipients: to,
		Notes: []tasks.Note{{Event: "left_out", Detail: route}},
	}
	if len(to) > 1 {
		d.Keep = tasks.KeepUndecided
	}
	return d
}

// Register registers a page. How is "", "known only", "dry run", "old epoch", "old scan" or
// "baseline".
type Register struct {
	Folder   int
	Messages []Message
	Dedupe   tasks.Dedupe
	How      string
}

func (o Register) play(s *side) string {
	f := s.folders[o.Folder%len(s.folders)]
	in := s.inboxes[f.inbox]
	page := tasks.Page{
		InboxID: in.id, FolderID: f.id, Epoch: f.epoch, ScanToken: in.token, Dedupe: o.Dedupe,
		KnownOnly: o.How == "known only", DryRun: o.How == "dry run",
	}
	for _, m := range o.Messages {
		page.Entries = append(page.Entries, m.entry(s))
		page.Cursor = max(page.Cursor, m.UID)
	}
	switch o.How {
	case "old epoch":
		page.Epoch--
	case "old scan":
		page.ScanToken--
	case "known only":
		page.Cursor = 0
	case "baseline":
		return s.failure(s.Queue.Baseline(s.ctx, page))
	}
	regs, err := s.Queue.Register(s.ctx, page)
	if err != nil {
		return s.failure(err)
	}
	var out []string
	for i, r := range regs {
		if r.TaskID != 0 && s.number(r.TaskID) < 0 {
			s.tasks = append(s.tasks, registered{r.TaskID, o.Messages[i].Content})
		}
		out = append(out, fmt.Sprintf("UID %d: fate %d, %s, %s %q", r.UID, r.Fate, s.name(r.TaskID), r.Status, r.Skip))
		if t := r.Task; t != nil {
			out = append(out, fmt.Sprintf("  can be sent: %s %s %q",
				s.name(t.ID), s.deliveries(t.Deliveries), t.Revision))
			s.offers = append(s.offers, *t)
		}
	}
	return strings.Join(out, "\n")
}

// Receive claims tasks, through the other process's queue if so said.
type Receive struct {
	Inbox, Max    int
	Other, InHand bool
}

func (o Receive) play(s *side) string {
	out := ""
	want := tasks.Want{
		InboxID: s.inboxes[o.Inbox%2].id, Max: o.Max, Lease: lease, Worker: "worker", MaxLostLeases: 2,
		Poisoned: func(t tasks.Task) { out += fmt.Sprintf("%s is %s\n", s.name(t.ID), t.Status) },
	}
	if o.InHand {
		for _, c := range s.claims {
			want.InHand = append(want.InHand, c.Task.ID)
		}
	}
	q := s.Queue
	if o.Other {
		q = s.Other
	}
	claims, err := q.Receive(s.ctx, want)
	for _, c := range claims {
		out += fmt.Sprintf("%s, %d attempts, alone %t, due %s, %s\n",
			s.name(c.Task.ID), c.Task.Attempts, c.Alone, at(&c.Due, c.At), s.deliveries(c.Task.Deliveries))
	}
	s.claims = append(s.claims, claims...)
	return out + s.failure(err)
}

// Offer takes a task that was registered into work, the last one first. Its claim is not made yet.
type Offer struct{ Task int }

func (o Offer) play(s *side) string {
	if len(s.offers) == 0 {
		return ""
	}
	i := len(s.offers) - 1 - o.Task%len(s.offers)
	s.claims = append(s.claims, tasks.Offer(s.offers[i], "offer", "worker", lease))
	s.offers = slices.Delete(s.offers, i, i+1)
	return ""
}

// Of is a claim, the last one first, and whether its receipt is a forged one.
type Of struct {
	Claim  int
	Forged bool
}

func (o Of) claim(s *side) (tasks.Claim, bool) {
	if len(s.claims) == 0 {
		return tasks.Claim{}, false
	}
	c := s.claims[len(s.claims)-1-o.Claim%len(s.claims)]
	if o.Forged {
		c.Receipt.Token = "forged"
	}
	return c, true
}

// Outcome is how far a recipient of a task is said to be.
type Outcome struct {
	To     int
	Status tasks.DeliveryStatus
	Code   int
}

// deliveries are those of the task that the outcomes name.
func outcomes(s *side, c tasks.Claim, from []Outcome) (out []tasks.Delivery) {
	t, err := s.Queue.Get(s.ctx, c.Task.ID)
	if err != nil {
		return nil
	}
	for _, o := range from {
		if len(t.Deliveries) == 0 {
			break
		}
		d := t.Deliveries[o.To%len(t.Deliveries)]
		if slices.ContainsFunc(out, func(other tasks.Delivery) bool { return other.Recipient == d.Recipient }) {
			continue
		}
		d.Status, d.Code, d.DeliveredAt, d.DuplicateOf = o.Status, o.Code, nil, 0
		d.Attempts++
		out = append(out, d)
	}
	return out
}

// Do is what a worker does with a claim, by the rules or not: extend, note, reserve, sending,
// finish or release. A reservation is with a new decision unless Route is empty.
type Do struct {
	What     string
	Of       Of
	Status   tasks.Status
	Skip     tasks.SkipReason
	Delay    time.Duration
	Outcomes []Outcome
	Missed   bool
	Identify bool
	Route    string
	To       []string
	Dedupe   tasks.Dedupe
}

func (o Do) play(s *side) string {
	c, ok := o.Of.claim(s)
	if !ok {
		return ""
	}
	ds := outcomes(s, c, o.Outcomes)
	switch o.What {
	case "extend":
		lost, err := s.Queue.Extend(s.ctx, lease, []tasks.Receipt{c.Receipt})
		return fmt.Sprint(len(lost), " lost ", s.failure(err))
	case "note":
		return s.failure(s.Queue.Note(s.ctx, c.Receipt, tasks.Note{Event: "left_out", Detail: "desk"}))
	case "reserve":
		res := tasks.Reservation{Decision: decide(o.Route, o.To), Revision: "r1", Dedupe: o.Dedupe}
		if o.Identify {
			id := s.identity(s.content(c.Task.ID))
			res.Identity = &id
		}
		ds, err := s.Queue.Reserve(s.ctx, c.Receipt, res)
		return s.deliveries(ds) + s.failure(err)
	case "sending":
		return s.failure(s.Queue.Sending(s.ctx, c, tasks.Form{Mode: "redirect"}, ds))
	case "release":
		return s.failure(s.Queue.Release(s.ctx, c, "stopped", o.Delay, ds))
	}
	res := tasks.Result{Status: o.Status, Skip: o.Skip, Reason: "why", Delay: o.Delay, Deliveries: ds}
	if o.Missed {
		res.Missed = &tasks.Place{Epoch: c.Task.Epoch, UID: c.Task.UID}
	}
	err := s.Queue.Finish(s.ctx, c.Receipt, res)
	if !o.Status.EndsClaim() {
		return fmt.Sprint("refused ", err != nil)
	}
	return s.failure(err)
}

// Operate is what an operator does to tasks, to all of them when none is named: requeue, skip,
// resolve or purge.
type Operate struct {
	What  string
	Tasks []int
}

func (o Operate) play(s *side) string {
	var ids []int64
	for i, t := range s.tasks {
		if len(o.Tasks) == 0 || slices.ContainsFunc(o.Tasks, func(n int) bool { return n%len(s.tasks) == i }) {
			ids = append(ids, t.id)
		}
	}
	if o.What == "requeue" {
		s.forgive(ids)
	}
	do := map[string]func(context.Context, tasks.By, ...int64) (int, error){
		"requeue": s.Queue.Requeue, "skip": s.Queue.Skip, "resolve": s.Queue.Resolve, "purge": s.Queue.Purge,
	}[o.What]
	n, err := do(s.ctx, operatorAnn, ids...)
	return fmt.Sprint(n, " ", s.failure(err))
}

// Arrive is what a report says of a delivery.
type Arrive struct {
	Task, To int
	Status   tasks.ArrivalStatus
	Code     int
}

func (o Arrive) play(s *side) string {
	if len(s.tasks) == 0 {
		return ""
	}
	id, to := s.tasks[o.Task%len(s.tasks)].id, "nobody@x.example"
	if t, err := s.Queue.Get(s.ctx, id); err == nil && len(t.Deliveries) > 0 {
		to = t.Deliveries[o.To%len(t.Deliveries)].Recipient
	}
	a := tasks.Arrival{Status: o.Status, Code: o.Code, Reply: "said"}
	changed, err := s.Queue.Arrived(s.ctx, "reports", id, to, a)
	return fmt.Sprint(changed, " ", s.failure(err))
}

// Manage is what is done to an inbox: disable, enable, remove or take over; or to a folder: new
// epoch.
type Manage struct {
	What string
	N    int
}

func (o Manage) play(s *side) string {
	in, f := &s.inboxes[o.N%2], &s.folders[o.N%len(s.folders)]
	var err error
	switch o.What {
	case "new epoch":
		f.epoch++
		s.SetEpoch(s.t, f.id, f.epoch)
	case "enable":
		s.Enable(s.t, in.id)
	case "take over":
		in.token = s.TakeOver(s.t, in.id)
	case "disable":
		err = s.Queue.Disable(s.ctx, operatorAnn, in.id)
	case "remove":
		if err = s.Queue.Remove(s.ctx, "ann", in.id); err == nil {
			s.makeInbox(o.N % 2)
		}
	}
	return s.failure(err)
}

// Expire deletes old tasks of the second inbox, or of both, or old lines of the trail.
type Expire struct {
	Inbox, Limit int
	Age          time.Duration
	Events       bool
}

func (o Expire) play(s *side) string {
	var n int
	var err error
	if o.Events {
		n, err = s.Queue.ExpireEvents(s.ctx, o.Age, o.Limit)
	} else {
		both := []int64{s.inboxes[0].id, s.inboxes[1].id}
		n, err = s.Queue.Expire(s.ctx, both[o.Inbox%2:], o.Age, o.Limit)
	}
	return fmt.Sprint(n, " ", s.failure(err))
}

// EndAbandoned ends the abandoned claims of disabled inboxes. How many these are does not say
// anything: it ends those of other cases, too.
type EndAbandoned struct{}

func (EndAbandoned) play(s *side) string {
	_, err := s.Queue.EndAbandoned(s.ctx)
	return s.failure(err)
}

// Age lets time pass.
type Age struct{ By time.Duration }

func (o Age) play(s *side) string {
	s.Age(s.t, o.By)
	return ""
}

// Again is the last operation once more.
type Again struct{}

func (Again) play(*side) string { return "" }
