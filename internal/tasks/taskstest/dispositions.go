package taskstest

import (
	"reflect"

	"postrider/internal/tasks"
)

var dispositionTests = map[string]func(*suite){
	"dispositions":               testDispositions,
	"dispositions/range":         testDispositionsRange,
	"dispositions/another epoch": testDispositionsEpoch,
	"dispositions/many":          testDispositionsMany,
}

// disposed checks how the messages of the folder are accounted for, but for when deliveries were made.
func (p place) disposed(want []tasks.Disposition) {
	p.t.Helper()
	p.disposedIn(0, 1<<32-1, want)
}

func (p place) disposedIn(from, to uint32, want []tasks.Disposition) {
	p.t.Helper()
	got, err := p.Queue.Dispositions(p.ctx, p.folder, p.epoch, from, to)
	p.must("dispositions", err)
	same := len(got) == len(want)
	for i := range got {
		if same {
			same = sameDeliveries(got[i].Deliveries, want[i].Deliveries)
			got[i].Deliveries, want[i].Deliveries = nil, nil
			same = same && reflect.DeepEqual(got[i], want[i])
		}
	}
	if !same {
		p.t.Errorf("the UIDs from %d to %d are accounted for as\n%+v, want\n%+v", from, to, got, want)
	}
}

// testDispositions: there before the start, in every state, and purged in every state that allows it.
func testDispositions(s *suite) {
	ds := []tasks.Delivery{{Recipient: "bob@example.com", Status: tasks.Pending, Code: 451, Reply: "later", Attempts: 1}}
	for _, status := range tasks.Statuses {
		for _, purge := range []bool{false, true} {
			p := s.place()
			s.must("baseline", s.Queue.Baseline(s.ctx, p.page(s.unread(2, "before", ""))))
			id := p.register(s.msg(4, "m"))[0].TaskID
			want := tasks.Disposition{UID: 4, TaskID: id, Status: status}
			if status != tasks.Received {
				c := p.claimed(1, 4)[0]
				if status != tasks.InProgress {
					want.Reason, want.Deliveries = "why", ds
					s.must("finish", s.Queue.Finish(s.ctx, c.Receipt, tasks.Result{Status: status, Route: "desk", Reason: "why", Deliveries: ds}))
				}
			}
			if purge {
				n, err := s.Queue.Purge(s.ctx, "ann", id)
				s.must("purge", err)
				if n == 1 {
					want.Purged, want.Reason, want.Deliveries = true, "", nil
				}
			}
			p.disposed([]tasks.Disposition{{UID: 2}, want})
		}
	}
	p := s.place()
	c := p.finished(tasks.Result{Status: tasks.Forwarded, Route: "desk"})
	p.purge()
	p.disposed([]tasks.Disposition{{UID: 1, TaskID: c.ID, Status: tasks.Forwarded, Purged: true}})
	p = s.place()
	c = p.finished(vanished)
	p.disposed([]tasks.Disposition{{UID: 1, TaskID: c.ID, Status: tasks.Skipped, Reason: "vanished: expunged"}})
	s.purged(c.ID)
	p.disposed([]tasks.Disposition{{UID: 1, TaskID: c.ID, Status: tasks.Skipped, Purged: true}})
}

// testDispositionsRange: both ends belong to the range, the order is that of the UIDs, other folders are not in it.
func testDispositionsRange(s *suite) {
	p := s.place()
	regs := p.register(s.msg(9, "i"), s.msg(1<<32-1, "last"), s.msg(3, "c"), s.msg(7, "g"))
	p.beside("Junk").register(s.msg(5, "e"))
	at := func(i int) tasks.Disposition {
		return tasks.Disposition{UID: regs[i].UID, TaskID: regs[i].TaskID, Status: tasks.Received}
	}
	p.disposed([]tasks.Disposition{at(2), at(3), at(0), at(1)})
	p.disposedIn(3, 9, []tasks.Disposition{at(2), at(3), at(0)})
	p.disposedIn(4, 8, []tasks.Disposition{at(3)})
	p.disposedIn(7, 7, []tasks.Disposition{at(3)})
	p.disposedIn(4, 6, nil)
	p.disposedIn(9, 3, nil)
}

// testDispositionsEpoch: what moved here is accounted for here, as its task stands; what did not is missing.
func testDispositionsEpoch(s *suite) {
	p := s.place()
	regs := p.register(s.msg(1, "a"), s.msg(2, "b"), s.msg(3, "c"))
	p.finishAll(tasks.Forwarded)
	s.purged(regs[1].TaskID)
	p = p.anew()
	p.disposed(nil)
	p.fates([]tasks.Entry{s.msg(5, "b"), s.msg(6, "a")}, tasks.Known, tasks.Moved)
	p.disposed([]tasks.Disposition{
		{UID: 5, TaskID: regs[1].TaskID, Status: tasks.Forwarded, Purged: true},
		{UID: 6, TaskID: regs[0].TaskID, Status: tasks.Forwarded},
	})
}

// testDispositionsMany: more than a query has room for.
func testDispositionsMany(s *suite) {
	p := s.place()
	p.fill(1100)
	p.finishAll(tasks.Forwarded)
	got, err := s.Queue.Dispositions(s.ctx, p.folder, p.epoch, 1, 2000)
	s.must("dispositions", err)
	forwarded := 0
	for i, d := range got {
		if d.UID != uint32(i+1) || d.Purged {
			s.t.Fatalf("disposition %d is %+v; want the UIDs one by one, by their tasks", i, d)
		}
		if d.Status == tasks.Forwarded {
			forwarded++
		}
	}
	if len(got) != 1100 || forwarded != 100 {
		s.t.Errorf("%d dispositions, %d forwarded; want 1100 and 100", len(got), forwarded)
	}
}
