package taskstest

import (
	"reflect"
	"slices"
	"strings"
	"time"

	"postrider/internal/tasks"
)

var registerTests = map[string]func(*suite){
	"register/once":         testRegisterOnce,
	"register/all it knows": testRegisterFields,
	"register/decisions":    testRegisterDecisions,
	"register/cursor":       testCursor,
	"register/other epoch":  testEpochChanged,
	"register/dry run":      testDryRun,
	"register/hostile text": testHostileText,
	"register/known only":   testKnownOnly,
	"unseen":                testUnseen,
	"unregistered":          testUnregistered,
	"baseline":              testBaseline,
	"fence/scan lost":       testFence,
	"fence/dry run":         testFenceDryRun,
}

func testRegisterOnce(s *suite) {
	p := s.place()
	page := []tasks.Entry{s.msg(1, "a"), s.msg(2, "b"), s.msg(5, "c")}
	first := p.became(page, "new", "new", "new")
	again := p.became(append(page, s.msg(6, "d")), "known", "known", "known", "new")
	for i, r := range first {
		if again[i].TaskID != r.TaskID || r.TaskID == 0 {
			s.t.Errorf("UID %d: task %d, and %d when registered again; want one task", r.UID, r.TaskID, again[i].TaskID)
		}
	}
	p.claimed(10, 1, 2, 5, 6)
}

func testRegisterFields(s *suite) {
	p := s.place()
	e := s.msg(4_294_967_295, "a", bob, "Ann@example.com", ann)
	e.Identity.Date = time.Date(2026, 3, 1, 12, 30, 0, 123456000, time.FixedZone("", 3600))
	e.Identity.Subject = "Grüße 日本 \U0001F600"
	e.Mode = "notice"
	e.Decision.Priority, e.Decision.Route = tasks.High, "desk+court"
	id := p.added(e)
	got := s.stands(id, tasks.Received)
	if got.VisibleAt == nil || got.QueuedAt.IsZero() ||
		!got.CreatedAt.Equal(got.QueuedAt) || !got.VisibleAt.Equal(got.CreatedAt) {
		s.t.Errorf("times of a new task: visible %v, queued %v, created %v; want one moment",
			got.VisibleAt, got.QueuedAt, got.CreatedAt)
	}
	if !got.Identity.Date.Equal(e.Identity.Date) {
		s.t.Errorf("date %v, want %v to the microsecond", got.Identity.Date, e.Identity.Date)
	}
	if got.Folder != "INBOX" || !strings.HasSuffix(got.Inbox, "@example.com") {
		s.t.Errorf("inbox %q, folder %q; want their names", got.Inbox, got.Folder)
	}
	got.CreatedAt, got.QueuedAt, got.UpdatedAt, got.VisibleAt = time.Time{}, time.Time{}, time.Time{}, nil
	got.Identity.Date, e.Identity.Date, got.Inbox, got.Folder = time.Time{}, time.Time{}, "", ""
	want := tasks.Task{
		ID: id, InboxID: p.inbox, FolderID: p.folder, Epoch: p.epoch, UID: e.UID, Identity: e.Identity, Read: true,
		Revision: revision, Route: "desk+court", Form: tasks.Form{Mode: "notice"},
		Priority: tasks.High, Status: tasks.Received,
		Deliveries: []tasks.Delivery{
			{Recipient: "Ann@example.com", Status: tasks.Pending},
			{Recipient: ann, Status: tasks.Pending},
			{Recipient: bob, Status: tasks.Pending},
		},
	}
	if !reflect.DeepEqual(got, want) {
		s.t.Errorf("the task reads\n%+v, want\n%+v", got, want)
	}
}

// testRegisterDecisions: a decision says where the task begins, and its notes are in the trail.
func testRegisterDecisions(s *suite) {
	note := []tasks.Note{{Event: "left_out", Detail: eve}}
	left := []string{"left_out"}
	for _, c := range []struct {
		name     string
		decision *tasks.Decision
		status   tasks.Status
		events   []string
	}{
		{
			"recipients",
			&tasks.Decision{Revision: revision, Route: "desk", Recipients: []string{ann}, Notes: note},
			tasks.Received, left,
		},
		{
			"recipients, and another one",
			&tasks.Decision{Revision: revision, Route: "desk", Recipients: []string{ann}, Keep: tasks.KeepOwnCopy},
			tasks.Received, nil,
		},
		{"not decided", nil, tasks.Received, nil},
		{
			"no recipient",
			&tasks.Decision{Revision: revision, Route: "desk", Reason: "no one", Notes: note},
			tasks.SkippedNoMatch, left,
		},
		{
			"undecided",
			&tasks.Decision{Revision: revision, Keep: tasks.KeepUndecided, Reason: "no route matches; one may"},
			tasks.SkippedNoMatch, nil,
		},
		{
			"skipped",
			&tasks.Decision{Revision: revision, Skip: tasks.SkipByRoute, Reason: "by_route: list"},
			tasks.Skipped, nil,
		},
		{
			"skipped, with recipients",
			&tasks.Decision{Revision: revision, Skip: tasks.SkipLoop, Reason: "loop", Recipients: []string{ann}},
			tasks.Skipped, nil,
		},
	} {
		p := s.place()
		e := s.undecided(1, c.name)
		e.Decision = c.decision
		r := p.register(e)[0]
		got := s.stands(r.TaskID, c.status)
		want := tasks.Decision{}
		if c.decision != nil {
			want = *c.decision
		}
		if r.Fate != tasks.New || r.Status != c.status || r.Skip != want.Skip {
			s.t.Errorf("%s: %+v; want it new, %s, for the reason %q", c.name, r, c.status, want.Skip)
		}
		if got.Revision != want.Revision || got.Route != want.Route ||
			got.Skip != want.Skip || got.Reason != want.Reason || got.Keep != want.Keep {
			s.t.Errorf("%s: the task is %+v; want it as it was decided, %+v", c.name, got, want)
		}
		if to := len(want.Recipients); c.status == tasks.Received && len(got.Deliveries) != to ||
			c.status != tasks.Received && len(got.Deliveries) != 0 {
			s.t.Errorf("%s: deliveries %+v; want %d, and none of what no one gets", c.name, got.Deliveries, to)
		}
		s.has(r.TaskID, c.events...)
		if c.status != tasks.Received {
			p.claimed(10)
		}
		p.became([]tasks.Entry{e}, "known")
	}
}

func testCursor(s *suite) {
	p := s.place()
	for _, step := range []struct{ cursor, want uint32 }{
		{0, 0}, {9, 9}, {4, 9}, {9, 9}, {4_294_967_295, 4_294_967_295},
	} {
		page := p.page()
		page.Cursor = step.cursor
		_, err := s.Queue.Register(s.ctx, page)
		s.must("register", err)
		if got, _ := s.Cursor(s.t, p.folder); got != step.want {
			s.t.Errorf("a page up to %d: the cursor is %d, want %d", step.cursor, got, step.want)
		}
	}
}

func testEpochChanged(s *suite) {
	p := s.place()
	old := p
	p = p.renewed()
	_, err := s.Queue.Register(s.ctx, old.page(s.msg(3, "a")))
	s.wantErr("register under the old epoch", err, tasks.ErrEpochChanged)
	s.wantErr("baseline under the old epoch", s.Queue.Baseline(s.ctx, old.page(s.msg(3, "a"))), tasks.ErrEpochChanged)
	if cursor, baseline := s.Cursor(s.t, p.folder); cursor != 0 || baseline != 0 {
		s.t.Errorf("cursor %d, baseline %d; want both where they were", cursor, baseline)
	}
	p.claimed(10)
	gone := p
	gone.folder = -1
	_, err = s.Queue.Register(s.ctx, gone.page())
	s.wantErr("register in a folder that is gone", err, tasks.ErrEpochChanged)
}

// testDryRun: it says what would become of each entry, and changes nothing.
func testDryRun(s *suite) {
	p := s.place()
	id := p.added(s.msg(1, "a"))
	noted := s.msg(3, "b")
	noted.Decision.Notes = []tasks.Note{{Event: "left_out", Detail: eve}}
	page := p.page(s.msg(1, "a"), s.msg(2, "a"), noted, s.tooLarge(4, "c"), s.msg(5, "b"))
	page.DryRun = true
	before := s.record(id)
	for range 2 {
		regs, err := s.Queue.Register(s.ctx, page)
		s.must("register", err)
		var got []string
		for i, r := range regs {
			if (r.TaskID != 0) != (i == 0) {
				s.t.Errorf("a dry run gives UID %d the task %d; want none to what is new", r.UID, r.TaskID)
			}
			got = append(got, s.fate(r))
		}
		if want := []string{"known", "new", "new", "too_large", "new"}; !slices.Equal(got, want) {
			s.t.Errorf("%q, want %q", got, want)
		}
	}
	if cursor, _ := s.Cursor(s.t, p.folder); cursor != 1 {
		s.t.Errorf("a dry run moved the cursor to %d", cursor)
	}
	if after := s.record(id); !reflect.DeepEqual(after, before) {
		s.t.Errorf("a dry run changed the task from\n%+v to\n%+v", before, after)
	}
	p.claimed(10, 1)
	p.became([]tasks.Entry{s.msg(5, "b")}, "new")
}

// testHostileText registers what senders write into headers: one message must not keep its page
// from being registered, and none its task from being changed.
func testHostileText(s *suite) {
	long := strings.Repeat("日", 100_000)
	last := func(offset int) time.Time { return time.Date(9999, 12, 31, 23, 59, 59, 0, time.FixedZone("", offset)) }
	for name, change := range map[string]func(*tasks.Identity){
		"long":          func(i *tasks.Identity) { i.Subject, i.MessageID, i.Sender = long, long, long },
		"broken UTF-8":  func(i *tasks.Identity) { i.Subject, i.MessageID = "a\xff\xfeb", "<\x80\x81@x>" },
		"NUL":           func(i *tasks.Identity) { i.Subject = "a\x00b" },
		"quotes":        func(i *tasks.Identity) { i.Subject = `'; DROP TABLE x; -- \' " ? @name` },
		"year 9999":     func(i *tasks.Identity) { i.Date = last(3600) },
		"year 10000":    func(i *tasks.Identity) { i.Date = last(-3600) },
		"year 1":        func(i *tasks.Identity) { i.Date = time.Date(1, 1, 1, 0, 0, 1, 0, time.UTC) },
		"a year before": func(i *tasks.Identity) { i.Date = time.Date(-4, 1, 1, 0, 0, 1, 0, time.UTC) },
	} {
		p := s.place()
		e := s.msg(1, name)
		change(&e.Identity)
		e.Decision.Notes = []tasks.Note{{Event: "left_out", Detail: e.Identity.Subject}}
		if name == "long" {
			e.Decision.Route = long
		}
		id := p.added(e)
		s.get(id)
		c := p.claimed(1, 1)[0]
		_, err := s.Queue.Reserve(s.ctx, c.Receipt, tasks.Reservation{
			Identity: &e.Identity, Decision: e.Decision, Revision: revision, Dedupe: p.dedupe,
		})
		s.must(name+": reserve", err)
		reply := []tasks.Delivery{{Recipient: bob, Status: tasks.Pending, Reply: e.Identity.Subject}}
		s.must(name+": finish", s.Queue.Finish(s.ctx, c.Receipt, tasks.Result{
			Status: tasks.Error, Reason: e.Identity.Subject, Deliveries: reply,
		}))
		s.get(id)
	}
}

func testUnseen(s *suite) {
	p := s.place()
	p.register(s.msg(1, "a"), s.tooLarge(3, "c"), s.msg(4, "a"))
	s.must("baseline", s.Queue.Baseline(s.ctx, p.page(s.msg(6, "f"))))
	uids := []uint32{7, 1, 5, 3, 4, 2, 6}
	got, err := s.Queue.Unseen(s.ctx, p.folder, p.epoch, uids)
	s.must("unseen", err)
	if want := []uint32{7, 5, 2}; !slices.Equal(got, want) {
		s.t.Errorf("unseen %v, want %v: without a disposition, in the order given", got, want)
	}
	got, err = s.Queue.Unseen(s.ctx, p.folder, p.epoch+1, uids)
	s.must("unseen", err)
	if !slices.Equal(got, uids) {
		s.t.Errorf("unseen under another epoch %v, want all", got)
	}
	got, err = s.Queue.Unseen(s.ctx, p.folder, p.epoch, nil)
	if err != nil || len(got) != 0 {
		s.t.Errorf("unseen of nothing: %v, %v", got, err)
	}
}

func testBaseline(s *suite) {
	p := s.place()
	p.register(s.msg(5, "e"))
	for range 2 { // doing it twice changes nothing
		s.must("baseline", s.Queue.Baseline(s.ctx, p.page(s.msg(2, "b"), s.msg(3, "c"), s.msg(5, "e"))))
	}
	if cursor, baseline := s.Cursor(s.t, p.folder); cursor != 5 || baseline != 5 {
		s.t.Errorf("cursor %d, baseline %d; want 5, 5", cursor, baseline)
	}
	s.must("baseline", s.Queue.Baseline(s.ctx, p.page(s.msg(1, "a"))))
	if _, baseline := s.Cursor(s.t, p.folder); baseline != 5 {
		s.t.Errorf("baseline went back to %d", baseline)
	}
	// What was not forwarded makes no duplicate.
	p.became([]tasks.Entry{s.msg(2, "b"), s.msg(9, "b")}, "known", "new")
	p.claimed(10, 5, 9)
}

// testUnregistered: that a message was there before the start is no registration; that its task was
// purged does not undo one.
func testUnregistered(s *suite) {
	p := s.place()
	s.must("baseline", s.Queue.Baseline(s.ctx, p.page(s.unread(2, "b"))))
	p.register(s.msg(1, "a"))
	p.work()
	p.register(s.tooLarge(3, "c"))
	p.purgeForwarded()
	got, err := s.Queue.Unregistered(s.ctx, p.folder, p.epoch, []uint32{4, 3, 2, 1})
	if want := []uint32{4, 2}; err != nil || !slices.Equal(got, want) {
		s.t.Errorf("unregistered %v, %v; want %v, in the order given", got, err, want)
	}
}

// testKnownOnly: what is known finds its task again; what is not is left for later.
func testKnownOnly(s *suite) {
	p := s.place()
	id := p.added(s.msg(1, "a"))
	p = p.renewed()
	page := p.page(s.msg(5, "new"), s.msg(6, "a"))
	page.KnownOnly, page.Cursor = true, 0
	regs, err := s.Queue.Register(s.ctx, page)
	s.must("register", err)
	if regs[0].TaskID != 0 || regs[1].Fate != tasks.Moved || regs[1].TaskID != id {
		s.t.Errorf("%+v; want the new one without a task, the other moved", regs)
	}
	p.became([]tasks.Entry{s.msg(5, "new")}, "new")
}

// testFence: a run that lost the scan of an inbox changes nothing more, be it late or ahead of its
// time.
func testFence(s *suite) {
	p := s.place()
	id := p.added(s.msg(3, "c"))
	s.TakeOver(s.t, p.inbox)
	token := s.TakeOver(s.t, p.inbox)
	p = p.renewed() // so that a page has something to move
	page := p.page(s.msg(4, "c"), s.msg(5, "e"), s.tooLarge(6, "f"))
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
	if regs[0].Fate != tasks.Moved || regs[1].Status != tasks.Received || regs[2].Skip != tasks.SkipTooLarge {
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
