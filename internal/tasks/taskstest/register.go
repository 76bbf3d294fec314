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
	"register/cursor":       testCursor,
	"register/other epoch":  testEpochChanged,
	"register/dry run":      testDryRun,
	"register/skipped":      testRegisterSkipped,
	"register/hostile text": testHostileText,
	"register/no route":     testRegisterNoRoute,
	"unseen":                testUnseen,
	"unregistered":          testUnregistered,
	"baseline":              testBaseline,
	"register/known only":   testKnownOnly,
}

func testRegisterOnce(s *suite) {
	p := s.place()
	page := []tasks.Entry{s.msg(1, "a"), s.msg(2, "b"), s.msg(5, "c")}
	first := p.fates(page, tasks.New, tasks.New, tasks.New)
	again := p.fates(append(page, s.msg(6, "d")), tasks.Known, tasks.Known, tasks.Known, tasks.New)
	for i, r := range first {
		if again[i].TaskID != r.TaskID || r.TaskID == 0 {
			s.t.Errorf("UID %d: task %d, and %d when registered again; want one task", r.UID, r.TaskID, again[i].TaskID)
		}
	}
	p.claimed(10, 1, 2, 5, 6)
}

func testRegisterFields(s *suite) {
	p := s.place()
	e := s.msg(4_294_967_295, "a")
	e.Date = time.Date(2026, 3, 1, 12, 30, 0, 123456000, time.FixedZone("", 3600))
	e.Priority, e.Subject = tasks.High, "Grüße 日本 \U0001F600"
	id := p.register(e)[0].TaskID
	got := s.stands(id, tasks.Received)
	if got.VisibleAt == nil || got.QueuedAt.IsZero() || !got.CreatedAt.Equal(got.QueuedAt) || !got.VisibleAt.Equal(got.CreatedAt) {
		s.t.Errorf("times of a new task: visible %v, queued %v, created %v; want one moment", got.VisibleAt, got.QueuedAt, got.CreatedAt)
	}
	if got.Date == nil || !got.Date.Equal(e.Date) {
		s.t.Errorf("date %v, want %v to the microsecond", got.Date, e.Date)
	}
	if got.Folder != "INBOX" || !strings.HasSuffix(got.Inbox, "@example.com") {
		s.t.Errorf("inbox %q, folder %q; want their names", got.Inbox, got.Folder)
	}
	got.CreatedAt, got.QueuedAt, got.UpdatedAt, got.VisibleAt, got.Date, got.Inbox, got.Folder = time.Time{}, time.Time{}, time.Time{}, nil, nil, "", ""
	want := tasks.Task{
		ID: id, InboxID: p.inbox, FolderID: p.folder, Epoch: p.epoch, UID: e.UID, MessageID: e.MessageID, Subject: e.Subject,
		Sender: e.Sender, Size: e.Size, Fingerprint: e.Fingerprint, Route: "desk", Priority: tasks.High, Status: tasks.Received,
	}
	if !reflect.DeepEqual(got, want) {
		s.t.Errorf("the task reads\n%+v, want\n%+v", got, want)
	}
}

func testCursor(s *suite) {
	p := s.place()
	steps := []struct{ cursor, want uint32 }{{0, 0}, {9, 9}, {4, 9}, {9, 9}, {4_294_967_295, 4_294_967_295}}
	for _, step := range steps {
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
	p = p.anew()
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

func testDryRun(s *suite) {
	p := s.place()
	p.register(s.msg(1, "a"))
	page := p.page(s.msg(1, "a"), s.msg(2, "a"), s.msg(3, "b"), s.unread(4, "c", "too_large"))
	page.DryRun = true
	regs, err := s.Queue.Register(s.ctx, page)
	s.must("register", err)
	var got []tasks.Fate
	for _, r := range regs {
		got = append(got, r.Fate)
	}
	if want := []tasks.Fate{tasks.Known, tasks.Duplicate, tasks.New, tasks.SkippedAt}; !slices.Equal(got, want) {
		s.t.Errorf("fates %v, want %v", got, want)
	}
	if cursor, _ := s.Cursor(s.t, p.folder); cursor != 1 {
		s.t.Errorf("a dry run moved the cursor to %d", cursor)
	}
	p.claimed(10, 1)
}

func testRegisterSkipped(s *suite) {
	p := s.place()
	r := p.fates([]tasks.Entry{s.unread(1, "a", "too_large: 60 MiB")}, tasks.SkippedAt)[0]
	if got := s.stands(r.TaskID, tasks.Skipped); got.Reason != "too_large: 60 MiB" {
		s.t.Errorf("reason %q, want the one given", got.Reason)
	}
	p.claimed(10)
	p.fates([]tasks.Entry{s.unread(1, "a", "too_large: 60 MiB")}, tasks.Known)
}

// testHostileText registers what senders write into headers: one message must not keep its page from being registered.
func testHostileText(s *suite) {
	long := strings.Repeat("日", 100_000)
	for name, change := range map[string]func(*tasks.Entry){
		"long":          func(e *tasks.Entry) { e.Subject, e.MessageID, e.Sender, e.Route = long, long, long, long },
		"broken UTF-8":  func(e *tasks.Entry) { e.Subject, e.MessageID = "a\xff\xfeb", "<\x80\x81@x>" },
		"NUL":           func(e *tasks.Entry) { e.Subject = "a\x00b" },
		"quotes":        func(e *tasks.Entry) { e.Subject = `'; DROP TABLE x; -- \' " ? @name` },
		"year 10000":    func(e *tasks.Entry) { e.Date = time.Date(9999, 12, 31, 23, 59, 59, 0, time.FixedZone("", -3600)) },
		"year 1":        func(e *tasks.Entry) { e.Date = time.Date(1, 1, 1, 0, 0, 1, 0, time.UTC) },
		"a year before": func(e *tasks.Entry) { e.Date = time.Date(-4, 1, 1, 0, 0, 1, 0, time.UTC) },
	} {
		p := s.place()
		e := s.msg(1, name)
		change(&e)
		regs, err := s.Queue.Register(s.ctx, p.page(e))
		if err != nil {
			s.t.Errorf("%s: register: %v", name, err)
			continue
		}
		if _, err := s.Queue.Get(s.ctx, regs[0].TaskID); err != nil {
			s.t.Errorf("%s: read back: %v", name, err)
		}
		c := p.claimed(1, 1)[0]
		reply := []tasks.Delivery{{Recipient: "bob@example.com", Status: tasks.Pending, Reply: e.Subject}}
		if err := s.Queue.Finish(s.ctx, c.Receipt, tasks.Result{Status: tasks.Error, Reason: e.Subject, Deliveries: reply}); err != nil {
			s.t.Errorf("%s: finish: %v", name, err)
		}
	}
}

func testRegisterNoRoute(s *suite) {
	p := s.place()
	e := s.msg(1, "a")
	e.Route = ""
	p.fates([]tasks.Entry{e}, tasks.New)
	p.claimed(1, 1) // who gets it is decided when it is worked off: the routes may be others by then
}

func testUnseen(s *suite) {
	p := s.place()
	p.register(s.msg(1, "a"), s.unread(3, "c", "too_large"), s.msg(4, "a"))
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
	p.fates([]tasks.Entry{s.msg(2, "b"), s.msg(9, "b")}, tasks.Known, tasks.New) // what was not forwarded makes no duplicate
	p.claimed(10, 5, 9)
}

// testUnregistered: that a message was there before the start is no registration; that its task was purged does not undo one.
func testUnregistered(s *suite) {
	p := s.place()
	s.must("baseline", s.Queue.Baseline(s.ctx, p.page(s.unread(2, "b", ""))))
	p.register(s.msg(1, "a"))
	p.finishAll(tasks.Forwarded)
	p.register(s.unread(3, "c", "too_large"))
	p.purge()
	got, err := s.Queue.Unregistered(s.ctx, p.folder, p.epoch, []uint32{4, 3, 2, 1})
	if want := []uint32{4, 2}; err != nil || !slices.Equal(got, want) {
		s.t.Errorf("unregistered %v, %v; want %v, in the order given", got, err, want)
	}
}

// testKnownOnly: what is known finds its task again; what is not is left for later.
func testKnownOnly(s *suite) {
	p := s.place()
	id := p.register(s.msg(1, "a"))[0].TaskID
	p = p.anew()
	page := p.page(s.msg(5, "new"), s.msg(6, "a"))
	page.KnownOnly, page.Cursor = true, 0
	regs, err := s.Queue.Register(s.ctx, page)
	s.must("register", err)
	if regs[0].TaskID != 0 || regs[1].Fate != tasks.Moved || regs[1].TaskID != id {
		s.t.Errorf("%+v; want the new one without a task, the other moved", regs)
	}
	p.fates([]tasks.Entry{s.msg(5, "new")}, tasks.New)
}
