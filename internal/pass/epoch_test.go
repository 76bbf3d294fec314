package pass

import (
	"context"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"postrider/internal/imapsrc"
	"postrider/internal/inbox"
	"postrider/internal/tasks"
	"postrider/internal/testserver/smtpsink"
)

func TestUIDValidityChanges(t *testing.T) {
	r := newRig(t, nil)
	r.add(inbox.StartAll)
	old := mails(10)
	r.put("INBOX", old...)
	r.want(r.run(), Counters{Registered: 10, Forwarded: 10})
	for i := range 3 { // also back to a value that was there before
		check(t, r.imap.SetUIDValidity(address, "INBOX", uint32(777+i%2)))
		r.want(r.run(), Counters{})
		fresh := mails(1)
		r.put("INBOX", fresh...)
		old = append(old, fresh...)
		r.want(r.run(), Counters{Registered: 1, Forwarded: 1})
		r.wantArrived(old)
	}
}

// TestUIDNextGoesBackwards: it is handled as a change of UIDVALIDITY, and logged.
func TestUIDNextGoesBackwards(t *testing.T) {
	r := newRig(t, nil)
	r.add(inbox.StartAll)
	msgs := mails(5)
	r.put("INBOX", msgs...)
	r.want(r.run(), Counters{Registered: 5, Forwarded: 5})
	restore := r.behind(func(src Source) Source { return forgetful{src} })
	r.want(r.run(), Counters{})
	if !strings.Contains(r.log.String(), "UIDNEXT went backwards") {
		t.Errorf("the log does not report it:\n%s", r.log.String())
	}
	restore()
	fresh := mails(1)
	r.put("INBOX", fresh...)
	r.want(r.run(), Counters{Registered: 1, Forwarded: 1})
	r.wantArrived(msgs, fresh)
}

// forgetful is a server whose UIDNEXT went backwards.
type forgetful struct{ Source }

func (s forgetful) Select(ctx context.Context, name string) (imapsrc.Folder, error) {
	info, err := s.Source.Select(ctx, name)
	info.UIDNext = 3
	return info, err
}

func TestBaselineStaysWhenUIDValidityChanges(t *testing.T) {
	r := newRig(t, nil)
	r.add(inbox.StartLatest)
	old := mails(10)
	r.put("INBOX", old...)
	r.want(r.run(), Counters{Registered: 1, Forwarded: 1})
	check(t, r.imap.SetUIDValidity(address, "INBOX", 777))
	r.want(r.run(), Counters{})
	r.wantArrived(old[9:])
}

// TestRewindAfterUIDValidityChanged registers messages from before the start, also when they were
// noted under an older epoch.
func TestRewindAfterUIDValidityChanged(t *testing.T) {
	r := newRig(t, nil)
	r.add(inbox.StartLatest)
	msgs := mails(5)
	r.put("INBOX", msgs...)
	r.want(r.run(), Counters{Registered: 1, Forwarded: 1})
	check(t, r.imap.SetUIDValidity(address, "INBOX", 777))
	r.want(r.run(), Counters{})
	in := r.stored()
	r.rewind(in.Folders[0])
	r.want(r.run(), Counters{Registered: 4, Forwarded: 4})
	r.wantArrived(msgs)
}

// TestUnwatchedFolderInANewEpoch: tasks that waited in a folder that is no longer watched are
// forwarded, also when its UIDVALIDITY changes. Its new messages are not. The other folders go on.
func TestUnwatchedFolderInANewEpoch(t *testing.T) {
	var up atomic.Bool
	r := newRig(t, downUntil(&up))
	r.add(inbox.StartAll, "INBOX", "Cases")
	check(t, r.imap.CreateFolder(address, "Cases"))
	waiting, gone := mails(2), mails(1)
	r.put("Cases", waiting...)
	uids := r.put("Cases", gone...)
	r.run() // registers; the relay is at fault
	_, err := r.store.Set(t.Context(), address, inbox.Changes{Folders: []string{"INBOX"}})
	check(t, err)
	check(t, r.imap.Expunge(address, "Cases", uids...))
	r.put("Cases", mails(1)...)
	check(t, r.imap.SetUIDValidity(address, "Cases", 777))
	fresh := mails(3)
	r.put("INBOX", fresh...)
	up.Store(true)
	r.want(r.run(), Counters{Registered: 3, Forwarded: 5, Skipped: 1})
	r.want(r.run(), Counters{})
	r.wantArrived(waiting, fresh)
}

// TestWatchedAgainInANewEpoch: what arrived in a folder while it was not watched is forwarded once
// it is watched again, also when its UIDVALIDITY changed meanwhile. Until then its messages are
// compared with what is registered only once.
func TestWatchedAgainInANewEpoch(t *testing.T) {
	r := newRig(t, on("rcpt", 2, smtpsink.Action{Code: 451}))
	r.Config.Page = 100
	r.add(inbox.StartAll, "INBOX", "Cases")
	check(t, r.imap.CreateFolder(address, "Cases"))
	msgs := mails(lookBackUIDs + 50)
	r.put("Cases", msgs[:2]...)
	r.want(r.run(), Counters{Registered: 2, Retry: 2})
	_, err := r.store.Set(t.Context(), address, inbox.Changes{Folders: []string{"INBOX"}})
	check(t, err)
	check(t, r.imap.Expunge(address, "Cases", 1))
	r.put("Cases", msgs[2:]...)
	check(t, r.imap.SetUIDValidity(address, "Cases", 777))
	var described atomic.Int64
	restore := r.behind(func(src Source) Source { return describing{src, &described} })
	r.want(r.run(), Counters{})
	first := described.Load()
	r.want(r.run(), Counters{})
	if n := described.Load(); first < int64(len(msgs)-1) || n != first {
		t.Errorf("%d messages were compared, and %d more in the next pass; want %d, and none",
			first, n-first, len(msgs)-1)
	}
	restore()
	_, err = r.store.Set(t.Context(), address, inbox.Changes{Folders: []string{"INBOX", "Cases"}})
	check(t, err)
	r.clock.advance(time.Hour)
	r.want(r.run(), Counters{Registered: len(msgs) - 2, Forwarded: len(msgs) - 1, Skipped: 1})
	r.wantArrived(msgs[1:])
}

// describing counts the messages that a server describes.
type describing struct {
	Source
	n *atomic.Int64
}

func (s describing) Metadata(ctx context.Context, uids []uint32) ([]imapsrc.Meta, error) {
	s.n.Add(int64(len(uids)))
	return s.Source.Metadata(ctx, uids)
}

// TestFolderDeleted: tasks of a watched folder wait while the server does not have it. Once it is
// no longer watched, they end, and equal messages elsewhere are forwarded. While the server only
// refuses to open it, they still wait.
func TestFolderDeleted(t *testing.T) {
	var up atomic.Bool
	r := newRig(t, downUntil(&up))
	r.add(inbox.StartAll, "INBOX", "Cases")
	check(t, r.imap.CreateFolder(address, "Cases"))
	msgs := mails(2)
	r.put("Cases", msgs...)
	r.run() // registers; the relay is at fault
	r.put("INBOX", msgs[:1]...)
	check(t, r.imap.DeleteFolder(address, "Cases"))
	up.Store(true)
	pass := func(what, failed string, want Counters) {
		t.Helper()
		r.clock.advance(time.Hour)
		before := r.log.String()
		rep := r.run()
		if rep.Counters != want || !strings.Contains(rep.Error, failed) || failed == "" && rep.Error != "" {
			t.Errorf("%s: the pass reports %+v, error %q; want %+v, %q", what, rep.Counters, rep.Error, want, failed)
		}
		said := strings.Split(r.log.String()[len(before):], "\n")
		said = slices.DeleteFunc(said, func(line string) bool { return strings.Contains(line, "level=INFO") })
		logged := strings.Count(strings.Join(said, "\n"), failed)
		if failed != "" && (strings.Count(rep.Error, failed) != 1 || logged != 1) {
			t.Errorf("%s: the report says %q, the log %q; want both to say it once", what, rep.Error, said)
		}
	}
	pass("watched", "No such mailbox", Counters{Registered: 1, Retry: 2})
	_, err := r.store.Set(t.Context(), address, inbox.Changes{Folders: []string{"INBOX"}})
	check(t, err)
	restore := r.behind(func(src Source) Source { return closed{src, "Cases"} })
	pass("refused", "NO such folder", Counters{Retry: 2})
	restore()
	pass("no longer watched", "", Counters{Forwarded: 1, Skipped: 2})
	pass("afterwards", "", Counters{})
	for _, task := range r.tasks()[:2] {
		if task.Skip != tasks.SkipVanished || task.Reason != "vanished: "+errDeleted.Error() {
			t.Errorf("task %d: %s, %q; want it vanished with its folder", task.ID, task.Skip, task.Reason)
		}
	}
	r.wantArrived(msgs[:1])
}

// closed is a server that does not open a folder now.
type closed struct {
	Source
	folder string
}

func (s closed) Select(ctx context.Context, name string) (imapsrc.Folder, error) {
	if name == s.folder {
		return imapsrc.Folder{}, errFolder
	}
	return s.Source.Select(ctx, name)
}

// TestVanishedAndBack: a message that is absent in one epoch and back in the next is forwarded.
func TestVanishedAndBack(t *testing.T) {
	r := newRig(t, on("rcpt", 1, smtpsink.Action{Code: 451}))
	r.add(inbox.StartAll)
	msgs := mails(1)
	uids := r.put("INBOX", msgs...)
	r.want(r.run(), Counters{Registered: 1, Retry: 1})
	r.clock.advance(time.Hour)
	check(t, r.imap.SetUIDValidity(address, "INBOX", 777))
	check(t, r.imap.Expunge(address, "INBOX", uids...))
	r.want(r.run(), Counters{Skipped: 1})
	check(t, r.imap.SetUIDValidity(address, "INBOX", 888))
	r.put("INBOX", msgs...)
	r.want(r.run(), Counters{Forwarded: 1})
	r.want(r.run(), Counters{})
	r.wantArrived(msgs)
}

// TestUnreadInANewEpoch: a forwarded message that cannot be read after a change of UIDVALIDITY is
// recognised by its content later.
func TestUnreadInANewEpoch(t *testing.T) {
	r := newRig(t, nil)
	r.add(inbox.StartAll)
	msgs := mails(3)
	uid := r.put("INBOX", msgs...)[1]
	r.want(r.run(), Counters{Registered: 3, Forwarded: 3})
	check(t, r.imap.SetUIDValidity(address, "INBOX", 777))
	restore := r.behind(func(src Source) Source { return hangingUp{src, uid} })
	r.want(r.run(), Counters{Registered: 1, Retry: 1})
	restore()
	r.clock.advance(time.Hour)
	r.want(r.run(), Counters{Skipped: 1})
	r.wantArrived(msgs)
	if got := r.tasks()[3].Identity; got.Subject != "message 1" {
		t.Errorf("the task's subject is %q, want what the message says now that it was read", got.Subject)
	}
}
