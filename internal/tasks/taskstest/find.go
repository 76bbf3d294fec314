package taskstest

import (
	"fmt"
	"slices"
	"time"

	"postrider/internal/tasks"
)

var findTests = map[string]func(*suite){
	"search":               testSearch,
	"search/pages":         testSearchPages,
	"search/time":          testSearchTime,
	"history":              testHistory,
	"operator/why":         testWhy,
	"operator/inbox trail": testInboxTrail,
}

// search returns the UIDs of what a search in this inbox finds.
func (p place) search(q tasks.Search) (uids []uint32, found tasks.Found) {
	p.t.Helper()
	q.Inboxes, q.Limit = []int64{p.inbox}, max(q.Limit, 1)
	q.Examine = 1000
	found, err := p.Queue.Search(p.ctx, q)
	p.must("search", err)
	for _, t := range found.Tasks {
		uids = append(uids, t.UID)
	}
	return uids, found
}

func testSearch(s *suite) {
	p := s.place()
	one, two := s.msg(1, "Rechnung MÜLLER"), s.msg(2, "hearing", bob, "Eve@Example.com")
	two.Identity.Sender, two.Identity.MessageID = "clerk@court.example", "<Abc@court.example>"
	p.register(one, two, s.tooLarge(3, "c"), s.msg(4, "Odd  blanks\u00a0and\ta\r\n fold", bob))
	s.place().register(s.msg(1, "hearing elsewhere"))
	for _, c := range []struct {
		name string
		q    tasks.Search
		want []uint32
	}{
		{"everything, the newest first", tasks.Search{}, []uint32{4, 3, 2, 1}},
		{"subject in another case", tasks.Search{Subject: "müller"}, []uint32{1}},
		{"subject that is decomposed", tasks.Search{Text: "mu\u0308ller"}, []uint32{1}},
		{"subject as it is shown", tasks.Search{Subject: "odd blanks and a fold"}, []uint32{4}},
		{"subject as it was written", tasks.Search{Subject: "blanks\u00a0and\ta"}, []uint32{4}},
		{"text is a subject as it is shown", tasks.Search{Text: "odd blanks and a fold"}, []uint32{4}},
		{"sender", tasks.Search{Sender: "COURT"}, []uint32{2}},
		{"recipient", tasks.Search{Recipient: "eve@"}, []uint32{2}},
		{"Message-ID", tasks.Search{MessageID: "<abc@"}, []uint32{2}},
		{"text is a sender", tasks.Search{Text: "clerk"}, []uint32{2}},
		{"text is a recipient", tasks.Search{Text: "ANN@"}, []uint32{1}},
		{"text is a subject", tasks.Search{Text: "hear"}, []uint32{2}},
		{"text is a Message-ID", tasks.Search{Text: "abc@court"}, []uint32{2}},
		{"both have to match", tasks.Search{Text: "hear", Recipient: "ann"}, nil},
		{"wildcards are plain text", tasks.Search{Text: "%"}, nil},
		{"state", tasks.Search{Statuses: []tasks.Status{tasks.Skipped}}, []uint32{3}},
		{
			"state and text",
			tasks.Search{Statuses: []tasks.Status{tasks.Received, tasks.Dead}, Text: "rech"},
			[]uint32{1},
		},
	} {
		c.q.Limit = 10
		if got, _ := p.search(c.q); !slices.Equal(got, c.want) {
			s.t.Errorf("%s: UIDs %v, want %v", c.name, got, c.want)
		}
	}
	found, err := s.Queue.Search(s.ctx, tasks.Search{Recipient: "eve@", Limit: 1, Examine: 1000})
	s.must("search all inboxes", err)
	if len(found.Tasks) != 1 ||
		found.Tasks[0].InboxID != p.inbox && found.Tasks[0].Inbox == "" ||
		len(found.Tasks[0].Deliveries) < 1 {
		s.t.Errorf("in all inboxes found %+v; want a task with its inbox and deliveries", found.Tasks)
	}
	found, err = s.Queue.Search(s.ctx, tasks.Search{Inboxes: []int64{}, Limit: 1, Examine: 1000})
	if len(found.Tasks) > 0 || err != nil {
		s.t.Errorf("in no inbox found %v, %v; want nothing", found.Tasks, err)
	}
}

// testSearchPages: Next leads through all of them, each once.
func testSearchPages(s *suite) {
	p := s.place()
	p.fill(7)
	for _, text := range []string{"", "example.com"} {
		var all []uint32
		q := tasks.Search{Limit: 3, Text: text}
		for range 3 {
			uids, found := p.search(q)
			all = append(all, uids...)
			if q.Before = found.Next; q.Before == 0 {
				break
			}
		}
		if want := []uint32{7, 6, 5, 4, 3, 2, 1}; !slices.Equal(all, want) || q.Before != 0 {
			s.t.Errorf("text %q: the pages have the UIDs %v, "+
				"and the last one says that %d is next; want %v and nothing", text, all, q.Before, want)
		}
	}
}

// testSearchTime: old ones are found by time, also far behind the newest.
func testSearchTime(s *suite) {
	p := s.place()
	p.register(s.msg(1, "old"))
	s.Age(s.t, 72*time.Hour)
	p.register(s.msg(2, "new"), s.msg(3, "newer"))
	stats, err := s.Queue.Stats(s.ctx, []int64{p.inbox})
	s.must("stats", err)
	now := stats[p.inbox].Now
	yesterday := now.Add(-24 * time.Hour)
	for _, q := range []tasks.Search{
		{Until: now.Add(-10 * time.Minute), Limit: 5},
		{Since: now.Add(-80 * time.Hour), Until: yesterday, Limit: 5},
	} {
		if got, _ := p.search(q); !slices.Equal(got, []uint32{1}) {
			s.t.Errorf("from %s until %s: UIDs %v, want 1", q.Since, q.Until, got)
		}
	}
	if got, _ := p.search(tasks.Search{Since: now.Add(10 * time.Minute), Limit: 5}); got != nil {
		s.t.Errorf("since ten minutes ahead: UIDs %v, want none", got)
	}
	if got, _ := p.search(tasks.Search{Since: yesterday, Limit: 5}); !slices.Equal(got, []uint32{3, 2}) {
		s.t.Errorf("since yesterday: UIDs %v, want 3 and 2", got)
	}
	if got, _ := p.search(tasks.Search{Until: yesterday, Limit: 5}); !slices.Equal(got, []uint32{1}) {
		s.t.Errorf("until yesterday: UIDs %v, want 1", got)
	}
}

func testHistory(s *suite) {
	p := s.place()
	p.register(s.msg(1, "a"), s.msg(2, "b"), s.tooLarge(3, "c"), s.msg(4, "d"))
	s.finish(p.claimed(1, 1)[0], tasks.Forwarded)
	s.finish(p.claimed(1, 2)[0], tasks.Forwarded)
	stats, err := s.Queue.Stats(s.ctx, []int64{p.inbox})
	s.must("stats", err)
	now := stats[p.inbox].Now
	count := func(since time.Time) string {
		n := map[tasks.Status]int{}
		hours, err := s.Queue.History(s.ctx, []int64{p.inbox}, since)
		s.must("history", err)
		for _, h := range hours {
			if h.Hour.Truncate(time.Hour) != h.Hour || h.Hour.After(now) || now.Sub(h.Hour) > 2*time.Hour {
				s.t.Errorf("counted for %s; want the beginning of this hour", h.Hour)
			}
			n[h.Status] += h.N
		}
		return fmt.Sprint(n)
	}
	if got, want := count(now.AddDate(0, 0, -30)), "map[forwarded:2 skipped:1]"; got != want {
		s.t.Errorf("the last 30 days: %s, want %s", got, want)
	}
	if got := count(now.Add(2 * time.Hour)); got != "map[]" {
		s.t.Errorf("from the next hours: %s, want nothing", got)
	}
}

// testWhy: the trail says who, and why if that is given.
func testWhy(s *suite) {
	_, id := s.unknownOutcome()
	_, err := s.Queue.Skip(s.ctx, tasks.By{Who: "ann", Why: "she has it on paper"}, id)
	s.must("skip", err)
	trail, err := s.Queue.Events(s.ctx, id)
	s.must("events", err)
	last := trail[len(trail)-1]
	if last.Worker != "ann" || last.Detail != "by an operator: she has it on paper" {
		s.t.Errorf("the trail says %q by %q; want the reason, by ann", last.Detail, last.Worker)
	}
	if got := s.get(id).Reason; got != "by_operator: ann: she has it on paper" {
		s.t.Errorf("the reason of the task is %q; want ann and hers", got)
	}
}

// testInboxTrail: an inbox that is disabled twice has one line about it.
func testInboxTrail(s *suite) {
	p := s.place()
	s.place().disable()
	for range 2 {
		s.must("disable", s.Queue.Disable(s.ctx, tasks.By{Who: "ann", Why: "spam"}, p.inbox))
	}
	trail, err := s.Queue.InboxEvents(s.ctx, p.inbox, 10)
	s.must("events of the inbox", err)
	if len(trail) != 1 || trail[0].Worker != "ann" || trail[0].Event != "disabled" ||
		trail[0].Detail != "by an operator: spam" || trail[0].At.IsZero() {
		s.t.Errorf("the trail of the inbox is %+v; want one line: disabled, by ann, with the reason", trail)
	}
}
