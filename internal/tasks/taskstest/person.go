package taskstest

import (
	"time"

	"postrider/internal/tasks"
)

var personTests = map[string]func(*suite){
	"person/requeue":              testRequeue,
	"person/skip":                 testSkip,
	"person/resolve":              testResolve,
	"person/resolve with pending": testResolvePending,
	"person/several":              testSeveral,
}

// unknownOutcome leaves a task uncertain.
func (s *suite) unknownOutcome(ds ...tasks.Delivery) (place, int64) {
	s.t.Helper()
	p := s.place()
	ds = append(ds, tasks.Delivery{Recipient: "unknown@example.com", Status: tasks.Sending, Attempts: 1})
	c := p.finished(tasks.Result{Status: tasks.Uncertain, Reason: "not known", Route: "desk", Deliveries: ds})
	return p, c.ID
}

// standing is how far each recipient of a task got.
func (s *suite) standing(id int64) map[string]tasks.DeliveryStatus {
	s.t.Helper()
	out := map[string]tasks.DeliveryStatus{}
	for _, d := range s.get(id).Deliveries {
		out[d.Recipient] = d.Status
	}
	return out
}

// testRequeue: the task begins anew, for those who did not get it.
func testRequeue(s *suite) {
	p, id := s.unknownOutcome(
		tasks.Delivery{Recipient: "has@example.com", Status: tasks.Delivered, Attempts: 1},
		tasks.Delivery{Recipient: "refused@example.com", Status: tasks.Failed, Attempts: 1})
	s.Age(s.t, 48*time.Hour)
	before := s.get(id)
	n, err := s.Queue.Requeue(s.ctx, "ann", id)
	if n != 1 || err != nil {
		s.t.Fatalf("requeue: %d, %v; want 1", n, err)
	}
	got := s.stands(id, tasks.Received)
	if got.Attempts != 0 || got.Reason != "" || !got.QueuedAt.After(before.QueuedAt.Add(24*time.Hour)) || !got.CreatedAt.Equal(before.CreatedAt) {
		s.t.Errorf("attempts %d, reason %q, queued %v, created %v; want it queued now", got.Attempts, got.Reason, got.QueuedAt, got.CreatedAt)
	}
	is := s.standing(id)
	if is["has@example.com"] != tasks.Delivered || is["refused@example.com"] != tasks.Pending || is["unknown@example.com"] != tasks.Pending {
		s.t.Errorf("deliveries %v; want delivered to stay, the others pending", is)
	}
	s.byAnn(id, "uncertain", "requeued")
	p.claimed(1, 1)
}

// byAnn checks the trail, the last of which a person did.
func (s *suite) byAnn(id int64, want ...string) {
	s.t.Helper()
	s.has(id, want...)
	events, err := s.Queue.Events(s.ctx, id)
	s.must("events", err)
	if last := events[len(events)-1]; last.Worker != "ann" {
		s.t.Errorf("the event %s is by %q, want ann", last.Event, last.Worker)
	}
}

func testSkip(s *suite) {
	p, id := s.unknownOutcome()
	n, err := s.Queue.Skip(s.ctx, "ann", id)
	if n != 1 || err != nil {
		s.t.Fatalf("skip: %d, %v; want 1", n, err)
	}
	if got := s.stands(id, tasks.Skipped); got.Reason != "by_person: ann" {
		s.t.Errorf("reason %q, want by_person: ann", got.Reason)
	}
	s.byAnn(id, "uncertain", "skipped")
	p.claimed(1)
}

func testResolve(s *suite) {
	p, id := s.unknownOutcome(tasks.Delivery{Recipient: "refused@example.com", Status: tasks.Failed, Attempts: 1})
	n, err := s.Queue.Resolve(s.ctx, "ann", id)
	if n != 1 || err != nil {
		s.t.Fatalf("resolve: %d, %v; want 1", n, err)
	}
	s.stands(id, tasks.Received) // to end as dead, for the one who was refused
	if is := s.standing(id); is["unknown@example.com"] != tasks.Delivered || is["refused@example.com"] != tasks.Failed {
		s.t.Errorf("deliveries %v; want the unknown one delivered, the refused one as it was", is)
	}
	s.byAnn(id, "uncertain", "resolved")
	p.claimed(1, 1)
}

// testResolvePending: who got it is settled; who was put off must not be forgotten with it.
func testResolvePending(s *suite) {
	p, id := s.unknownOutcome(tasks.Delivery{Recipient: "later@example.com", Status: tasks.Pending, Code: 451, Attempts: 1})
	n, err := s.Queue.Resolve(s.ctx, "ann", id)
	if n != 1 || err != nil {
		s.t.Fatalf("resolve: %d, %v; want 1", n, err)
	}
	s.stands(id, tasks.Received)
	if is := s.standing(id); is["unknown@example.com"] != tasks.Delivered || is["later@example.com"] != tasks.Pending {
		s.t.Errorf("deliveries %v; want one delivered, one still pending", is)
	}
	s.byAnn(id, "uncertain", "resolved")
	p.claimed(1, 1)
}

// testSeveral: what cannot be changed is left out of the count, and of the trail.
func testSeveral(s *suite) {
	p, dead := s.bring(tasks.Dead)
	_, held := s.bring(tasks.InProgress)
	_, done := s.bring(tasks.Forwarded)
	n, err := s.Queue.Requeue(s.ctx, "ann", dead.ID, held.ID, done.ID, 1<<40)
	if n != 1 || err != nil {
		s.t.Fatalf("requeue: %d, %v; want 1", n, err)
	}
	s.has(held.ID)
	s.has(done.ID)
	s.stands(held.ID, tasks.InProgress)
	p.claimed(1, 1)
}
