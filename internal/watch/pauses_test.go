package watch

import (
	"testing"
	"time"
)

// TestLossesForgotten: the pauses after lost connections grow, and begin again with the first one
// after a connection has held for a minute.
func TestLossesForgotten(t *testing.T) {
	onSite(t, 1, func(t *testing.T, s *site) {
		box := s.box(1)
		for range 6 {
			box.lost <- errNetwork
			after(20 * time.Second)
		}
		s.wantVisits(1, 7)
		box.lost <- errNetwork
		after(10 * time.Second)
		s.wantVisits(1, 7) // 15 s after the visit before
		after(10*time.Second + steady)
		s.wantVisits(1, 8)
		box.lost <- errNetwork
		after(2 * time.Second)
		s.wantVisits(1, 9)
	})
}

// TestFailuresForgotten: after a visit that worked, the pauses after failures begin again with the
// first one.
func TestFailuresForgotten(t *testing.T) {
	onSite(t, 1, func(t *testing.T, s *site) {
		box := s.box(1)
		box.does(failing(errNetwork))
		box.news <- struct{}{}
		after(100 * time.Second) // 10 s, 20 s, 40 s, 80 s
		s.wantVisits(1, 5)
		box.does(nil)
		after(55 * time.Second)
		s.wantVisits(1, 6)
		box.does(failing(errNetwork))
		box.news <- struct{}{}
		after(11 * time.Second)
		s.wantVisits(1, 8)
	})
}

// TestLost: after a connection was lost, the pause is as long as the server asks for, and longer if
// it asks for less or refuses the login.
func TestLost(t *testing.T) {
	for name, tt := range map[string]struct {
		err  error
		want time.Duration
	}{
		"the network": {errNetwork, 1500 * time.Millisecond},
		"a limit":     {errLimit, time.Minute},
		"a refusal":   {errAuth, time.Minute},
		"a hint":      {errLater, 20*time.Minute + 5*time.Second},
	} {
		if got := new(pauses).lost(tt.err, func() float64 { return 0.5 }); got != tt.want {
			t.Errorf("%s: the pause is %s, want %s", name, got, tt.want)
		}
	}
}

// TestRelayAgain: the first pause of a relay is short, and the longest is not too long.
func TestRelayAgain(t *testing.T) {
	for n, want := range map[int]time.Duration{
		1: 10 * time.Second, 2: 20 * time.Second, 6: 5 * time.Minute, 1000: 5 * time.Minute,
	} {
		if got := RelayAgain(n); got != want {
			t.Errorf("after fault %d the relay is tried again in %s, want %s", n, got, want)
		}
	}
}
