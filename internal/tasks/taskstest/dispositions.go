package taskstest

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"time"

	"postrider/internal/tasks"
)

var dispositionTests = map[string]func(*suite){
	"dispositions":               testDispositions,
	"dispositions/range":         testDispositionsRange,
	"dispositions/another epoch": testDispositionsEpoch,
	"dispositions/many":          testDispositionsMany,
	"left behind":                testLeftBehind,
	"left behind/portions":       testLeftBehindPortions,
	"forget":                     testForget,
}

// disposed checks how the messages of the folder are accounted for, but for when deliveries were
// made. Times are those of the task.
func (p place) disposed(want []tasks.Disposition) {
	p.t.Helper()
	p.disposedIn(0, 1<<32-1, want)
	highest := uint32(0)
	if n := len(want); n > 0 {
		highest = want[n-1].UID
	}
	got, err := p.Queue.Highest(p.ctx, p.folder, p.epoch)
	p.must("highest", err)
	if got != highest {
		p.t.Errorf("UID %d is said to be the highest that is accounted for, want %d", got, highest)
	}
}

func (p place) disposedIn(from, to uint32, want []tasks.Disposition) {
	p.t.Helper()
	got, err := p.Queue.Dispositions(p.ctx, p.folder, p.epoch, from, to)
	p.must("dispositions", err)
	same := len(got) == len(want)
	for i := range got {
		t, err := p.Queue.Get(p.ctx, got[i].TaskID)
		if err == nil && (!got[i].QueuedAt.Equal(t.QueuedAt) || !reflect.DeepEqual(got[i].VisibleAt, t.VisibleAt)) {
			p.t.Errorf("UID %d waits since %v until %v, want %v and %v as its task does",
				got[i].UID, got[i].QueuedAt, got[i].VisibleAt, t.QueuedAt, t.VisibleAt)
		}
		if got[i].Noted.UID != got[i].UID {
			p.t.Errorf("UID %d is noted as UID %d", got[i].UID, got[i].Noted.UID)
		}
		got[i].QueuedAt, got[i].VisibleAt, got[i].Noted = time.Time{}, nil, tasks.Noted{}
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

// testDispositions: there before the start, in every state, and purged in every state that allows
// it.
func testDispositions(s *suite) {
	for _, status := range tasks.Statuses {
		for _, purge := range []bool{false, true} {
			p := s.place()
			s.must("baseline", s.Queue.Baseline(s.ctx, p.page(s.unread(2, "before"))))
			id := p.added(s.msg(4, "m"))
			if status != tasks.Received {
				c := p.claimed(1, 4)[0]
				if status != tasks.InProgress {
					s.finish(c, status)
				}
			}
			t := s.get(id)
			want := tasks.Disposition{
				UID: 4, TaskID: id, Status: status, Skip: t.Skip, Reason: t.Reason, Mode: t.Form.Mode,
				Deliveries: t.Deliveries,
			}
			if purge {
				n, err := s.Queue.Purge(s.ctx, operatorAnn, id)
				s.must("purge", err)
				if n == 1 {
					want = tasks.Disposition{UID: 4, TaskID: id, Status: status, Purged: true}
				}
			}
			p.disposed([]tasks.Disposition{{UID: 2}, want})
		}
	}
	p := s.place()
	id := p.finished(tasks.Forwarded).Task.ID
	p.purgeForwarded()
	p.disposed([]tasks.Disposition{{UID: 1, TaskID: id, Status: tasks.Forwarded, Purged: true}})
	p = s.place()
	id = p.vanished().Task.ID
	p.disposed([]tasks.Disposition{{
		UID: 1, TaskID: id, Status: tasks.Skipped, Skip: tasks.SkipVanished, Reason: "vanished: expunged",
		Deliveries: []tasks.Delivery{{Recipient: ann, Status: tasks.Pending}},
	}})
	s.purge(id)
	p.disposed([]tasks.Disposition{{UID: 1, TaskID: id, Status: tasks.Skipped, Skip: tasks.SkipVanished, Purged: true}})
}

// testDispositionsRange: both ends belong to the range, the order is that of the UIDs, other
// folders are not in it.
func testDispositionsRange(s *suite) {
	p := s.place()
	regs := p.register(s.undecided(9, "i"), s.undecided(1<<32-1, "last"), s.undecided(3, "c"), s.undecided(7, "g"))
	p.beside("Junk").register(s.undecided(5, "e"))
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

// testDispositionsEpoch: what moved here is accounted for here, by its task's status; what did not
// is missing.
func testDispositionsEpoch(s *suite) {
	p := s.place()
	regs := p.register(s.msg(1, "a"), s.msg(2, "b"), s.msg(3, "c"))
	p.work()
	s.purge(regs[1].TaskID)
	p = p.renewed()
	p.disposed(nil)
	p.became([]tasks.Entry{s.msg(5, "b"), s.msg(6, "a")}, "known", "moved")
	moved := s.get(regs[0].TaskID)
	p.disposed([]tasks.Disposition{
		{UID: 5, TaskID: regs[1].TaskID, Status: tasks.Forwarded, Purged: true},
		{UID: 6, TaskID: moved.ID, Status: tasks.Forwarded, Mode: moved.Form.Mode, Deliveries: moved.Deliveries},
	})
}

// testDispositionsMany: more than a query has room for.
func testDispositionsMany(s *suite) {
	p := s.place()
	p.fill(1100)
	for _, c := range p.receive(100) {
		s.finish(c, tasks.Forwarded)
	}
	got, err := s.Queue.Dispositions(s.ctx, p.folder, p.epoch, 1, 2000)
	s.must("dispositions", err)
	forwarded := 0
	for i, d := range got {
		if d.UID != uint32(i+1) || d.Purged || len(d.Deliveries) != 1 {
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

// left lists what a folder left behind in epochs before that one.
func (p place) left(before int64) []string {
	p.t.Helper()
	var out []string
	p.must("left behind", p.Queue.LeftBehind(p.ctx, p.folder, before, func(epoch int64, d tasks.Disposition) error {
		out = append(out, fmt.Sprintf("%d/%d task %d %s purged %t to %d",
			epoch, d.UID, d.TaskID, d.Status, d.Purged, len(d.Deliveries)))
		return nil
	}))
	return out
}

// testLeftBehind: tasks of older epochs, with where they were seen last; not those that were found
// again, there or purged.
func testLeftBehind(s *suite) {
	p := s.place()
	s.must("baseline", s.Queue.Baseline(s.ctx, p.page(s.unread(1, "before"))))
	regs := p.register(s.msg(2, "found", ann, bob), s.msg(3, "lost sight of", ann, bob), s.msg(4, "purged and found"),
		s.msg(5, "purged"), s.undecided(6, "found later"))
	for _, c := range p.claimed(4, 2, 3, 4, 5) {
		s.finish(c, tasks.Forwarded)
	}
	p.beside("Junk").register(s.msg(7, "elsewhere"))
	s.purge(regs[2].TaskID)
	s.purge(regs[3].TaskID)
	line := func(epoch int64, i int, status tasks.Status, purged bool, to int) string {
		return fmt.Sprintf("%d/%d task %d %s purged %t to %d", epoch, regs[i].UID, regs[i].TaskID, status, purged, to)
	}
	all := []string{
		line(p.epoch, 0, tasks.Forwarded, false, 2),
		line(p.epoch, 1, tasks.Forwarded, false, 2),
		line(p.epoch, 2, tasks.Forwarded, true, 0),
		line(p.epoch, 3, tasks.Forwarded, true, 0),
		line(p.epoch, 4, tasks.Received, false, 0),
	}
	wantLines(s, "of the epoch itself", p.left(p.epoch), nil)
	wantLines(s, "of an epoch that has just ended", p.left(p.epoch+1), all)
	p = p.renewed()
	p.became([]tasks.Entry{s.msg(12, "found"), s.msg(14, "purged and found")}, "moved", "known")
	wantLines(s, "after two were found again", p.left(p.epoch), []string{all[1], all[3], all[4]})
	p = p.renewed()
	p.became([]tasks.Entry{s.msg(22, "found"), s.msg(26, "found later")}, "moved", "moved")
	wantLines(s, "after two epochs", p.left(p.epoch), []string{
		all[1], all[3], fmt.Sprintf("%d/14 task %d forwarded purged true to 0", p.epoch-1, regs[2].TaskID),
	})
	stop := errors.New("enough")
	err := s.Queue.LeftBehind(s.ctx, p.folder, p.epoch, func(int64, tasks.Disposition) error { return stop })
	if !errors.Is(err, stop) {
		s.t.Errorf("error %v, want the callback's", err)
	}
}

func wantLines(s *suite, what string, got, want []string) {
	s.t.Helper()
	if !slices.Equal(got, want) {
		s.t.Errorf("left behind %s:\n%q, want\n%q", what, got, want)
	}
}

// testLeftBehindPortions: more than a query has room for, of which many were found again.
func testLeftBehindPortions(s *suite) {
	p := s.place()
	p.fill(5000)
	p = p.renewed()
	var again []tasks.Entry
	for i := range 2500 {
		again = append(again, s.msg(uint32(i+1), fmt.Sprint("fill", i)))
	}
	p.register(again...)
	var uids []uint32
	s.must("left behind", s.Queue.LeftBehind(s.ctx, p.folder, p.epoch, func(_ int64, d tasks.Disposition) error {
		uids = append(uids, d.UID)
		return nil
	}))
	if len(uids) != 2500 || uids[0] != 2501 || !slices.IsSorted(uids) {
		s.t.Errorf("%d UIDs are left behind, from %v on; want 2500 from 2501 on, in order",
			len(uids), uids[:min(len(uids), 1)])
	}
}

// testForget: what the queue itself knows is not forgotten, in whatever state.
func testForget(s *suite) {
	for _, status := range tasks.Statuses {
		p, c := s.bring(status)
		before := s.record(c.Task.ID)
		if n, err := s.Queue.Forget(s.ctx, "ann", p.folder, p.epoch, 1, 99); n != 0 || err != nil {
			s.t.Errorf("forget a task that is %s: %d, %v; want 0", status, n, err)
		}
		if after := s.record(c.Task.ID); !reflect.DeepEqual(after, before) {
			s.t.Errorf("forgetting changed a task that was %s from\n%+v to\n%+v", status, before, after)
		}
		p.became([]tasks.Entry{s.msg(1, "again")}, "known")
	}
	p, c := s.bring(tasks.Forwarded)
	p.purgeForwarded()
	if n, err := s.Queue.Forget(s.ctx, "ann", p.folder, p.epoch, 1); n != 0 || err != nil {
		s.t.Errorf("forget a task that was purged: %d, %v; want 0", n, err)
	}
	p.disposed([]tasks.Disposition{{UID: 1, TaskID: c.Task.ID, Status: tasks.Forwarded, Purged: true}})
}
