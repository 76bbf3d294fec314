package watch

import (
	"errors"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"postrider/internal/imapsrc"
	"postrider/internal/inbox"
	"postrider/internal/pass"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// wantVisits checks how often an inbox was visited.
func (s *site) wantVisits(id int64, want int) {
	s.t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	if got := s.held[id].visits; got != want {
		s.t.Errorf("inbox %d was visited %d times, want %d", id, got, want)
	}
}

// TestVisits: an inbox is visited at the start, when something arrives, and now and then.
func TestVisits(t *testing.T) {
	onSite(t, 2, func(t *testing.T, s *site) {
		s.wantVisits(1, 1)
		s.box(1).news <- struct{}{}
		after(apart)
		s.wantVisits(1, 2)
		s.wantVisits(2, 1)
		after(9 * time.Minute)
		s.wantVisits(1, 3)
		s.wantVisits(2, 2)
		if !s.end() {
			t.Error("all is well, and Run says that something is left")
		}
	})
}

// TestTalkative: a server that announces mail without end gets four visits a second; after a
// silence the inbox is visited at once.
func TestTalkative(t *testing.T) {
	for name, visit := range map[string]func() (*inbox.Busy, error){
		"there is nothing": nil,
		"a folder fails":   failing(&imapsrc.Error{Kind: imapsrc.KindNoFolder, Err: errors.New("NO such folder")}),
	} {
		t.Run(name, func(t *testing.T) {
			onSite(t, 1, func(t *testing.T, s *site) {
				after(time.Minute)
				s.box(1).does(visit)
				s.box(1).keepsConnection = true
				s.box(1).news <- struct{}{}
				after(0)
				s.wantVisits(1, 2)
				for range 1000 {
					select {
					case s.box(1).news <- struct{}{}:
					default:
					}
					after(time.Millisecond)
				}
				s.wantVisits(1, 2+4)
			})
		})
	}
}

// TestNotInStep: inboxes that were visited at the same time are not visited at the same time again.
func TestNotInStep(t *testing.T) {
	onSite(t, 3, func(t *testing.T, s *site) {
		n := 0.0
		s.w.cfg.Random = func() float64 { s.mu.Lock(); defer s.mu.Unlock(); n += 0.1; return n }
		for id := range int64(3) {
			s.box(id + 1).news <- struct{}{}
			after(apart)
		}
		waits := map[time.Duration]bool{}
		for id := range int64(3) {
			all := s.box(id + 1).waited()
			waits[all[len(all)-1].Idle] = true
		}
		if len(waits) != 3 {
			t.Errorf("three inboxes wait for %v, want three different times", waits)
		}
	})
}

// TestUnreachable: pauses grow. The status has the failure, and what to say has it soon and each
// minute.
func TestUnreachable(t *testing.T) {
	onSite(t, 3, func(t *testing.T, s *site) {
		for id := range int64(2) {
			s.box(id + 1).does(failing(errNetwork))
			s.box(id + 1).lost <- errNetwork
		}
		after(5 * time.Second) // at once or so, and then after 10 s, 20 s, 40 s, 80 s, and 160 s
		s.wantVisits(1, 2)
		after(4 * time.Minute)
		s.wantVisits(1, 6)
		s.wantStatus("STATUS=1 of 3 inboxes, 2 unreachable")
		s.wantLogged("the inbox cannot be read", 2)
		for id := range int64(2) {
			s.box(id + 1).does(nil)
		}
		after(10 * time.Minute)
		s.wantStatus("STATUS=3 of 3 inboxes")
		s.wantLogged("the inbox can be read again", 2)
		s.wantLogged("level=ERROR", 0)
	})
}

// TestLostAfterFailure: a server that has no such folder, and ends connections that wait, is not
// logged in to without a pause.
func TestLostAfterFailure(t *testing.T) {
	onSite(t, 1, func(t *testing.T, s *site) {
		box := s.box(1)
		box.keepsConnection = true
		box.does(failing(&imapsrc.Error{Kind: imapsrc.KindNoFolder, Err: errors.New("no such folder")}))
		over := make(chan struct{})
		go func() {
			for {
				select {
				case box.lost <- errNetwork:
				case <-over:
					return
				}
			}
		}()
		after(time.Hour)
		close(over)
		if n := s.number(&box.visits); n > 300 { // one each 15 seconds, once the pauses have grown
			t.Errorf("%d visits in an hour, each with a login", n)
		}
	})
}

// TestPausedWhileConnected: what has arrived before a pause that the server asked for does not end
// it.
func TestPausedWhileConnected(t *testing.T) {
	onSite(t, 1, func(t *testing.T, s *site) {
		box := s.box(1)
		box.keepsConnection = true
		box.does(failing(&pass.PausedError{Until: time.Now().Add(30 * time.Minute)}))
		over := make(chan struct{})
		go func() {
			for {
				select {
				case box.news <- struct{}{}:
				case <-over:
					return
				}
			}
		}()
		after(29 * time.Minute)
		s.wantVisits(1, 2+5)
		box.does(nil)
		close(over)
		after(2 * time.Minute)
		if n := s.number(&box.visits); n < 8 {
			t.Errorf("%d visits, want one more after the pause", n)
		}
	})
}

// TestPausedByAWrongClock: a pause that was stored while the clock of the database was ahead is
// corrected there, and the inbox is visited soon after that.
func TestPausedByAWrongClock(t *testing.T) {
	onSite(t, 1, func(t *testing.T, s *site) {
		box := s.box(1)
		box.does(failing(&pass.PausedError{Until: time.Now().Add(24 * time.Hour)}))
		box.news <- struct{}{}
		after(time.Minute)
		s.wantVisits(1, 2)
		box.does(nil)
		after(askPaused)
		s.wantVisits(1, 3)
		s.wantLogged("the inbox can be read again", 1)
	})
}

func (s *site) wantStatus(want string) {
	s.t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	var last string
	for _, told := range s.told {
		if i := strings.Index(told, "STATUS="); i >= 0 {
			last = told[i:]
		}
	}
	if last != want {
		s.t.Errorf("the last status is %q, want %q", last, want)
	}
}

// TestUncleanEnd: what is left to be tried again shows in the exit code.
func TestUncleanEnd(t *testing.T) {
	for name, spoil := range map[string]func(s *site){
		"an inbox": func(s *site) {
			s.box(1).does(failing(errNetwork))
			s.box(1).news <- struct{}{}
			after(apart)
		},
		"the relay": func(s *site) { s.change(func() { s.relay = errors.New("421") }) },
		"a task":    func(s *site) { s.change(func() { s.due = map[int64]int{1: 1} }) },
		"a server that does not answer": func(s *site) {
			s.change(func() { s.silent = true })
			s.opensAgain()
		},
	} {
		t.Run(name, func(t *testing.T) {
			onSite(t, 1, func(t *testing.T, s *site) {
				spoil(s)
				if s.end() {
					t.Error("something is left, and Run says that all is well")
				}
			})
		})
	}
}

// TestCleanEnd: an inbox that another run scans is not left to be tried again.
func TestCleanEnd(t *testing.T) {
	onSite(t, 1, func(t *testing.T, s *site) {
		s.box(1).does(func() (*inbox.Busy, error) { return &inbox.Busy{Holder: "other"}, nil })
		s.opensAgain()
		if !s.end() {
			t.Error("another run scans the inbox, and Run says that something is left")
		}
	})
}

// TestHints: a server that asks to be left alone is left alone, a wrong password is not tried
// often, and a folder that cannot be opened keeps nobody from watching the others.
func TestHints(t *testing.T) {
	for name, tt := range map[string]struct {
		err   error
		least time.Duration
	}{
		"a hint":           {errLater, 20 * time.Minute},
		"a wrong password": {errAuth, time.Minute},
		"a limit":          {errLimit, time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			onSite(t, 1, func(t *testing.T, s *site) {
				s.box(1).does(failing(tt.err))
				s.box(1).news <- struct{}{}
				after(tt.least - time.Second)
				s.wantVisits(1, 2)
				after(40 * time.Second)
				s.wantVisits(1, 3)
			})
		})
	}
}

// TestBusy: while another run scans, this one asks again soon, and does not wait for mail.
func TestBusy(t *testing.T) {
	onSite(t, 1, func(t *testing.T, s *site) {
		s.box(1).does(func() (*inbox.Busy, error) { return &inbox.Busy{Holder: "other"}, nil })
		s.box(1).news <- struct{}{}
		after(10 * time.Second) // after 1 s, 2 s, 4 s, ...
		s.wantVisits(1, 5)
		after(10 * time.Minute)
		s.box(1).does(nil)
		after(30 * time.Second)
		before := s.number(&s.box(1).visits)
		s.box(1).news <- struct{}{}
		after(0)
		s.wantVisits(1, before+1)
	})
}

// TestBusyWhileUnreachable: that another run is at work does not mean that the server can be
// reached.
func TestBusyWhileUnreachable(t *testing.T) {
	onSite(t, 1, func(t *testing.T, s *site) {
		box := s.box(1)
		box.does(failing(errNetwork))
		box.lost <- errNetwork
		after(5 * time.Second)
		box.does(func() (*inbox.Busy, error) { return &inbox.Busy{Holder: "other"}, nil })
		after(10 * time.Minute)
		s.wantLogged("the inbox can be read again", 0)
		s.wantStatus("STATUS=0 of 1 inbox, 1 unreachable")
		if s.end() {
			t.Error("the inbox cannot be read, and Run says that all is well")
		}
	})
}

// TestDatabase: it is said once that the database is away, and once that it is there again.
func TestDatabase(t *testing.T) {
	onSite(t, 5, func(t *testing.T, s *site) {
		s.change(func() { s.away = errAway })
		for id := range int64(5) {
			s.box(id + 1).does(failing(errAway))
			s.box(id + 1).news <- struct{}{}
		}
		after(time.Minute)
		s.wantLogged("the database cannot be used", 1)
		s.wantLogged("the inbox cannot be read", 0)
		s.wantStatus("STATUS=5 of 5 inboxes, the database cannot be used")
		s.change(func() { s.away = nil })
		for id := range int64(5) {
			s.box(id + 1).does(nil)
		}
		after(time.Minute)
		s.wantLogged("msg=\"the database can be used again\"\n", 1)
	})
}

// TestDatabaseIsBack: it is said also when no inbox can be read then, another run scans the inbox,
// or no inbox is left.
func TestDatabaseIsBack(t *testing.T) {
	for name, then := range map[string]func(s *site){
		"no inbox can be read": func(s *site) { s.box(1).does(failing(errAuth)) },
		"another run scans": func(s *site) {
			s.box(1).does(func() (*inbox.Busy, error) { return &inbox.Busy{Holder: "other"}, nil })
		},
		"no inbox is left": func(s *site) { s.change(func() { s.boxes = nil }) },
	} {
		t.Run(name, func(t *testing.T) {
			onSite(t, 1, func(t *testing.T, s *site) {
				s.box(1).does(failing(errAway))
				s.box(1).news <- struct{}{}
				after(time.Minute)
				s.wantLogged("the database cannot be used", 1)
				then(s)
				after(time.Minute)
				s.wantLogged("the database can be used again", 1)
			})
		})
	}
}

// TestFullDisk: what can be read still says nothing of what can be written.
func TestFullDisk(t *testing.T) {
	onSite(t, 2, func(t *testing.T, s *site) {
		for id := range int64(2) {
			s.box(id + 1).does(failing(errAway))
			s.box(id + 1).news <- struct{}{}
		}
		after(5 * time.Minute)
		s.wantLogged("the database cannot be used", 1)
		s.wantLogged("the database can be used again", 0)
	})
}

// TestWatchdog: the manager hears of the start, of the end, and in between.
func TestWatchdog(t *testing.T) {
	onSite(t, 1, func(t *testing.T, s *site) {
		after(5 * time.Minute)
		s.end()
		alive := 0
		for _, told := range s.told {
			if told == "WATCHDOG=1" {
				alive++
			}
		}
		// The inbox may be open by then.
		ready := s.told[0] == "READY=1 STATUS=0 of 1 inbox" || s.told[0] == "READY=1 STATUS=1 of 1 inbox"
		if !ready || alive != 10 || s.told[len(s.told)-1] != "STOPPING=1" {
			t.Errorf("the manager got %q; want READY=1, WATCHDOG=1 ten times, STOPPING=1", s.told)
		}
		if n := s.number(&s.chores); n != 5 {
			t.Errorf("the chores were done %d times in five minutes, want 5", n)
		}
	})
}
