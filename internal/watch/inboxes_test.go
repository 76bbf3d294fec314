package watch

import (
	"slices"
	"testing"
	"time"

	"postrider/internal/inbox"
)

// TestInboxes: an inbox that is added, changed or disabled is noticed, and a session outlives a
// change that does not concern its login.
func TestInboxes(t *testing.T) {
	onSite(t, 2, func(t *testing.T, s *site) {
		first, second := s.box(1), s.box(2)
		s.mu.Lock()
		s.boxes = slices.Clone(s.boxes)
		s.boxes[0].Labels = inbox.Labels{"tenant": "acme"}
		s.boxes[1].Password = "another"
		s.boxes = append(s.boxes, inbox.Inbox{ID: 3, Address: "new"})
		s.mu.Unlock()
		after(inboxesEvery)
		s.wantVisits(3, 1)
		if n := s.number(&s.opened); n != 4 || !first.isClosed() || !second.isClosed() {
			t.Errorf("%d sessions were opened, want 4: of three inboxes, and again of the one with a new password", n)
		}
		now := time.Now()
		s.mu.Lock()
		s.boxes = slices.Clone(s.boxes[:2])
		s.boxes[0].LastScannedAt, s.boxes[0].LastError, s.boxes[0].FailingSince = &now, "of a scan", &now
		s.mu.Unlock()
		first = s.box(1)
		after(inboxesEvery)
		if !s.box(3).isClosed() || s.box(1) != first {
			t.Error("an inbox that was disabled is still held, or one that was only scanned is held again")
		}
	})
}

// TestChanged: an inbox that an operator changed, by a rewind of its cursor perhaps, is visited at
// once.
func TestChanged(t *testing.T) {
	onSite(t, 1, func(t *testing.T, s *site) {
		before := s.box(1)
		s.mu.Lock()
		s.boxes = slices.Clone(s.boxes)
		s.boxes[0].UpdatedAt = time.Now()
		s.mu.Unlock()
		after(inboxesEvery)
		if s.box(1) == before {
			t.Error("the change was not noticed, want a keeper that begins again")
		}
		s.wantVisits(1, 1)
		if n := s.number(&s.opened); n != 1 {
			t.Errorf("%d sessions were opened, want the one of before", n)
		}
	})
}

// TestManyAreDisabled: the sessions of inboxes that were disabled or changed end at the same time.
// An inbox that was added does not wait for that.
func TestManyAreDisabled(t *testing.T) {
	onSite(t, 30, func(t *testing.T, s *site) {
		s.change(func() {
			s.boxes = slices.Clone(s.boxes[:20])
			for i := range s.boxes[:10] {
				s.boxes[i].Host = "other.example"
			}
			for _, h := range s.held {
				h.deaf = true
			}
			s.boxes = append(s.boxes, inbox.Inbox{ID: 31, Address: "new"})
		})
		after(inboxesEvery + time.Second)
		if s.box(31) == nil {
			t.Error("an inbox that was added waits until the sessions of others have ended")
		}
		after(3 * time.Second)
		for id := range int64(30) {
			if is, want := s.box(id+1).isClosed(), id >= 20; is != want {
				t.Errorf("inbox %d is closed: %t, want %t", id+1, is, want)
			}
		}
		if n := s.number(&s.opened); n != 41 {
			t.Errorf("%d sessions were opened, want 41: of 31 inboxes, and of 10 on another server", n)
		}
		s.change(func() {
			for _, h := range s.held {
				h.deaf = false
			}
		})
	})
}

// TestRemoved: an inbox that was removed, which is not known yet, is no trouble.
func TestRemoved(t *testing.T) {
	onSite(t, 1, func(t *testing.T, s *site) {
		s.box(1).does(failing(inbox.ErrRemoved))
		s.box(1).news <- struct{}{}
		s.change(func() { s.boxes = nil })
		after(inboxesEvery)
		if !s.box(1).isClosed() {
			t.Error("an inbox that was removed is still held")
		}
		s.wantLogged("level=", 0)
	})
}
