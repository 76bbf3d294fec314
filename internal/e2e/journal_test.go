package e2e

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"postrider/internal/testserver"
	"postrider/internal/testserver/smtpsink"
)

// far puts the database a round trip away. SQLite stays where it is.
func (w *world) far(roundTrip time.Duration) {
	w.t.Helper()
	if before, rest, ok := strings.Cut(w.database, "tcp("); ok {
		addr, rest, _ := strings.Cut(rest, ")")
		w.database = before + "tcp(" + testserver.NewDelayProxy(w.t, addr, roundTrip).Addr() + ")" + rest
	}
	w.configure()
}

var commitsLogged = regexp.MustCompile(`msg="commits to the database" commits=(\d+)`)

// TestCommitsAreShared: a slow commit makes the batches grow, and a message costs half a commit at
// most. TestCommitsOnSQLite of package pass is the same for SQLite, by a clock of its own: a commit
// is quick there, so here the number would depend on the machine.
func TestCommitsAreShared(t *testing.T) {
	onEach(t, []string{"mariadb", "mysql"}, func(t *testing.T, w *world) {
		w.addInbox("desk@firm.example", "--start", "all")
		w.imap.Append(t, "desk@firm.example", "INBOX", mails(200, "backlog")...)
		w.smtp = fmt.Sprintf("host: 127.0.0.1, port: %d, security: none, connections: 8", w.smtpPort)
		w.far(20 * time.Millisecond)
		res := w.must(0, "run", "-vv")
		m := commitsLogged.FindStringSubmatch(res.stderr)
		if m == nil {
			t.Fatalf("the number of commits is not in the log:\n%s", res.stderr)
		}
		if n, _ := strconv.Atoi(m[1]); n > 100 {
			t.Errorf("%d commits for 200 messages, want 100 at most", n)
		}
		if n := len(w.arrived()); n != 200 {
			t.Errorf("%d messages arrived, want 200", n)
		}
	})
}

// TestRepeatsAfterAKill: a pass that is killed leaves at most two messages for each connection of
// which it is not known whether they arrived.
func TestRepeatsAfterAKill(t *testing.T) {
	const connections, kills = 4, 4
	onEach(t, []string{"sqlite", "mariadb"}, func(t *testing.T, w *world) {
		var at atomic.Pointer[chan struct{}]
		w.startSink(func(e smtpsink.Event) smtpsink.Action {
			if e.Stage == "dot" && e.N%40 == 20 {
				if c := at.Swap(nil); c != nil {
					close(*c)
				}
			}
			return smtpsink.Action{}
		})
		w.extra = "retry: {base: 100ms, max: 100ms, max_attempts: 1000, max_lost_leases: 1000}\n"
		w.smtp = fmt.Sprintf("host: 127.0.0.1, port: %d, security: none, connections: %d", w.smtpPort, connections)
		w.far(2 * time.Millisecond)
		w.addInbox("desk@firm.example", "--start", "all")
		for i := range kills {
			w.imap.Append(t, "desk@firm.example", "INBOX", mails(60, fmt.Sprint("round ", i))...)
			before := len(w.sink.Messages())
			struck := make(chan struct{})
			at.Store(&struck)
			w.killedAt(struck)
			w.eventually(func() bool {
				w.start(nil, "run").wait()
				return len(w.tasks("--status", "received", "--status", "in_progress", "--status", "error")) == 0
			})
			if again := len(w.sink.Messages()) - before - 60; again < 0 || again > 2*connections {
				t.Errorf("kill %d: %d messages were sent again, want %d at most", i, again, 2*connections)
			}
		}
		if n := len(w.arrived()); n != 60*kills {
			t.Errorf("%d messages arrived, want %d", n, 60*kills)
		}
	})
}
