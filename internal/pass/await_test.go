package pass

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"postrider/internal/inbox"
)

var anHour = Patience{Idle: time.Hour, Poll: time.Minute}

// wantAwait waits for mail, and checks what came of it and how long it took.
func (s *site) wantAwait(ctx context.Context, h *Held, want bool, within time.Duration) {
	s.t.Helper()
	begun := time.Now()
	err := h.Await(ctx, anHour)
	if took := time.Since(begun); took < anHour.Idle != want || err != nil || took > within {
		s.t.Errorf("Await = %v after %s; want no error within %s, before its end %t", err, took, within, want)
	}
}

// TestAwaitBeforeIdle: what arrived after the folder was scanned, and before the wait, is seen: the
// server may have told the deliverer, which opened the folder again.
func TestAwaitBeforeIdle(t *testing.T) {
	onSite(t, func(t *testing.T, s *site) {
		_, h, ctx := s.stay()
		s.visit(ctx, h)
		s.put("one")
		check(t, h.session.in(ctx, "INBOX", true, idleIn)) // and with that the server has told it
		s.wantAwait(ctx, h, true, 0)
	})
}

// TestAwaitPolls a server without IDLE, and any server about other folders.
func TestAwaitPolls(t *testing.T) {
	onSite(t, func(t *testing.T, s *site) {
		s.servers[boxA].noIdle = true
		_, h, ctx := s.stay()
		s.visit(ctx, h)
		time.AfterFunc(90*time.Second, func() { s.put("one") })
		s.wantAwait(ctx, h, true, 2*time.Minute)
	})
	onSite(t, func(t *testing.T, s *site) {
		s.addFolder("Junk")
		_, h, ctx := s.stay()
		s.visit(ctx, h)
		time.AfterFunc(90*time.Second, func() { s.servers[boxA].put("Junk", "one") })
		s.wantAwait(ctx, h, true, 2*time.Minute)
		s.visit(ctx, h)
		s.wantSent("one")
	})
}

// addFolder gives boxA one more folder.
func (s *site) addFolder(name string) {
	s.t.Helper()
	in := &s.boxes.rows[0]
	row := in.Folders[0]
	row.ID, row.Name = s.queue.AddFolder(in.ID, name, 7), name
	in.Folders = append(in.Folders, row)
	s.servers[boxA].folders[name] = &fakeFolder{validity: 7, next: 1, mail: map[uint32][]byte{}}
}

// TestAwaitGivesWay to a deliverer that has to fetch a message.
func TestAwaitGivesWay(t *testing.T) {
	onSite(t, func(t *testing.T, s *site) {
		s.registered(boxA, "one") // no body of it is here
		_, h, ctx := s.stay()
		s.boxes.busy = &inbox.Busy{Holder: "other:1", Until: time.Now().Add(time.Minute)}
		if busy, err := h.Visit(ctx); busy == nil || err != nil {
			t.Errorf("Visit beside another run = %v, %v; want that run", busy, err)
		}
		synctest.Wait()
		s.wantSent("one")

		s.boxes.busy = nil
		s.visit(ctx, h)
		s.registered(boxA, "two")
		s.visit(ctx, h)
		s.registered(boxA, "three")
		awaited := make(chan bool, 1)
		go func() {
			h.session.scanned.add("INBOX", h.session.folder) // so that only three is news, and not at once
			awaited <- h.Await(ctx, anHour) == nil
		}()
		synctest.Wait()
		h.Deliver(ctx)
		time.Sleep(time.Minute) // Await may get the turn again first, and is asked again
		synctest.Wait()
		s.wantSent("one", "two", "three")
	})
}
