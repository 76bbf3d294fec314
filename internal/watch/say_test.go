package watch

import (
	"reflect"
	"slices"
	"testing"
	"time"

	"postrider/internal/pass"
)

// TestSay: what to say is asked soon after a change, and each minute. Inboxes that fail together
// are in it together.
func TestSay(t *testing.T) {
	onSite(t, 3, func(t *testing.T, s *site) {
		after(sayAfter)
		s.wantSaid(1, pass.InboxReport{Email: "box"})
		down := pass.InboxReport{
			Email: "box", Error: "imap imap.example:993: connect: no route to host", Left: "imap.example:993",
		}
		for id := range int64(3) {
			s.box(id + 1).does(failing(errNetwork))
			s.box(id + 1).lost <- errNetwork
		}
		after(4*time.Second + sayAfter)
		s.wantSaid(2, down)
		after(sayEvery)
		s.wantSaid(3, down)
	})
}

// TestSayOnce: what a visit came to is said once, because other processes may find something else
// later. What could not be said is said again.
func TestSayOnce(t *testing.T) {
	onSite(t, 2, func(t *testing.T, s *site) {
		s.change(func() { s.mute = true })
		well, not := pass.InboxReport{Email: "box"}, pass.InboxReport{Email: "box", Busy: notVisited}
		after(sayAfter)
		s.wantSaid(1, well)
		s.change(func() { s.mute = false })
		after(sayEvery)
		s.wantSaid(2, well)
		s.change(func() { s.mute = true })
		after(sayEvery)
		s.wantSaid(3, not)
		after(sayEvery)
		s.wantSaid(4, not)
	})
}

// TestSayWhileMuchChanges: changes that follow each other without end keep nothing from being said.
func TestSayWhileMuchChanges(t *testing.T) {
	onSite(t, 1, func(t *testing.T, s *site) {
		after(sayAfter)
		for range 20 {
			s.w.tell()
			after(sayAfter / 2)
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		if n := len(s.says); n < 6 || n > 11 {
			t.Errorf("asked %d times what to say in 10 seconds of changes, want about once a second", n-1)
		}
	})
}

// TestSayAtTheEnd: what has changed just before the end is reported, too.
func TestSayAtTheEnd(t *testing.T) {
	onSite(t, 1, func(t *testing.T, s *site) {
		after(sayAfter)
		s.box(1).does(failing(errAuth))
		s.box(1).news <- struct{}{}
		after(apart)
		s.end()
		s.wantSaid(2, pass.InboxReport{Email: "box", Error: errAuth.Error()})
	})
}

// wantSaid checks how often it was asked what to say, and what of the inboxes the last time.
func (s *site) wantSaid(times int, each pass.InboxReport) {
	s.t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	last := s.says[len(s.says)-1]
	want := slices.Repeat([]pass.InboxReport{each}, len(s.boxes))
	if len(s.says) != times || !reflect.DeepEqual(last, want) {
		s.t.Errorf("asked %d times, the last time with %+v; want %d times, and %+v", len(s.says), last, times, want)
	}
}
