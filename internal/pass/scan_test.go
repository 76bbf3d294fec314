package pass

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"postrider/internal/imapsrc"
	"postrider/internal/inbox"
	"postrider/internal/route"
	"postrider/internal/tasks"
	"postrider/internal/testserver/smtpsink"
)

func TestEmptyFolderMissesNothing(t *testing.T) {
	r := newRig(t, nil)
	r.add(inbox.StartLatest)
	r.want(r.run(), Counters{})
	msgs := mails(3)
	r.put("INBOX", msgs...)
	r.want(r.run(), Counters{Registered: 3, Forwarded: 3})
	r.wantArrived(msgs)
}

func TestTooLargeIsNotDownloaded(t *testing.T) {
	r := newRig(t, nil)
	r.Config.MaxSize = 1000
	r.add(inbox.StartAll)
	small := mails(1)
	r.put("INBOX", []byte("Subject: big\r\n\r\n"+strings.Repeat("x", 2000)+"\r\n"), small[0])
	r.want(r.run(), Counters{Registered: 2, Forwarded: 1, Skipped: 1})
	r.wantArrived(small)
	got := r.tasks()[0]
	if got.Status != tasks.Skipped || !strings.HasPrefix(got.Reason, "too_large") || got.Identity.Subject != "" {
		t.Errorf("the large message is %s (%s) with subject %q, want skipped as too_large and never read",
			got.Status, got.Reason, got.Identity.Subject)
	}
}

func TestDuplicateByContent(t *testing.T) {
	r := newRig(t, nil)
	r.add(inbox.StartAll, "INBOX", "Labels")
	check(t, r.imap.CreateFolder(address, "Labels"))
	msgs := mails(2)
	r.put("INBOX", msgs...)
	r.put("Labels", msgs...)
	r.want(r.run(), Counters{Registered: 4, Forwarded: 2, Skipped: 2})
	r.wantArrived(msgs)
}

func TestOverlappingRunStepsAside(t *testing.T) {
	r := newRig(t, nil)
	r.add(inbox.StartAll)
	msgs := mails(1)
	r.put("INBOX", msgs...)
	in := r.stored()
	_, _, err := r.store.AcquireScan(t.Context(), in.ID, "test:other", time.Minute)
	check(t, err)
	if rep := r.run(); rep.Busy == "" || rep.Error != "" || rep.Counters.Registered != 0 {
		t.Errorf("the pass reports %+v, want busy and nothing done", rep)
	}
	r.clock.advance(2 * time.Minute) // the other run died
	r.want(r.run(), Counters{Registered: 1, Forwarded: 1})
	r.wantArrived(msgs)
}

// TestDescriptionThatBreaksTheConnection: the message is still forwarded.
func TestDescriptionThatBreaksTheConnection(t *testing.T) {
	r := newRig(t, nil)
	r.add(inbox.StartAll)
	msgs := mails(9)
	poison := r.put("INBOX", msgs...)[5]
	r.behind(func(src Source) Source { return undescribed{src, poison} })
	r.want(r.run(), Counters{Registered: 9, Forwarded: 9})
	r.wantArrived(msgs)
}

// undescribed is a server that cannot describe one message.
type undescribed struct {
	Source
	uid uint32
}

func (s undescribed) Metadata(ctx context.Context, uids []uint32) ([]imapsrc.Meta, error) {
	if slices.Contains(uids, s.uid) {
		return nil, &imapsrc.Error{Kind: imapsrc.KindProtocol, Op: "fetch", Err: context.DeadlineExceeded}
	}
	return s.Source.Metadata(ctx, uids)
}

// hangingUp is a server that hangs up instead of sending one message.
type hangingUp struct {
	Source
	uid uint32
}

func (s hangingUp) Bodies(ctx context.Context, uids []uint32, each eachMessage) (imapsrc.Result, error) {
	i := slices.Index(uids, s.uid)
	if i < 0 {
		return s.Source.Bodies(ctx, uids, each)
	}
	if res, err := s.Source.Bodies(ctx, uids[:i], each); err != nil {
		return res, err
	}
	return imapsrc.Result{}, &imapsrc.Error{Kind: imapsrc.KindNetwork, Op: "fetch", Err: context.DeadlineExceeded}
}

// TestMessageThatBreaksTheConnection: it is isolated, and the messages before and behind it go on.
func TestMessageThatBreaksTheConnection(t *testing.T) {
	r := newRig(t, nil)
	r.add(inbox.StartAll)
	msgs := mails(9)
	poison := r.put("INBOX", msgs...)[5]
	restore := r.behind(func(src Source) Source { return hangingUp{src, poison} })
	r.want(r.run(), Counters{Registered: 9, Forwarded: 8, Retry: 1})
	r.wantArrived(msgs[:5], msgs[6:])
	restore()
	r.clock.advance(time.Hour)
	r.want(r.run(), Counters{Forwarded: 1})
	r.wantArrived(msgs)
}

// TestLateUID shows a UID below the cursor after the cursor has passed it.
func TestLateUID(t *testing.T) {
	r := newRig(t, nil)
	r.add(inbox.StartAll)
	msgs := mails(3)
	hidden := r.put("INBOX", msgs...)[1]
	restore := r.behind(func(src Source) Source { return hiding{src, hidden} })
	r.want(r.run(), Counters{Registered: 2, Forwarded: 2})
	restore()
	r.want(r.run(), Counters{Registered: 1, Forwarded: 1})
	r.wantArrived(msgs)
}

// hiding is a server that does not show one UID yet.
type hiding struct {
	Source
	uid uint32
}

func (s hiding) UIDs(ctx context.Context, from, to uint32) ([]uint32, error) {
	uids, err := s.Source.UIDs(ctx, from, to)
	var out []uint32
	for _, uid := range uids {
		if uid != s.uid {
			out = append(out, uid)
		}
	}
	return out, err
}

func (s hiding) Described(ctx context.Context, from, to uint32) ([]imapsrc.Meta, error) {
	metas, err := s.Source.Described(ctx, from, to)
	return slices.DeleteFunc(metas, func(m imapsrc.Meta) bool { return m.UID == s.uid }), err
}

func TestRewindForwardsNothingTwice(t *testing.T) {
	r := newRig(t, nil)
	r.add(inbox.StartLatest)
	msgs := mails(5)
	r.put("INBOX", msgs...)
	r.want(r.run(), Counters{Registered: 1, Forwarded: 1})
	in := r.stored()
	r.rewind(in.Folders[0])
	r.want(r.run(), Counters{Registered: 4, Forwarded: 4})
	r.wantArrived(msgs)
}

// TestFolderNoLongerWatched: registered messages are still forwarded, new ones are not.
func TestFolderNoLongerWatched(t *testing.T) {
	var up atomic.Bool
	r := newRig(t, downUntil(&up))
	r.add(inbox.StartAll, "INBOX", "Cases")
	check(t, r.imap.CreateFolder(address, "Cases"))
	msgs := mails(2)
	r.put("Cases", msgs...)
	r.run() // registers; the relay is at fault
	_, err := r.store.Set(t.Context(), address, inbox.Changes{Folders: []string{"INBOX"}})
	check(t, err)
	r.put("Cases", mails(1)...)
	up.Store(true)
	r.want(r.run(), Counters{Forwarded: 2})
	r.want(r.run(), Counters{})
	r.wantArrived(msgs)
}

// TestServerWantsToBeLeftAlone: no pass connects for as long as the server asked.
func TestServerWantsToBeLeftAlone(t *testing.T) {
	r := newRig(t, nil)
	r.add(inbox.StartAll)
	dial := r.Dial
	dials := 0
	r.Dial = func(context.Context, inbox.Inbox) (Source, error) {
		dials++
		return nil, &imapsrc.Error{
			Kind: imapsrc.KindLimit, Op: "log in", Err: context.DeadlineExceeded, BackOff: 10 * time.Minute,
		}
	}
	if rep := r.run(); rep.Error == "" {
		t.Error("the pass reports no error")
	}
	r.clock.advance(9 * time.Minute)
	r.Config.Worker = "the next run"
	if rep := r.run(); !strings.Contains(rep.Error, "back off until") || dials != 1 {
		t.Errorf("the pass connected %d times and reports %+v, want once, and an error that says until when",
			dials, rep)
	}
	r.clock.advance(2 * time.Minute)
	r.Dial = dial
	r.want(r.run(), Counters{})
}

// TestRewindJustBeforeThePass is not undone by a pass that had read the cursor before.
func TestRewindJustBeforeThePass(t *testing.T) {
	r := newRig(t, nil)
	r.add(inbox.StartNow)
	msgs := mails(300)
	r.put("INBOX", msgs...)
	r.want(r.run(), Counters{})
	boxes, err := r.store.Active(t.Context())
	check(t, err)
	f := boxes[0].Folders[0]
	r.rewind(f)
	fresh := mails(1)
	r.put("INBOX", fresh...)
	r.want(r.Run(t.Context(), boxes).Inboxes[0], Counters{Registered: 301, Forwarded: 301})
	r.wantArrived(msgs, fresh)
}

// TestMovedWhileWaiting moves a message to another watched folder while its task waits: it is
// forwarded from there.
func TestMovedWhileWaiting(t *testing.T) {
	var up atomic.Bool
	r := newRig(t, downUntil(&up))
	r.add(inbox.StartAll, "INBOX", "Done", "Later")
	check(t, r.imap.CreateFolder(address, "Done"))
	check(t, r.imap.CreateFolder(address, "Later"))
	msgs := mails(2)
	uids := r.put("INBOX", msgs...)
	r.run() // registers both
	r.put("Done", msgs[0])
	r.put("Later", msgs[0])
	r.run() // registers the copies, which wait
	check(t, r.imap.Expunge(address, "INBOX", uids[0]))
	up.Store(true)
	r.want(r.run(), Counters{Forwarded: 2, Skipped: 2})
	r.want(r.run(), Counters{})
	r.wantArrived(msgs)
}

// TestMovedWhileOneWaits moves a message to another watched folder when one recipient has it and
// the other was deferred. That one gets it from there, and no one gets it twice.
func TestMovedWhileOneWaits(t *testing.T) {
	var later atomic.Bool
	r := newRig(t, func(e smtpsink.Event) smtpsink.Action {
		if e.Stage == "rcpt" && strings.HasPrefix(e.Arg, "second@") && !later.Load() {
			return smtpsink.Action{Code: 450}
		}
		return smtpsink.Action{}
	}, route.Rule{Name: "both", To: []string{"first@firm.example", "second@firm.example"}})
	r.add(inbox.StartAll, "INBOX", "Done")
	check(t, r.imap.CreateFolder(address, "Done"))
	msgs := mails(1)
	uids := r.put("INBOX", msgs...)
	r.want(r.run(), Counters{Registered: 1, Retry: 1})
	r.put("Done", msgs[0])
	check(t, r.imap.Expunge(address, "INBOX", uids[0]))
	r.run() // registers the copy as a duplicate
	later.Store(true)
	r.clock.advance(2 * time.Hour)
	rep := r.run()
	if rep.Counters.Forwarded+r.run().Counters.Forwarded != 1 {
		t.Errorf("the pass reports %+v, want the copy forwarded, in this pass or the next", rep)
	}
	var got []string
	for _, m := range r.sink.Messages() {
		got = append(got, m.To...)
	}
	if !slices.Equal(got, []string{"first@firm.example", "second@firm.example"}) {
		t.Errorf("it went to %q, want to each once", got)
	}
}

// TestRoutesChangeWhileWaiting: a copy that was skipped as a duplicate is forwarded when the
// current routes do not forward the message itself.
func TestRoutesChangeWhileWaiting(t *testing.T) {
	r := newRig(t, nil)
	r.add(inbox.StartAll, "INBOX", "Old")
	check(t, r.imap.CreateFolder(address, "Old"))
	msgs := mails(1)
	r.put("INBOX", msgs...)
	r.put("Old", msgs...)
	relay := r.Relay
	r.Relay = unreachable{relay}
	r.run() // registers both, one as a duplicate
	table, err := route.Compile([]route.Rule{
		{Name: "old", Match: route.Match{Folder: []string{"Old"}}, To: []string{"team@firm.example"}},
	})
	check(t, err)
	r.Routes, r.Relay = table, relay
	r.want(r.run(), Counters{SkippedNoMatch: 1, Forwarded: 1})
	r.wantArrived(msgs)
}

// pages is a queue that notes how many messages are registered together.
type pages struct {
	tasks.Queue
	sizes []int
}

func (q *pages) Register(ctx context.Context, page tasks.Page) ([]tasks.Registration, error) {
	q.sizes = append(q.sizes, len(page.Entries))
	return q.Queue.Register(ctx, page)
}

// TestFirstPage is small.
func TestFirstPage(t *testing.T) {
	onSite(t, func(t *testing.T, s *site) {
		q := &pages{Queue: s.queue}
		s.pass.Queue, s.pass.Config.Page = q, 30
		for i := range 70 {
			s.put(fmt.Sprint("message ", i))
		}
		s.wantNoError(s.run())
		if want := []int{firstPage, 30, 24}; !slices.Equal(q.sizes, want) {
			t.Errorf("pages of %d messages, want %d", q.sizes, want)
		}
	})
}
