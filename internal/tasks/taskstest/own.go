package taskstest

import (
	"fmt"
	"time"

	"postrider/internal/tasks"
)

var ownTests = map[string]func(*suite){
	"own/scopes":         testScopes,
	"own/within a page":  testWithinPage,
	"own/state of owner": testOwnerStates,
	"own/settled":        testSettled,
}

// testScopes registers a message, and an equal one elsewhere.
func testScopes(s *suite) {
	for _, c := range []struct {
		dedupe tasks.Dedupe
		where  string
		want   string
	}{
		{tasks.DedupeInbox, "same folder", "waits"},
		{tasks.DedupeInbox, "same inbox", "waits"},
		{tasks.DedupeInbox, "other inbox", "new"},
		{tasks.DedupeAll, "same folder", "waits"},
		{tasks.DedupeAll, "same inbox", "waits"},
		{tasks.DedupeAll, "other inbox", "waits"},
		{tasks.DedupeOff, "same folder", "new"},
		{tasks.DedupeOff, "same inbox", "new"},
		{tasks.DedupeOff, "other inbox", "new"},
	} {
		here, other := s.place().under(c.dedupe), s.place().under(c.dedupe)
		there := map[string]place{"same folder": here, "same inbox": here.beside("Junk"), "other inbox": other}[c.where]
		content := fmt.Sprint(c)
		here.became([]tasks.Entry{s.msg(1, content)}, "new")
		there.became([]tasks.Entry{s.msg(2, content)}, c.want)
		sent := here.work()
		if here.inbox != there.inbox {
			sent += there.work()
		}
		if want := map[string]int{"waits": 1, "new": 2}[c.want]; sent != want {
			s.t.Errorf("dedupe %s, an equal message in the %s: sent %d times, want %d", c.dedupe, c.where, sent, want)
		}
		if c.want == "waits" {
			there.became([]tasks.Entry{s.msg(3, content)}, "duplicate")
		}
	}
}

// testWithinPage: equal messages of one page are registered in their order.
func testWithinPage(s *suite) {
	entries := []tasks.Entry{s.msg(1, "a"), s.msg(2, "b"), s.msg(3, "a"), s.msg(4, "a")}
	p := s.place()
	regs := p.became(entries, "new", "new", "waits", "waits")
	for _, r := range regs[2:] {
		got := s.get(r.TaskID)
		if due := got.VisibleAt.Sub(p.now()); due < tasks.WaitRecheck-30*time.Second || due > tasks.WaitRecheck {
			s.t.Errorf("what waits is due in %v, want %v", due, tasks.WaitRecheck)
		}
		if want := fmt.Sprintf("waits: the same message is task %d", regs[0].TaskID); got.Reason != want {
			s.t.Errorf("reason %q, want %q", got.Reason, want)
		}
		s.recipients(r.TaskID, "ann waits for %d", regs[0].TaskID)
	}
	p.claimed(10, 1, 2)
	off := s.place().under(tasks.DedupeOff)
	off.became(entries, "new", "new", "new", "new")
}

// testOwnerStates registers a message equal to one whose task has come to stand somewhere.
func testOwnerStates(s *suite) {
	want := map[tasks.Status]string{
		tasks.Received: "waits", tasks.InProgress: "waits", tasks.Error: "waits", tasks.Uncertain: "waits",
		tasks.Forwarded: "duplicate",
		tasks.Dead:      "new", tasks.Skipped: "new", tasks.SkippedNoMatch: "new", // no one got it
	}
	for _, status := range tasks.Statuses {
		p := s.place()
		owner := p.added(s.msg(1, "m"))
		if status != tasks.Received {
			c := p.claimed(1, 1)[0]
			if status == tasks.SkippedNoMatch {
				_, err := s.Queue.Reserve(s.ctx, c.Receipt, tasks.Reservation{
					Decision: &tasks.Decision{Reason: "no one"}, Revision: revision, Dedupe: p.dedupe,
				})
				s.must("reserve", err)
				c.Task = s.get(c.Task.ID)
			}
			if status != tasks.InProgress {
				s.finish(c, status)
			}
		}
		id := p.became([]tasks.Entry{s.msg(9, "m")}, want[status])[0].TaskID
		is := map[string]string{
			"waits":     fmt.Sprintf("ann waits for %d", owner),
			"new":       "ann pending",
			"duplicate": fmt.Sprintf("ann duplicate of %d", owner),
		}[want[status]]
		s.recipients(id, "%s", is)
	}
}

// testSettled: once the owner's delivery is settled, a waiting task is due at once: it is a
// duplicate, or takes the recipient.
func testSettled(s *suite) {
	delivered, given := "ann duplicate of %d", "ann pending"
	finish := func(status tasks.Status) func(p place, c tasks.Claim) {
		return func(_ place, c tasks.Claim) { s.finish(c, status) }
	}
	for _, c := range []struct {
		name   string
		settle func(p place, c tasks.Claim)
		want   string
	}{
		{"delivered", finish(tasks.Forwarded), delivered},
		{"delivered, and others are not", func(_ place, c tasks.Claim) {
			res := ending(c, tasks.Error)
			res.Deliveries[0].Status = tasks.Delivered
			s.must("finish", s.Queue.Finish(s.ctx, c.Receipt, res))
		}, delivered},
		{"delivered and released", func(_ place, c tasks.Claim) {
			ds := []tasks.Delivery{{Recipient: ann, Status: tasks.Delivered}}
			s.must("release", s.Queue.Release(s.ctx, c, "the relay is down", time.Hour, ds))
		}, delivered},
		{"refused", finish(tasks.Dead), given},
		{"refused, and others are not", func(_ place, c tasks.Claim) {
			res := ending(c, tasks.Error)
			res.Deliveries[0].Status = tasks.Failed
			s.must("finish", s.Queue.Finish(s.ctx, c.Receipt, res))
		}, given},
		{"refused and released", func(_ place, c tasks.Claim) {
			ds := []tasks.Delivery{{Recipient: ann, Status: tasks.Failed}}
			s.must("release", s.Queue.Release(s.ctx, c, "the relay is down", time.Hour, ds))
		}, given},
		{"given up", func(_ place, c tasks.Claim) {
			c.Task.Attempts = policy().MaxAttempts
			res := policy().Fail(c.Task, c.At, c.Task.Deliveries, errNone)
			s.must("finish", s.Queue.Finish(s.ctx, c.Receipt, res))
		}, given},
		{"crashed its workers", func(p place, _ tasks.Claim) {
			s.Age(s.t, lease+time.Second)
			want := p.want(1)
			want.MaxLostLeases = 0
			claims, err := s.Queue.Receive(s.ctx, want)
			s.must("receive", err)
			for _, c := range claims { // the one that waited
				s.must("release", s.Queue.Release(s.ctx, c, "", 0, nil))
			}
		}, given},
		{"vanished", func(_ place, c tasks.Claim) { s.vanish(c) }, given},
		{"skipped by a route", finish(tasks.Skipped), given},
		{"no longer a recipient", func(p place, c tasks.Claim) { p.reserve(c, []string{bob}, "bob pending") }, given},
		{"disabled", func(p place, _ tasks.Claim) { p.disable() }, given},
		{"removed", func(p place, _ tasks.Claim) { p.remove() }, given},
		{"skipped by an operator", func(_ place, c tasks.Claim) {
			s.finish(c, tasks.Error)
			s.skip(c.Task.ID)
		}, delivered},
		{"skipped by an operator, and purged", func(_ place, c tasks.Claim) {
			s.finish(c, tasks.Error)
			s.skip(c.Task.ID)
			s.purge(c.Task.ID)
		}, delivered},
		{"given up with an unknown outcome, and resolved", func(_ place, c tasks.Claim) {
			c.Task.Attempts = policy().MaxAttempts
			ds := ending(c, tasks.Uncertain).Deliveries
			s.must("finish", s.Queue.Finish(s.ctx, c.Receipt, policy().Settle(c.Task, c.At, ds)))
			if n, err := s.Queue.Purge(s.ctx, operatorAnn, c.Task.ID); n != 0 || err != nil {
				s.t.Errorf("Purge = %d, %v; want the task to stay until it is resolved", n, err)
			}
			s.resolve(c.Task.ID)
		}, delivered},
		{"resolved", func(_ place, c tasks.Claim) { s.finish(c, tasks.Uncertain); s.resolve(c.Task.ID) }, delivered},
	} {
		both := s.places(2)
		p, q := both[0], both[1]
		p.register(s.msg(1, c.name, ann, bob))
		owner := p.claimed(1, 1)[0]
		id := q.became([]tasks.Entry{s.msg(1, c.name)}, "waits")[0].TaskID
		q.claimed(10)
		c.settle(p, owner)
		waiting := q.receive(10)
		if len(waiting) != 1 || waiting[0].Task.ID != id {
			s.t.Errorf("%s: claimed %d tasks; want the one that waited", c.name, len(waiting))
			continue
		}
		want := c.want
		if want == delivered {
			want = fmt.Sprintf(want, owner.Task.ID)
		}
		q.reserve(waiting[0], nil, want)
	}
}
