package pass

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"postrider/internal/imapsrc"
	"postrider/internal/inbox"
)

// quotaSource is a server that gives so many bodies in a pass.
type quotaSource struct {
	Source
	left *atomic.Int64
}

func (s quotaSource) Bodies(ctx context.Context, uids []uint32, each eachMessage) (imapsrc.Result, error) {
	if s.left.Add(-int64(len(uids))) < 0 {
		return imapsrc.Result{}, refusal(imapsrc.KindLimit, "fetch", "NO quota of transfers reached")
	}
	return s.Source.Bodies(ctx, uids, each)
}

// TestUnwatchedInParts: a folder that is no longer watched is compared on, pass after pass, until
// its waiting task has found its message. Whether it is watched again before that or afterwards,
// the messages that were only compared are registered then.
func TestUnwatchedInParts(t *testing.T) {
	for name, parts := range map[string]int{"watched again before that": 3, "watched again afterwards": 4} {
		t.Run(name, func(t *testing.T) {
			var up atomic.Bool
			r := newRig(t, downUntil(&up))
			r.Config.Page = 10
			r.add(inbox.StartAll, "INBOX", "Cases")
			check(t, r.imap.CreateFolder(address, "Cases"))
			all := mails(301) // more than are looked at again behind the cursor
			waiting, later := all[:1], all[1:]
			r.put("Cases", waiting...)
			r.run()
			up.Store(true)
			watch := func(folders ...string) {
				_, err := r.store.Set(t.Context(), address, inbox.Changes{Folders: folders})
				check(t, err)
			}
			watch("INBOX")
			check(t, r.imap.Expunge(address, "Cases", 1))
			r.put("Cases", later...)
			r.put("Cases", waiting...)
			check(t, r.imap.SetUIDValidity(address, "Cases", 777))
			var left atomic.Int64
			r.behind(func(src Source) Source { return quotaSource{src, &left} })
			pass := func(bodies int64) {
				left.Store(bodies)
				r.clock.advance(24 * time.Hour)
				r.run()
			}
			for range parts {
				pass(100)
			}
			if n, want := len(r.sink.Messages()), map[int]int{3: 0, 4: 1}[parts]; n != want {
				t.Errorf("%d messages arrived after %d passes, want %d", n, parts, want)
			}
			watch("INBOX", "Cases")
			for range 2 {
				pass(1000)
			}
			if n := len(r.sink.Messages()); n != len(all) {
				t.Errorf("%d messages arrived in the end, want all %d, each once", n, len(all))
			}
		})
	}
}

// TestWatchedMeanwhile: a folder is watched again while a pass that still takes it for an unwatched
// one compares it.
func TestWatchedMeanwhile(t *testing.T) {
	var up atomic.Bool
	r := newRig(t, downUntil(&up))
	r.Config.Page = 50
	r.add(inbox.StartAll, "INBOX", "Cases")
	check(t, r.imap.CreateFolder(address, "Cases"))
	all := mails(401)
	r.put("Cases", all[:1]...)
	r.run()
	up.Store(true)
	watch := func(folders ...string) {
		_, err := r.store.Set(t.Context(), address, inbox.Changes{Folders: folders})
		check(t, err)
	}
	watch("INBOX")
	r.put("Cases", all[1:]...)
	check(t, r.imap.SetUIDValidity(address, "Cases", 777))
	read := 0
	r.Config.Headers = func(inbox.Inbox) bool {
		if read++; read == 100 {
			watch("INBOX", "Cases")
		}
		return false
	}
	for range 3 {
		r.clock.advance(time.Hour)
		r.run()
	}
	if n := len(r.sink.Messages()); read < 100 || n != len(all) {
		t.Errorf("%d messages arrived, want all %d, each once", n, len(all))
	}
	const why = `msg="the folder was watched again before it was compared; ` +
		`all messages are compared with what is registered"`
	if strings.Count(r.log.String(), why) != 1 {
		t.Errorf("the log is\n%s\nwant it to say once that %s", r.log.String(), why)
	}
}
