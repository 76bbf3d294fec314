package taskstest

import (
	"reflect"

	"postrider/internal/tasks"
)

var fenceTests = map[string]func(*suite){
	"fence/scan lost": testFence,
	"fence/dry run":   testFenceDryRun,
}

// testFence: whoever has lost the scan of an inbox changes nothing any more, be it late or ahead of its time.
func testFence(s *suite) {
	p := s.place()
	id := p.register(s.msg(3, "c"))[0].TaskID
	s.TakeOver(s.t, p.inbox)
	token := s.TakeOver(s.t, p.inbox)
	p = p.anew() // so that a page has something to move
	page := p.page(s.msg(4, "c"), s.msg(5, "e"), s.unread(6, "f", "too_large"))
	before := s.record(id)
	for _, stale := range []int64{0, token - 1, token + 1} {
		page.ScanToken = stale
		_, err := s.Queue.Register(s.ctx, page)
		s.wantErr("register without the scan", err, tasks.ErrScanLost)
		s.wantErr("baseline without the scan", s.Queue.Baseline(s.ctx, page), tasks.ErrScanLost)
	}
	if after := s.record(id); !reflect.DeepEqual(after, before) {
		s.t.Errorf("without the scan, a page changed the task from\n%+v to\n%+v", before, after)
	}
	if cursor, baseline := s.Cursor(s.t, p.folder); cursor != 0 || baseline != 0 {
		s.t.Errorf("cursor %d, baseline %d; want both where they were, at 0", cursor, baseline)
	}
	if uids := p.list(tasks.Filter{}); len(uids) != 1 {
		s.t.Errorf("without the scan, the messages %v are registered; want none but the first, 3", uids)
	}
	unseen, err := s.Queue.Unseen(s.ctx, p.folder, p.epoch, []uint32{4, 5, 6})
	if err != nil || len(unseen) != 3 {
		s.t.Errorf("unseen %v, %v; want all three: nothing was noted", unseen, err)
	}
	page.ScanToken = token
	regs, err := s.Queue.Register(s.ctx, page)
	s.must("register with the scan", err)
	if regs[0].Fate != tasks.Moved || regs[1].Fate != tasks.New || regs[2].Fate != tasks.SkippedAt {
		s.t.Errorf("with the scan: %v; want one moved, one new, one skipped", regs)
	}
	s.must("baseline with the scan", s.Queue.Baseline(s.ctx, page))
}

// testFenceDryRun: what changes nothing needs no scan.
func testFenceDryRun(s *suite) {
	p := s.place()
	s.TakeOver(s.t, p.inbox)
	page := p.page(s.msg(1, "a"))
	page.DryRun = true
	regs, err := s.Queue.Register(s.ctx, page)
	if err != nil || len(regs) != 1 || regs[0].Fate != tasks.New {
		s.t.Errorf("dry run without the scan: %v, %v; want one that would be new", regs, err)
	}
}
