package taskstest

import (
	"context"
	"time"

	"postrider/internal/tasks"
)

var operatorTests = map[string]func(*suite){
	"operator/requeue":              testRequeue,
	"operator/skip":                 testSkip,
	"operator/resolve":              testResolve,
	"operator/resolve with others":  testResolveOthers,
	"operator/several":              testSeveral,
	"operator/changed meanwhile":    testChangedMeanwhile,
	"operator/no recipient has it":  testRequeueUndecided,
	"operator/skip of a dead task":  testSkipDead,
	"operator/skip and then resend": testSkipRequeue,
}

// unknownOutcome leaves a task uncertain: eve's outcome is unknown, those of others are as given.
func (s *suite) unknownOutcome(ds ...tasks.Delivery) (place, int64) {
	s.t.Helper()
	p := s.place()
	to := []string{eve}
	for _, d := range ds {
		to = append(to, d.Recipient)
	}
	p.register(s.msg(1, "m", to...))
	c := p.claimed(1, 1)[0]
	ds = append(ds, tasks.Delivery{Recipient: eve, Status: tasks.Sending, Attempts: 1})
	res := tasks.Result{Status: tasks.Uncertain, Reason: "not known", Deliveries: ds}
	s.must("finish", s.Queue.Finish(s.ctx, c.Receipt, res))
	return p, c.Task.ID
}

// lastByAnn checks the trail, the last line of which is an operator's.
func (s *suite) lastByAnn(id int64, want ...string) {
	s.t.Helper()
	s.has(id, want...)
	events, err := s.Queue.Events(s.ctx, id)
	s.must("events", err)
	if last := events[len(events)-1]; last.Worker != "ann" {
		s.t.Errorf("the event %s is by %q, want ann", last.Event, last.Worker)
	}
}

// testRequeue: the task begins again, for those who did not get it.
func testRequeue(s *suite) {
	p, id := s.unknownOutcome(
		tasks.Delivery{Recipient: ann, Status: tasks.Delivered, Attempts: 1},
		tasks.Delivery{Recipient: bob, Status: tasks.Failed, Attempts: 1})
	s.Age(s.t, 48*time.Hour)
	before := s.get(id)
	s.requeue(id)
	got := s.stands(id, tasks.Received)
	if got.Attempts != 0 || got.Reason != "" ||
		!got.QueuedAt.After(before.QueuedAt.Add(24*time.Hour)) ||
		!got.CreatedAt.Equal(before.CreatedAt) {
		s.t.Errorf("attempts %d, reason %q, queued %v, created %v; want it queued now",
			got.Attempts, got.Reason, got.QueuedAt, got.CreatedAt)
	}
	if !got.InDoubt || got.Revision != "" {
		s.t.Errorf("in doubt %t, revision %q; want that it may have arrived, and no revision",
			got.InDoubt, got.Revision)
	}
	s.recipients(id, "ann delivered, bob pending, eve pending")
	s.lastByAnn(id, "uncertain", "requeued")
	p.claimed(1, 1)
}

func testSkip(s *suite) {
	p, id := s.unknownOutcome()
	s.skip(id)
	if got := s.stands(id, tasks.Skipped); got.Reason != "by_operator: ann" || got.Skip != tasks.SkipOperator {
		s.t.Errorf("skipped as %q, reason %q; want by_operator, by_operator: ann", got.Skip, got.Reason)
	}
	s.lastByAnn(id, "uncertain", "skipped")
	p.claimed(1)
}

func testResolve(s *suite) {
	p, id := s.unknownOutcome(tasks.Delivery{Recipient: ann, Status: tasks.Delivered})
	s.resolve(id)
	s.stands(id, tasks.Forwarded)
	s.recipients(id, "ann delivered, eve delivered")
	s.lastByAnn(id, "uncertain", "resolved")
	p.claimed(1)
}

// testResolveOthers: the unknown outcome is settled. The task goes on for a deferred recipient, and
// ends as dead for a refused one.
func testResolveOthers(s *suite) {
	for _, other := range []tasks.DeliveryStatus{tasks.Pending, tasks.Failed} {
		p, id := s.unknownOutcome(tasks.Delivery{Recipient: ann, Status: other, Code: 451, Attempts: 1})
		s.resolve(id)
		s.stands(id, tasks.Received)
		s.recipients(id, "ann %s, eve delivered", other)
		s.lastByAnn(id, "uncertain", "resolved")
		p.claimed(1, 1)
	}
}

// testSeveral: what cannot be changed is left out of the count, and of the trail.
func testSeveral(s *suite) {
	p, dead := s.bring(tasks.Dead)
	_, held := s.bring(tasks.InProgress)
	_, done := s.bring(tasks.Forwarded)
	s.byAnn(s.Queue.Requeue(s.ctx, operatorAnn, dead.Task.ID, held.Task.ID, done.Task.ID, 1<<40))
	s.has(held.Task.ID)
	s.has(done.Task.ID)
	s.stands(held.Task.ID, tasks.InProgress)
	p.claimed(1, 1)
}

// testChangedMeanwhile: a task that somebody else has moved to another state meanwhile stays there.
func testChangedMeanwhile(s *suite) {
	by := operatorAnn
	by.From = []tasks.Status{tasks.Dead}
	for _, change := range []func(context.Context, tasks.By, ...int64) (int, error){
		s.Queue.Requeue, s.Queue.Skip, s.Queue.Purge,
	} {
		_, dead := s.bring(tasks.Dead)
		_, skipped := s.bring(tasks.Skipped)
		_, uncertain := s.bring(tasks.Uncertain)
		s.byAnn(change(s.ctx, by, skipped.Task.ID, uncertain.Task.ID, dead.Task.ID))
		s.stands(skipped.Task.ID, tasks.Skipped)
		s.stands(uncertain.Task.ID, tasks.Uncertain)
	}
}

// testRequeueUndecided: when no recipient has the message, the task is decided again, and equal
// messages that came since go first.
func testRequeueUndecided(s *suite) {
	p := s.place()
	dead := p.finished(tasks.Dead).Task.ID
	s.requeue(dead)
	if got := s.stands(dead, tasks.Received); got.Revision != "" || got.Begun() {
		s.t.Errorf("requeued, it has the revision %q, begun %t; want it to be decided again", got.Revision, got.Begun())
	}
	other := p.became([]tasks.Entry{s.msg(2, "m")}, "new")[0].TaskID
	p.reserve(p.claimed(1, 1)[0], []string{ann, bob}, standing([]tasks.Delivery{
		{Recipient: ann, Status: tasks.Pending, DuplicateOf: other}, {Recipient: bob, Status: tasks.Pending},
	}))
}

// testSkipDead: to skip a task that was given up makes its copies duplicates in every scope, unless
// someone else sends them.
func testSkipDead(s *suite) {
	for _, dedupe := range []tasks.Dedupe{tasks.DedupeInbox, tasks.DedupeAll} {
		p := s.place().under(dedupe)
		content := string(dedupe)
		dead := p.added(s.msg(1, content))
		s.finish(p.claimed(1, 1)[0], tasks.Dead)
		copied := p.became([]tasks.Entry{s.msg(2, content)}, "new")[0].TaskID
		s.skip(dead)
		waits := p.became([]tasks.Entry{s.msg(3, content)}, "waits")[0].TaskID
		s.recipients(waits, "ann waits for %d", copied)
		if sent := p.work(); sent != 1 {
			s.t.Errorf("the copy was sent %d times, want once", sent)
		}
		other := s.place().under(dedupe)
		dead = other.added(s.msg(1, content+" again"))
		s.finish(other.claimed(1, 1)[0], tasks.Dead)
		s.skip(dead)
		again := other.became([]tasks.Entry{s.msg(2, content+" again")}, "duplicate")[0].TaskID
		s.recipients(again, "ann duplicate of %d", dead)
	}
}

// testSkipRequeue: what an operator skipped and then requeued goes out, and its copies are
// duplicates.
func testSkipRequeue(s *suite) {
	p := s.place()
	id := p.added(s.msg(1, "m"))
	s.skip(id)
	copied := p.became([]tasks.Entry{s.msg(2, "m")}, "duplicate")[0].TaskID
	s.requeue(id)
	s.requeue(copied)
	if sent := p.work(); sent != 1 {
		s.t.Errorf("sent %d times, want once", sent)
	}
	s.stands(id, tasks.Forwarded)
	s.recipients(copied, "ann duplicate of %d", id)
}
