package watch

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"postrider/internal/inbox"
)

// edit changes the file.
func (s *site) edit(to string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.files = to
}

// TestReload: a changed file is read once it no longer changes, and sessions go on.
func TestReload(t *testing.T) {
	onSite(t, 2, func(t *testing.T, s *site) {
		after(filesEvery)
		if n := s.number(&s.loads); n != 0 {
			t.Errorf("a file that did not change was read %d times", n)
		}
		s.edit("2")
		after(filesEvery)
		s.edit("3") // it is still being written
		after(filesEvery)
		if s.number(&s.loads) != 0 {
			t.Error("a file was read while it was being written")
		}
		after(filesEvery)
		loads, ends, opened := s.number(&s.loads), s.number(&s.ends), s.number(&s.opened)
		if loads != 1 || ends != 1 || opened != 2 {
			t.Errorf("%d loads, %d ends of the old setup, %d sessions; want 1, 1, and only the 2 of before",
				loads, ends, opened)
		}
		s.wantVisits(1, 0) // its session is ready
		s.box(1).news <- struct{}{}
		after(0)
		s.wantVisits(1, 1)
		after(time.Minute)
		if n := s.number(&s.loads); n != 1 {
			t.Errorf("it was read %d times, want once", n)
		}
	})
}

// TestReloadWithoutDatabase: sessions go on when the inboxes cannot be listed in that moment.
func TestReloadWithoutDatabase(t *testing.T) {
	onSite(t, 2, func(t *testing.T, s *site) {
		s.change(func() { s.away = errAway })
		s.w.Reload()
		after(time.Second)
		s.change(func() { s.away = nil })
		after(time.Minute)
		if n := s.number(&s.opened); n != 2 {
			t.Errorf("%d sessions, want the 2 of before", n)
		}
	})
}

// opensAgain has all sessions opened again.
func (s *site) opensAgain() {
	s.change(func() { s.load = func() (*Setup, error) { return s.setup("other logins"), nil } })
	s.w.Reload()
	after(0)
}

// TestReloadLogins: what concerns all logins has all sessions opened again.
func TestReloadLogins(t *testing.T) {
	onSite(t, 2, func(t *testing.T, s *site) {
		s.opensAgain()
		if n := s.number(&s.opened); n != 4 {
			t.Errorf("%d sessions, want 4", n)
		}
	})
}

// TestStatusAfterReload: the status is right after a reload, too, when new sessions are soon open.
func TestStatusAfterReload(t *testing.T) {
	onSite(t, 1, func(t *testing.T, s *site) {
		after(2 * statusEvery)
		s.w.cfg.Random = func() float64 { return 0 } // the first pause is half a second
		s.box(1).does(func() (*inbox.Busy, error) { return &inbox.Busy{Holder: "other"}, nil })
		s.opensAgain()
		s.box(1).does(nil)
		after(2 * statusEvery)
		s.wantStatus("STATUS=1 of 1 inbox")
	})
}

// TestReloadDuringAPause: an inbox that fails is visited at the end of its pause, however often the
// configuration is edited, and its pauses grow. After a SIGHUP it is visited at once.
func TestReloadDuringAPause(t *testing.T) {
	for name, keeps := range map[string]bool{"a refused login": false, "a folder that fails": true} {
		t.Run(name, func(t *testing.T) {
			onSite(t, 1, func(t *testing.T, s *site) {
				visits := 0
				s.box(1).keepsConnection = keeps
				s.box(1).does(func() (*inbox.Busy, error) { visits++; return nil, errAuth })
				s.box(1).news <- struct{}{}
				for i, want := range []int{1, 2, 2, 3} { // after one minute, and after two more
					s.edit(fmt.Sprint(i))
					after(50 * time.Second)
					if n := s.number(&visits); n != want {
						t.Errorf("%d visits after edit %d, want %d", n, i, want)
					}
				}
				s.wantStatus("STATUS=0 of 1 inbox, 1 unreachable")
				s.w.Reload()
				after(time.Second)
				if n := s.number(&visits); n != 4 {
					t.Errorf("%d visits after a SIGHUP, want 4", n)
				}
				s.wantLogged("the inbox cannot be read", 1)
			})
		})
	}
}

// TestBroken: a broken edit and its fix are logged once each; until then the old setup stays in
// force.
func TestBroken(t *testing.T) {
	onSite(t, 1, func(t *testing.T, s *site) {
		works := s.load
		s.change(func() { s.load = func() (*Setup, error) { return nil, errors.New("line 7: unknown key") } })
		s.edit("2")
		after(time.Minute)
		s.w.Reload()
		after(time.Minute)
		s.wantLogged("the previous one stays in force", 1)
		s.wantStatus("STATUS=1 of 1 inbox, the configuration has errors")
		s.box(1).news <- struct{}{}
		after(0)
		s.wantVisits(1, 2)
		s.change(func() { s.load = works })
		s.edit("3")
		after(time.Minute)
		s.wantLogged(`level=WARN msg="the configuration is valid again and in force"`, 1)
		s.wantStatus("STATUS=1 of 1 inbox")
		s.w.Reload()
		after(0)
		s.wantLogged("is valid again and in force", 1)
		s.wantLogged(`level=INFO msg="the configuration was read again"`, 1)
	})
}

// TestBrokenForAWhile: what could not be read may be readable later, without an edit.
func TestBrokenForAWhile(t *testing.T) {
	onSite(t, 1, func(t *testing.T, s *site) {
		works := s.load
		s.change(func() { s.load = func() (*Setup, error) { return nil, errors.New("the database is away") } })
		s.edit("2")
		after(10 * time.Second)
		s.wantStatus("STATUS=1 of 1 inbox, the configuration has errors")
		s.change(func() { s.load = works })
		after(staleEvery)
		s.wantLogged("the configuration is valid again and in force", 1)
		s.wantStatus("STATUS=1 of 1 inbox")
	})
}

// TestStale: so has a changed directory the configuration read again.
func TestStale(t *testing.T) {
	onSite(t, 1, func(t *testing.T, s *site) {
		s.change(func() {
			s.stale = true
			s.load = func() (*Setup, error) { s.stale = false; return s.setup("logins"), nil }
		})
		after(2 * staleEvery)
		if n := s.number(&s.loads); n != 1 {
			t.Errorf("it was read %d times, want once", n)
		}
		s.change(func() {
			s.stale, s.load = true, func() (*Setup, error) { return nil, errors.New("the vault does not answer") }
		})
		after(staleEvery)
		s.wantLogged(`"the configuration cannot be used; the previous one stays in force"`, 1) // it is unchanged
	})
}

// TestReloadDuringChores: an old setup is closed once its chores are done.
func TestReloadDuringChores(t *testing.T) {
	onSite(t, 1, func(t *testing.T, s *site) {
		done := make(chan struct{})
		s.change(func() { s.lasts = done })
		after(choresEvery)
		s.w.Reload()
		after(0)
		if ends, closes := s.number(&s.ends), s.number(&s.closes); ends != 1 || closes != 0 {
			t.Errorf("the old setup has ended %d times and was closed %d times during its chores, want once and never",
				ends, closes)
		}
		close(done)
		after(0)
		if n := s.number(&s.closes); n != 1 {
			t.Errorf("the old setup was closed %d times after its chores, want once", n)
		}
	})
}
