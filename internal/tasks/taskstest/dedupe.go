package taskstest

import (
	"fmt"
	"strings"

	"postrider/internal/tasks"
)

var dedupeTests = map[string]func(*suite){
	"dedupe/scopes":        testDedupeScopes,
	"dedupe/within a page": testDedupePage,
	"dedupe/by state":      testDedupeStates,
	"dedupe/not forwarded": testDedupeUnforwarded,
	"dedupe/unread":        testDedupeUnread,
}

// testDedupeScopes registers a message, and an equal one elsewhere.
func testDedupeScopes(s *suite) {
	for _, c := range []struct {
		dedupe tasks.Dedupe
		where  string
		want   tasks.Fate
	}{
		{tasks.DedupeInbox, "same folder", tasks.Duplicate},
		{tasks.DedupeInbox, "same inbox", tasks.Duplicate},
		{tasks.DedupeInbox, "other inbox", tasks.New},
		{tasks.DedupeAll, "same folder", tasks.Duplicate},
		{tasks.DedupeAll, "same inbox", tasks.Duplicate},
		{tasks.DedupeAll, "other inbox", tasks.Duplicate},
		{tasks.DedupeOff, "same folder", tasks.New},
		{tasks.DedupeOff, "same inbox", tasks.New},
		{tasks.DedupeOff, "other inbox", tasks.New},
	} {
		here := s.place()
		there := map[string]place{"same folder": here, "same inbox": here.beside("Junk"), "other inbox": s.place()}[c.where]
		content := fmt.Sprint(c)
		here.fates([]tasks.Entry{s.msg(1, content)}, tasks.New)
		regs := there.under(c.dedupe).register(s.msg(2, content))
		if regs[0].Fate != c.want {
			s.t.Errorf("dedupe %s, an equal message in the %s: fate %d, want %d", c.dedupe, c.where, regs[0].Fate, c.want)
			continue
		}
		if c.want == tasks.Duplicate {
			if got := s.stands(regs[0].TaskID, tasks.Skipped); !strings.HasPrefix(got.Reason, "duplicate: ") {
				s.t.Errorf("reason %q, want that it is a duplicate, and of what", got.Reason)
			}
		}
	}
}

func testDedupePage(s *suite) {
	entries := []tasks.Entry{s.msg(1, "a"), s.msg(2, "b"), s.msg(3, "a"), s.msg(4, "a")}
	p := s.place()
	p.fates(entries, tasks.New, tasks.New, tasks.Duplicate, tasks.Duplicate)
	p.claimed(10, 1, 2)
	off := s.place().under(tasks.DedupeOff)
	off.fates(entries, tasks.New, tasks.New, tasks.New, tasks.New)
}

// testDedupeStates registers a message equal to one whose task has come to stand somewhere.
func testDedupeStates(s *suite) {
	for _, c := range []struct {
		status tasks.Status
		route  string
		want   tasks.Fate
	}{
		{tasks.Received, "desk", tasks.Duplicate},
		{tasks.InProgress, "desk", tasks.Duplicate},
		{tasks.Error, "desk", tasks.Duplicate},
		{tasks.Uncertain, "desk", tasks.Duplicate},
		{tasks.Forwarded, "desk", tasks.Duplicate},
		{tasks.Dead, "desk", tasks.New}, // it did not arrive
		{tasks.Skipped, "desk", tasks.New},
		{tasks.SkippedNoMatch, "", tasks.New},
	} {
		p, task := s.bring(c.status)
		if got := p.register(s.msg(9, "m"))[0].Fate; got != c.want {
			s.t.Errorf("a message equal to one that is %s (task %d): fate %d, want %d", c.status, task.ID, got, c.want)
		}
	}
}

// testDedupeUnforwarded: what nobody gets makes nothing a duplicate. Dropping is worse than repeating.
func testDedupeUnforwarded(s *suite) {
	p := s.place()
	noRoute := s.msg(1, "a")
	noRoute.Route = ""
	p.fates([]tasks.Entry{noRoute, s.msg(2, "a"), s.msg(3, "a")}, tasks.New, tasks.New, tasks.Duplicate)
	p = s.place()
	p.fates([]tasks.Entry{noRoute}, tasks.New)
	p.fates([]tasks.Entry{s.msg(2, "a")}, tasks.New)
	p = s.place()
	skipped := s.msg(1, "b")
	skipped.Skip = "by_route: list"
	p.fates([]tasks.Entry{skipped, s.msg(2, "b")}, tasks.SkippedAt, tasks.New)
}

// testDedupeUnread: messages whose content is not known may be others. Size and time alone drop nothing.
func testDedupeUnread(s *suite) {
	p := s.place()
	p.fates([]tasks.Entry{s.unread(1, "a", ""), s.unread(2, "a", "")}, tasks.New, tasks.New)
	p.fates([]tasks.Entry{s.unread(3, "a", "")}, tasks.New)
	p.fates([]tasks.Entry{s.msg(4, "a")}, tasks.New)
}
