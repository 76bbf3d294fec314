package pass

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"postrider/internal/imapsrc"
	"postrider/internal/inbox"
)

// patience is how long a fake server that is silent keeps a connection waiting.
const patience = 30 * time.Second

// addAt adds inboxes to a site, all at one server, and returns their addresses.
func (s *site) addAt(host string, n int) (addrs []string) {
	s.t.Helper()
	for i := range n {
		addr := fmt.Sprintf("box%d@%s", i, host)
		s.boxes.add(addr)
		s.boxes.rows[len(s.boxes.rows)-1].Host = host
		s.servers[addr] = newFakeServer(s.t)
		addrs = append(addrs, addr)
	}
	return addrs
}

// silence makes the servers of these inboxes accept connections and say nothing.
func (s *site) silence(addrs ...string) {
	for _, addr := range addrs {
		s.servers[addr].hook = func(context.Context, string, uint32) error {
			<-time.After(patience)
			return &imapsrc.Error{
				Kind: imapsrc.KindNetwork, Op: "connect", Host: "imap:993", Err: errors.New("no answer within 30s"),
			}
		}
	}
}

func (s *site) dials(addrs []string) (n int) {
	for _, addr := range addrs {
		dials, _ := s.servers[addr].counts()
		n += dials
	}
	return n
}

// TestSilentHost: 24 inboxes at a server that accepts connections and is silent cost one wait, and
// inboxes at other servers none.
func TestSilentHost(t *testing.T) {
	onSite(t, func(t *testing.T, s *site) {
		s.pass.Config.Turns = Turns{8, 8, anyNumber}
		silent := s.addAt("silent.example", 24)
		s.silence(silent...)
		var healthy []string
		for i := range 5 {
			healthy = append(healthy, s.addAt(fmt.Sprintf("imap%d.example", i), 1)...)
		}
		began := time.Now()
		var late atomic.Int64 // reads a second or more after the pass began
		for _, addr := range healthy {
			s.servers[addr].put("INBOX", "hello")
			s.servers[addr].hook = func(context.Context, string, uint32) error {
				if time.Since(began) > time.Second {
					late.Add(1)
				}
				return nil
			}
		}
		report := s.run(append(silent, healthy...)...)
		if took := time.Since(began); took > patience+time.Second {
			t.Errorf("the pass took %v, want one wait of %v", took, patience)
		}
		if n := late.Load(); n > 0 {
			t.Errorf("%d reads of healthy inboxes were late, want no delay", n)
		}
		if n := s.dials(silent); n > 8 {
			t.Errorf("%d connections were tried, want no more than at first", n)
		}
		for i, in := range report.Inboxes {
			switch {
			case i < 24 && !strings.Contains(in.Error, "no answer within 30s"):
				t.Errorf("%s: the error is %q, want why its server was not reached", in.Email, in.Error)
			case i >= 24 && (in.Error != "" || in.Counters.Forwarded != 1):
				t.Errorf("%s: %+v, want its message forwarded", in.Email, in)
			}
		}
		if report.Clean() {
			t.Error("the report is clean; want the inboxes that were not tried to count as unreachable")
		}
		if n := len(s.boxes.finished); n != len(report.Inboxes) {
			t.Errorf("%d scans are recorded, want all %d, so that status shows why", n, len(report.Inboxes))
		}
		s.wantLeft(silent)
	})
}

// wantLeft checks that two of the inboxes have a line of their own in the log, and that one more
// line names the rest.
func (s *site) wantLeft(addrs []string) {
	s.t.Helper()
	var failed, left []string
	for line := range strings.Lines(s.log.String()) {
		if strings.Contains(line, "level=ERROR") && strings.Contains(line, "the inbox failed") {
			failed = append(failed, line)
		}
		if strings.Contains(line, "skipped in this pass") && strings.Contains(line, "level=ERROR") {
			left = append(left, line)
		}
	}
	if len(failed) != 2 || len(left) != 1 {
		s.t.Fatalf("%d inboxes failed with a line of their own, "+
			"and %d lines say that a server was left; want 2 and 1\n%s",
			len(failed), len(left), s.log.String())
	}
	named := 0
	for _, addr := range addrs {
		if strings.Contains(left[0], addr+",") {
			named++
		}
	}
	if want := min(len(addrs)-2, maxNamed); named != want || !strings.Contains(left[0], "silent.example") {
		s.t.Errorf("the line is %q; want the server in it, and %d inboxes", left[0], want)
	}
}

// TestHostIsLeft only when two inboxes cannot reach it one after the other, and not because of a
// login that is refused.
func TestHostIsLeft(t *testing.T) {
	network, login := errNetwork, errLogin
	for name, tc := range map[string]struct {
		dials []error // of the inboxes, in order
		tried int
	}{
		"one fails":               {[]error{network, nil, nil}, 3},
		"two fail":                {[]error{network, network, nil, nil}, 2},
		"two fail after a login":  {[]error{nil, network, network, nil}, 3},
		"a login between the two": {[]error{network, nil, network, nil}, 4},
		"logins are refused":      {[]error{login, login, login}, 3},
		"refused, then two fail":  {[]error{login, network, network, nil}, 3},
		"a refusal between":       {[]error{network, login, network, nil}, 4},
	} {
		t.Run(name, func(t *testing.T) {
			onSite(t, func(t *testing.T, s *site) {
				s.pass.Config.Turns.Inboxes = 1
				addrs := s.addAt("imap.example", len(tc.dials))
				for i, addr := range addrs {
					s.servers[addr].hook = func(_ context.Context, op string, _ uint32) error {
						if err := tc.dials[i]; op == "dial" && err != nil {
							return err
						}
						return nil
					}
				}
				report := s.run(addrs...)
				if n := s.dials(addrs); n != tc.tried {
					t.Errorf("%d inboxes were tried, want %d", n, tc.tried)
				}
				for i, in := range report.Inboxes {
					fails := tc.dials[i] != nil || s.dials(addrs[i:i+1]) == 0
					if fails != (in.Error != "") {
						t.Errorf("inbox %d: the error is %q; want one exactly if it was not reached", i, in.Error)
					}
				}
			})
		})
	}
}

// TestHostIsOnePort: another port of the same host is another server.
func TestHostIsOnePort(t *testing.T) {
	onSite(t, func(t *testing.T, s *site) {
		addrs := s.addAt("imap.example", 4)
		s.silence(addrs[:2]...)
		for i := range s.boxes.rows {
			s.boxes.rows[i].Port = 993
		}
		s.boxes.rows[len(s.boxes.rows)-1].Port = 143
		s.pass.Config.Turns.Inboxes = 1
		report := s.run(addrs...)
		for i, wantErr := range []bool{true, true, true, false} {
			if in := report.Inboxes[i]; (in.Error != "") != wantErr {
				t.Errorf("inbox %d: the error is %q", i, in.Error)
			}
		}
	})
}

// TestInterruptedHost: a pass that is stopped while it connects leaves no server for unreachable.
func TestInterruptedHost(t *testing.T) {
	onSite(t, func(t *testing.T, s *site) {
		addrs := s.addAt("imap.example", 3)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		for _, addr := range addrs {
			s.servers[addr].hook = func(context.Context, string, uint32) error {
				cancel()
				return errNetwork
			}
		}
		report := s.end(s.start(ctx, addrs...))
		if strings.Contains(s.log.String(), "skipped in this pass") || !report.Interrupted {
			t.Errorf("the report is %+v; want the pass to be interrupted, and no server to be left\n%s",
				report, s.log.String())
		}
	})
}

// TestAuditLeavesSilentHost: an audit leaves it, too.
func TestAuditLeavesSilentHost(t *testing.T) {
	onSite(t, func(t *testing.T, s *site) {
		s.pass.Config.Turns.Inboxes = 1
		addrs := s.addAt("silent.example", 6)
		s.silence(addrs...)
		began := time.Now()
		var failed int
		boxes := s.inboxes(addrs)
		s.pass.compare(t.Context(), boxes, func(_ int, v visit) error {
			return v.session.within(t.Context(), "INBOX", 7, nothing)
		}, func(int, error) { failed++ })
		if took := time.Since(began); failed != 6 || took > 2*patience {
			t.Errorf("%d inboxes failed after %v; want all 6 after %v", failed, took, 2*patience)
		}
	})
}

// TestGivingUp: what only looks at inboxes leaves it, and other servers are tried.
func TestGivingUp(t *testing.T) {
	boxes := make([]inbox.Inbox, 7)
	for i := range boxes {
		boxes[i].Host, boxes[i].Port = "silent.example", 993
	}
	boxes[6].Host = "imap.example"
	dialled, errs := 0, make([]error, len(boxes))
	dial := func(_ context.Context, in inbox.Inbox) (string, error) {
		if dialled++; in.Host == "imap.example" {
			return "a connection", nil
		}
		return "", errNetwork
	}
	dial = GivingUp(dial)
	Turns{1, 1, anyNumber}.Each(boxes, func(i int, in inbox.Inbox) { _, errs[i] = dial(t.Context(), in) })
	if dialled != 3 || errs[6] != nil {
		t.Errorf("%d connections were tried, and the other server has the error %v; "+
			"want two of the silent server, and none", dialled, errs[6])
	}
	for i, err := range errs[:6] {
		left := strings.HasPrefix(fmt.Sprint(err), "not tried: silent.example:993 could not be reached (")
		if err == nil || left != (i >= 2) {
			t.Errorf("inbox %d: the error is %v; want its own, or from the third on that it was not tried", i, err)
		}
	}
}
