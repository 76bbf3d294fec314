package watch

import (
	"errors"
	"testing"
	"time"

	"postrider/internal/imapsrc"
)

// TestDue: tasks are delivered when they are due, and those that others put back soon after.
func TestDue(t *testing.T) {
	onSite(t, 2, func(t *testing.T, s *site) {
		s.change(func() { s.next = 3 * time.Second })
		after(dueEvery)
		s.change(func() { s.due = map[int64]int{2: 1} })
		after(3*time.Second + 2*atOnce)
		if one, two := s.number(&s.box(1).delivered), s.number(&s.box(2).delivered); two == 0 || one > 0 {
			t.Errorf("inbox 1 was delivered %d times and inbox 2 %d times, want only inbox 2", one, two)
		}
		s.box(2).does(failing(errNetwork))
		s.box(2).lost <- errNetwork
		after(10 * time.Second)
		before := s.number(&s.box(2).delivered)
		after(10 * time.Second)
		if s.number(&s.box(2).delivered) != before {
			t.Error("an inbox that cannot be read is delivered: its messages cannot be fetched")
		}
	})
}

// TestDueSoon: what others put back is delivered soon, in each of their inboxes, although the next
// task that is known is due much later.
func TestDueSoon(t *testing.T) {
	onSite(t, 3, func(t *testing.T, s *site) {
		s.change(func() { s.next = time.Hour })
		after(dueEvery)
		s.change(func() { s.due = map[int64]int{1: 1, 2: 1, 3: 1} })
		after(dueEvery)
		for id := range int64(3) {
			if s.number(&s.box(id+1).delivered) == 0 {
				t.Errorf("inbox %d was not delivered within %s", id+1, dueEvery)
			}
		}
	})
}

// TestOneFolderFails: while a folder cannot be opened, the other folders are asked about as often
// as always, and what is due is delivered.
func TestOneFolderFails(t *testing.T) {
	onSite(t, 1, func(t *testing.T, s *site) {
		box := s.box(1)
		box.keepsConnection = true
		box.does(failing(&imapsrc.Error{Kind: imapsrc.KindNoFolder, Err: errors.New("no such folder")}))
		box.news <- struct{}{}
		after(2 * time.Minute) // the second pause is longer than the time between looks
		s.change(func() { s.due = map[int64]int{1: 1} })
		after(dueEvery)
		if s.number(&box.delivered) == 0 {
			t.Error("what is due is not delivered, although there is a connection")
		}
		all := box.waited()
		if p := all[len(all)-1]; p.Idle != 2*time.Minute || p.Poll != time.Minute {
			t.Errorf("it waits for %+v, want 2 minutes and a look each minute", p)
		}
	})
}
