//go:build linux

package e2e

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"postrider/internal/testserver"
)

// soak is `watch` while connections break, the server restarts, and folders get another
// UIDVALIDITY.
type soak struct {
	*watching
	boxes []string
	junk  map[string][][]byte // what was ever in the folder Junk, by inbox
	sent  [][]byte
	n     int

	within time.Duration // how long mail arrives
}

// TestSoak: of all that arrives meanwhile nothing is lost and nothing comes twice, and in the end
// the process holds what it held in the beginning. scripts/soak lets many more messages arrive.
func TestSoak(t *testing.T) {
	arrivals, rounds := 120, 12
	if n, err := strconv.Atoi(os.Getenv("POSTRIDER_SOAK")); err == nil {
		arrivals, rounds = n, max(1, n/40)
	}
	within, _ := time.ParseDuration(os.Getenv("POSTRIDER_SOAK_FOR"))
	s := &soak{within: within, watching: &watching{world: newWorld(t, "sqlite")}, junk: map[string][][]byte{}}
	s.proxy = testserver.NewCutProxy(t, fmt.Sprintf("127.0.0.1:%d", s.imap.Port))
	s.imapPort = s.proxy.Port
	for i := range 5 {
		box := fmt.Sprintf("box%d@firm.example", i)
		s.addInbox(box, "--start", "all", "--folder", "INBOX", "--folder", "Junk")
		s.imap.CreateFolder(t, box, "Junk")
		s.boxes = append(s.boxes, box)
	}
	s.extra = "watch: {poll: 1s, idle: 5s}"
	s.patience = within + time.Hour
	s.configure()
	s.restart()
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("%d messages of %d came; watch said:\n%s\nstatus in the end:\n%s",
				len(s.sink.Messages()), len(s.sent), s.p.stderr.String(), s.start(nil, "status").wait().stdout)
		}
	})
	s.arrive(max(1, arrivals/10))
	s.cameAll()
	before := holdsNow(s.p.cmd.Process.Pid)
	for round := range rounds {
		s.harm(round)
		s.arrive((arrivals - len(s.sent)) / (rounds - round))
		time.Sleep(within / time.Duration(rounds)) // none in the tests
	}
	s.proxy.Refuse(s.t, false)
	s.cameAll()
	s.await("as many open files as in the beginning", func() bool {
		return holdsNow(s.p.cmd.Process.Pid).files <= before.files+5
	})
	after := holdsNow(s.p.cmd.Process.Pid)
	if after.resident > before.resident+before.resident/2+16<<20 {
		t.Errorf("%d MiB resident, and %d MiB in the beginning", after.resident>>20, before.resident>>20)
	}
	s.wantOnce(s.sent)
	_ = s.p.cmd.Process.Signal(syscall.SIGQUIT)
	if n := strings.Count(s.p.wait().stderr, "\ngoroutine "); n > 40+10*len(s.boxes) {
		t.Errorf("%d goroutines in the end, want 40 and ten for each inbox at most", n)
	}
	t.Logf("%d messages, %d connections; %+v in the beginning, %+v in the end",
		len(s.sent), s.proxy.Connections(), before, after)
}

// arrive puts n messages into arbitrary folders.
func (s *soak) arrive(n int) {
	s.t.Helper()
	for left := n; left > 0; {
		some := min(1+rand.IntN(5), left)
		left -= some
		box, folder := s.boxes[rand.IntN(len(s.boxes))], "INBOX"
		msgs := mails(some, fmt.Sprint("soak ", s.n))
		s.n++
		if rand.IntN(3) == 0 {
			folder = "Junk"
			s.junk[box] = append(s.junk[box], msgs...)
		}
		s.imap.Append(s.t, box, folder, msgs...)
		s.sent = append(s.sent, msgs...)
	}
}

// harm is what goes wrong in a round.
func (s *soak) harm(round int) {
	switch round % 4 {
	case 0:
		s.proxy.Cut(testserver.RST)
	case 1:
		s.proxy.Cut(testserver.FIN)
	case 2: // the server is away
		s.proxy.Refuse(s.t, true)
		s.proxy.Cut(testserver.FIN)
	case 3: // it is back, and a folder was made again, with all that was in it
		s.proxy.Refuse(s.t, false)
		box := s.boxes[rand.IntN(len(s.boxes))]
		s.imap.DeleteFolder(s.t, box, "Junk")
		s.imap.CreateFolder(s.t, box, "Junk")
		if msgs := s.junk[box]; len(msgs) > 0 {
			s.imap.Append(s.t, box, "Junk", msgs...)
		}
	}
}

// cameAll waits until all that arrived is at the relay. After many failures a connection may be
// opened again only after a while: the more rounds, the longer.
func (s *soak) cameAll() {
	s.t.Helper()
	s.awaitFor(6*time.Minute+s.within, "all messages come", func() bool {
		return len(s.sink.Messages()) >= len(s.sent)
	})
}

// holdings is what a process holds.
type holdings struct {
	files    int
	resident int64
}

func holdsNow(pid int) holdings {
	files, _ := os.ReadDir(fmt.Sprintf("/proc/%d/fd", pid))
	return holdings{len(files), memoryOf(pid, "VmRSS:")}
}
