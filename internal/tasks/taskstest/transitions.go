package taskstest

import (
	"errors"
	"fmt"
	"time"

	"postrider/internal/tasks"
)

var transitionTests = map[string]func(*suite){
	"transitions": testTransitions,
	"finish/ways": testNoWay,
}

// deed is something that somebody tries to do to a task.
type deed struct {
	name   string
	to     tasks.Status
	holder bool // by the holder of the last receipt
	person bool // by a person
	do     func(p place, c tasks.Claim) error
}

func deeds() []deed {
	all := []deed{
		{name: "claim", to: tasks.InProgress, do: func(p place, _ tasks.Claim) error {
			p.Age(p.t, 2*time.Hour)
			_, err := p.Queue.Receive(p.ctx, p.want(1))
			return err
		}},
		{name: "release", to: tasks.Received, holder: true, do: func(p place, c tasks.Claim) error {
			return p.Queue.Release(p.ctx, c, "stopped", 0, nil)
		}},
		{name: "requeue", to: tasks.Received, person: true, do: func(p place, c tasks.Claim) error {
			return changed(p.Queue.Requeue(p.ctx, "ann", c.ID))
		}},
		{name: "skip", to: tasks.Skipped, person: true, do: func(p place, c tasks.Claim) error {
			return changed(p.Queue.Skip(p.ctx, "ann", c.ID))
		}},
		{name: "resolve", to: tasks.Forwarded, person: true, do: func(p place, c tasks.Claim) error {
			return changed(p.Queue.Resolve(p.ctx, "ann", c.ID))
		}},
	}
	for _, to := range []tasks.Status{
		tasks.Forwarded, tasks.SkippedNoMatch, tasks.Skipped, tasks.Error, tasks.Dead, tasks.Uncertain,
	} {
		all = append(all, deed{name: "finish " + string(to), to: to, holder: true, do: func(p place, c tasks.Claim) error {
			return p.Queue.Finish(p.ctx, c.Receipt, tasks.Result{Status: to, Route: "desk", Delay: time.Hour})
		}})
	}
	return all
}

// errNone is what a person's deed that changed nothing comes to.
var errNone = errors.New("no task changed")

func changed(n int, err error) error {
	if err == nil && n == 0 {
		return errNone
	}
	return err
}

// allowed is what the deed may do to a task in from, by the states and by who may do what.
func (d deed) allowed(from tasks.Status) bool {
	switch {
	case d.holder:
		return from == tasks.InProgress
	case d.person:
		return from != tasks.InProgress && tasks.Allowed(from, d.to)
	}
	return tasks.Allowed(from, d.to)
}

// testTransitions tries every deed on a task in every state: it happens when it is allowed, and changes nothing when it is
// not. Together they are all the transitions that are allowed.
func testTransitions(s *suite) {
	seen := map[string]bool{}
	for _, from := range tasks.Statuses {
		for _, d := range deeds() {
			p, c := s.bring(from)
			before := p.stands(c.ID, from)
			err := d.do(p, c)
			switch after := p.get(c.ID); {
			case d.allowed(from):
				if err != nil {
					s.t.Errorf("%s of a task that is %s: %v", d.name, from, err)
				}
				p.stands(c.ID, d.to)
				seen[fmt.Sprint(from, d.to)] = true
			case after.Status != from || !after.UpdatedAt.Equal(before.UpdatedAt) && d.name != "claim":
				s.t.Errorf("%s of a task that is %s made it %s; want nothing changed", d.name, from, after.Status)
			case d.holder && from != d.to && !errors.Is(err, tasks.ErrLeaseLost):
				s.t.Errorf("%s of a task that is %s: %v, want ErrLeaseLost", d.name, from, err)
			case d.person && !errors.Is(err, errNone):
				s.t.Errorf("%s of a task that is %s: %v, want no task changed", d.name, from, err)
			}
		}
	}
	for _, from := range tasks.Statuses {
		for _, to := range tasks.Statuses {
			if tasks.Allowed(from, to) && !seen[fmt.Sprint(from, to)] {
				s.t.Errorf("%s -> %s is allowed, but nothing does it", from, to)
			}
		}
	}
}

// bring makes a task that stands in the state, with the last claim of it.
func (s *suite) bring(to tasks.Status) (place, tasks.Claim) {
	s.t.Helper()
	p := s.place()
	switch to {
	case tasks.Received:
		c := tasks.Claim{Task: tasks.Task{ID: p.register(p.msg(1, "m"))[0].TaskID}}
		c.Receipt = tasks.Receipt{TaskID: c.ID, Token: "never given"}
		return p, c
	case tasks.InProgress:
		return p, p.claim()
	}
	return p, p.finished(tasks.Result{Status: to, Route: "desk", Delay: time.Hour})
}

// testNoWay finishes with what is not an end of a claim.
func testNoWay(s *suite) {
	for _, to := range []tasks.Status{tasks.Received, tasks.InProgress, "", "nonsense"} {
		p := s.place()
		c := p.claim()
		if err := s.Queue.Finish(s.ctx, c.Receipt, tasks.Result{Status: to}); err == nil || errors.Is(err, tasks.ErrLeaseLost) {
			s.t.Errorf("finish as %q: error %v, want a refusal", to, err)
		}
		s.stands(c.ID, tasks.InProgress)
	}
}
