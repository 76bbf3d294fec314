package pass

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"postrider/internal/imapsrc"
	"postrider/internal/inbox"
	"postrider/internal/tasks"
)

// announce makes boxA's server announce a body of 20 GiB for some messages, whose sizes it gave as
// less.
func (s *site) announce(uids ...uint32) {
	s.servers[boxA].hook = func(_ context.Context, op string, uid uint32) error {
		if op == "fetch" && slices.Contains(uids, uid) {
			return &imapsrc.TooLargeError{Size: 20 << 30, Max: s.pass.Config.MaxSize}
		}
		return nil
	}
}

func (s *site) taskOf(uid uint32) tasks.Task {
	s.t.Helper()
	for _, task := range s.tasks() {
		if task.UID == uid {
			return task
		}
	}
	s.t.Fatalf("no task has UID %d", uid)
	return tasks.Task{}
}

const announced = "too_large: 20 GiB, forward.max_size is 1.0 MiB"

// TestAnnouncedTooLarge: a body that is larger than the size that the server gave is skipped, and
// those beside it go on.
func TestAnnouncedTooLarge(t *testing.T) {
	for name, large := range map[string][]uint32{
		"first": {1}, "last": {5}, "in the middle": {2}, "three of them": {1, 2, 4},
	} {
		t.Run(name, func(t *testing.T) {
			onSite(t, func(t *testing.T, s *site) {
				s.put("one", "two", "three", "four", "five")
				s.announce(large...)
				report := s.run()
				want := Counters{Registered: 5, Forwarded: 5 - len(large), Skipped: len(large)}
				if report.Totals != want || !report.Clean() {
					t.Errorf("the pass reports %+v, error %q; want %+v", report.Totals, report.Inboxes[0].Error, want)
				}
				for uid := uint32(1); uid <= 5; uid++ {
					task := s.taskOf(uid)
					if skipped := slices.Contains(large, uid); skipped != (task.Skip == tasks.SkipTooLarge) ||
						skipped && task.Reason != announced {
						t.Errorf("message %d is %s (%q)", uid, task.Status, task.Reason)
					}
				}
			})
		})
	}
}

// modest is a server that gives every message a size of 80 octets, and another one when it is to
// send it. (The client does not hang up on the real one in the middle of a body: its library leaves
// a goroutine behind then.)
type modest struct {
	Source
	max int64
}

func (m modest) Metadata(ctx context.Context, uids []uint32) ([]imapsrc.Meta, error) {
	metas, err := m.Source.Metadata(ctx, uids)
	for i := range metas {
		metas[i].Size = 80
	}
	return metas, err
}

func (m modest) Bodies(ctx context.Context, uids []uint32, each eachMessage) (imapsrc.Result, error) {
	metas, err := m.Source.Metadata(ctx, uids)
	if err != nil {
		return imapsrc.Result{}, err
	}
	for i, meta := range metas {
		if meta.Size <= m.max {
			continue
		}
		if i > 0 {
			if res, err := m.Source.Bodies(ctx, uids[:i], each); err != nil {
				return res, err
			}
		}
		large := &imapsrc.TooLargeError{Size: meta.Size, Max: m.max}
		return imapsrc.Result{Failed: map[uint32]error{meta.UID: large}}, errNetwork
	}
	return m.Source.Bodies(ctx, uids, each)
}

// TestAnnouncedTooLargeNotice: with `too_large: notice` its recipients get a notice, with the size
// that was announced.
func TestAnnouncedTooLargeNotice(t *testing.T) {
	r := newRig(t, nil)
	r.Config.Notices = true
	r.add(inbox.StartAll)
	small := mails(2)
	r.put("INBOX", small[0], large(0), large(1), small[1])
	r.behind(func(src Source) Source { return modest{src, r.Config.MaxSize} })
	r.want(r.run(), Counters{Registered: 4, Forwarded: 4})
	if got := r.modes(); strings.Count(got, "notice") != 2 {
		t.Errorf("what arrived is %q, want two notices", got)
	}
	for _, m := range r.sink.Messages() {
		if strings.Contains(string(m.Header), "Too large") && !strings.Contains(string(m.Data), "1.1 MiB") {
			t.Errorf("the notice lacks the size:\n%s", m.Data)
		}
	}
	_, lines := r.audit(AuditOptions{})
	if n := len(slices.DeleteFunc(lines, func(m Audited) bool { return m.Mode != "notice" })); n != 2 {
		t.Errorf("the audit lists %d notices, want two", n)
	}
}

// honest is modest, but describes its messages as they are.
type honest struct{ modest }

func (h honest) Metadata(ctx context.Context, uids []uint32) ([]imapsrc.Meta, error) {
	return h.Source.Metadata(ctx, uids)
}

// TestRetriedTooLarge: large messages that an operator retries, or whose limit is lower by now, are
// not asked for. They break no connection, and hold up nothing.
func TestRetriedTooLarge(t *testing.T) {
	for name, tc := range map[string]struct {
		atFirst int64 // forward.max_size
		skipped int   // at first
		notices bool
		want    Counters
	}{
		"retried":             {1 << 20, 7, false, Counters{Registered: 2, Forwarded: 2, Skipped: 7}},
		"retried, notice":     {1 << 20, 7, true, Counters{Registered: 2, Forwarded: 9}},
		"lower limit":         {2 << 20, 0, false, Counters{Registered: 2, Forwarded: 2, Skipped: 7}},
		"lower limit, notice": {2 << 20, 0, true, Counters{Registered: 2, Forwarded: 9}},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, nil)
			r.add(inbox.StartAll)
			r.Config.MaxSize = tc.atFirst
			for i := range 7 { // one pass connects again five times
				r.put("INBOX", large(i))
			}
			r.Relay = unreachable{r.Relay}
			r.behind(func(src Source) Source { return honest{modest{src, r.Config.MaxSize}} })
			first := Counters{Registered: 7, Skipped: tc.skipped}
			if n := r.run().Counters; n.Registered != first.Registered || n.Skipped != first.Skipped {
				t.Fatalf("the first pass reports %+v, want %+v", n, first)
			}
			for _, task := range r.tasks() {
				_, err := r.queue.Requeue(t.Context(), tasks.By{Who: "ann"}, task.ID)
				check(t, err)
			}
			r.put("INBOX", mails(2)...)
			r.Relay, r.Config.MaxSize, r.Config.Notices = r.relay(), 1<<20, tc.notices
			r.want(r.run(), tc.want)
			for _, task := range r.tasks()[:7] {
				if task.Identity.Subject == "" && tc.notices {
					t.Errorf("task %d has no subject, want what its header says", task.ID)
				}
				if !tc.notices && (task.Skip != tasks.SkipTooLarge || !strings.Contains(task.Reason, "1.1 MiB")) {
					t.Errorf("task %d is %s %s (%q), want skipped as too_large",
						task.ID, task.Status, task.Skip, task.Reason)
				}
			}
		})
	}
}

// unwilling is modest, and refuses to send one message.
type unwilling struct {
	modest
	uid uint32
}

func (w unwilling) Bodies(ctx context.Context, uids []uint32, each eachMessage) (imapsrc.Result, error) {
	others := slices.DeleteFunc(slices.Clone(uids), func(uid uint32) bool { return uid == w.uid })
	res, err := w.Source.Bodies(ctx, others, each)
	if len(others) < len(uids) {
		res.Failed = map[uint32]error{w.uid: errors.New("NO not now")}
	}
	return res, err
}

// TestAnnouncedTooLargeLater: a message that was registered without its content ends the same way.
func TestAnnouncedTooLargeLater(t *testing.T) {
	for name, tc := range map[string]struct {
		notices bool
		want    Counters
	}{
		"skip":   {false, Counters{Forwarded: 2, Skipped: 1}},
		"notice": {true, Counters{Forwarded: 3}},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, nil)
			r.add(inbox.StartAll)
			small := mails(2)
			r.put("INBOX", small[0], large(0), small[1])
			r.Relay = unreachable{r.Relay}
			restore := r.behind(func(src Source) Source { return unwilling{modest{src, r.Config.MaxSize}, 2} })
			r.run()
			restore()
			r.clock.advance(time.Hour)
			r.Relay, r.Config.Notices = r.relay(), tc.notices
			r.behind(func(src Source) Source { return modest{src, r.Config.MaxSize} })
			r.want(r.run(), tc.want)
			for _, task := range r.tasks() {
				if task.UID == 2 && !tc.notices &&
					(task.Skip != tasks.SkipTooLarge || !strings.Contains(task.Reason, "1.1 MiB")) {
					t.Errorf("the large message is %s %s (%q), want skipped as too_large",
						task.Status, task.Skip, task.Reason)
				}
			}
		})
	}
}

// TestAnnouncedTooLargeHeader: a header that is too large, too, is the message's error.
func TestAnnouncedTooLargeHeader(t *testing.T) {
	onSite(t, func(t *testing.T, s *site) {
		it := fetched{head: true, notice: true}
		it.refused(&imapsrc.TooLargeError{Size: 20 << 30, Max: 10})
		if it.err == nil || it.skip != "" || !strings.Contains(it.err.Error(), "announces") {
			t.Errorf("a header that is too large is %+v, want an error", it)
		}
	})
}
