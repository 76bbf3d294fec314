//go:build unix

package e2e

import (
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	mysqldriver "github.com/go-sql-driver/mysql"

	"postrider/internal/testserver"
	"postrider/internal/testserver/smtpsink"
)

// hosts is one database that several hosts work on, each with a configuration of its own, and a
// relay that takes its time.
type hosts struct {
	*world
	sql    *sql.DB
	victim string // is killed or stopped, and has short leases; nobody else is to lose one
}

const (
	shared     = "retry: {base: 1s, max: 1s}\nconcurrency: {host: HOST, " + longLease + ", page: 20}\n"
	longLease  = "lease: 1m"
	shortLease = "lease: 2s"
)

func onHosts(t *testing.T, test func(t *testing.T, h *hosts)) {
	onEach(t, []string{"mariadb", "mysql"}, func(t *testing.T, w *world) {
		w.extra = shared
		w.startSink(func(e smtpsink.Event) smtpsink.Action { return slowly(e, 150*time.Millisecond) })
		w.configure()
		test(t, newHosts(w))
	})
}

// slowly is a relay that takes its time for each message.
func slowly(e smtpsink.Event, pause time.Duration) smtpsink.Action {
	if e.Stage != "dot" {
		return smtpsink.Action{}
	}
	slow := make(chan struct{})
	time.AfterFunc(pause, func() { close(slow) })
	return smtpsink.Action{Block: slow}
}

func newHosts(w *world) *hosts {
	w.t.Helper()
	_, dsn, _ := strings.Cut(strings.TrimSuffix(w.database, `"`), `dsn: "`)
	db, err := sql.Open("mysql", dsn)
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { _ = db.Close() })
	return &hosts{world: w, sql: db}
}

// fill adds an inbox with messages.
func (h *hosts) fill(address string, n int) [][]byte {
	h.t.Helper()
	h.addInbox(address, "--start", "all")
	msgs := mails(n, address)
	h.imap.Append(h.t, address, "INBOX", msgs...)
	return msgs
}

// on starts a pass on a host.
func (h *hosts) on(host string, args ...string) *process {
	h.t.Helper()
	text, err := os.ReadFile(h.path("postrider.yaml"))
	if err != nil {
		h.t.Fatal(err)
	}
	own := strings.Replace(string(text), "host: HOST", "host: "+host, 1)
	if host == h.victim {
		own = strings.Replace(own, longLease, shortLease, 1)
	}
	h.write(host+".yaml", own)
	return h.start(nil, append([]string{"-c", h.path(host + ".yaml"), "run", "--json"}, args...)...)
}

// number asks the database for one.
func (h *hosts) number(query string) (n int) {
	h.t.Helper()
	if err := h.sql.QueryRowContext(h.t.Context(), query).Scan(&n); err != nil {
		h.t.Fatalf("%s: %v", query, err)
	}
	return n
}

func (h *hosts) gotten(n int) func() bool { return func() bool { return len(h.sink.Messages()) >= n } }

// forwardedBy is how many tasks a host had last.
func (h *hosts) forwardedBy(host string) int {
	return h.number("SELECT COUNT(*) FROM monitored_emails_tasks WHERE worker LIKE '" + host + ":%'")
}

// sending are the messages that a host marked as being sent, and does not know the end of.
func (h *hosts) sending(host string) map[string]bool {
	h.t.Helper()
	rows, err := h.sql.QueryContext(h.t.Context(), `SELECT t.message_id FROM monitored_emails_tasks t
		JOIN monitored_emails_deliveries d ON d.task_id = t.id WHERE d.status = 'sending' AND t.worker LIKE ?`,
		host+":%")
	if err != nil {
		h.t.Fatal(err)
	}
	defer func() { _ = rows.Close() }()
	out := map[string]bool{}
	for rows.Next() {
		var id string
		if err := rows.Scan(&id); err != nil {
			h.t.Fatal(err)
		}
		out[id] = true
	}
	if err := rows.Err(); err != nil {
		h.t.Fatal(err)
	}
	return out
}

// wantAll checks that all arrived, and none twice but these.
func (h *hosts) wantAll(msgs [][]byte, sending map[string]bool) {
	h.t.Helper()
	got, repeats := h.arrived(), 0
	for _, raw := range msgs {
		id := idOf(h.t, raw)
		switch n := got[id]; {
		case n == 0:
			h.t.Errorf("message %s was lost", id)
		case n > 1 && !sending[id] && !h.mayHaveArrived(id):
			h.t.Errorf("message %s arrived %d times, and was not being sent when its host was hit", id, n)
		case n > 1:
			repeats++
		}
	}
	h.t.Logf("%d messages, 0 lost, %d of %d that were being sent came twice", len(msgs), repeats, len(sending))
}

func (h *hosts) ended(p *process, codes ...int) report {
	h.t.Helper()
	res := p.wait()
	var r report
	for _, code := range codes {
		if res.code == code {
			if err := json.Unmarshal([]byte(res.stdout), &r); err != nil {
				h.t.Fatalf("run --json printed %q: %v", res.stdout, err)
			}
			return r
		}
	}
	h.t.Fatalf("exit %d, want one of %v\n%s%s", res.code, codes, res.stdout, res.stderr)
	return r
}

// TestHosts: three hosts forward what one of them registers, each message once, and no inbox is
// scanned by two. From the fifth message on, the relay does not answer until each of them has some.
func TestHosts(t *testing.T) {
	onHosts(t, func(t *testing.T, h *hosts) {
		var dots atomic.Int64
		all := make(chan struct{})
		answer := sync.OnceFunc(func() { close(all) })
		defer answer()
		h.startSink(func(e smtpsink.Event) smtpsink.Action {
			if e.Stage == "dot" && dots.Add(1) > 5 {
				return smtpsink.Action{Block: all}
			}
			return smtpsink.Action{}
		})
		h.configure()
		backlog := h.fill("big@firm.example", 300)
		for i := range 3 {
			backlog = append(backlog, h.fill(fmt.Sprintf("small%d@firm.example", i), 10)...)
		}
		a := h.on("a")
		h.eventually(h.gotten(5))
		b, c := h.on("b"), h.on("c")
		h.eventually(func() bool {
			return h.number("SELECT COUNT(DISTINCT worker) FROM monitored_emails_tasks "+
				"WHERE status = 'in_progress'") == 3
		})
		answer()
		registered := map[string]int{} // by how many hosts
		total := counters{}
		for _, p := range []*process{a, b, c} {
			r := h.ended(p, 0)
			total.Registered += r.Totals.Registered
			total.Forwarded += r.Totals.Forwarded
			for _, in := range r.Inboxes {
				if in.Registered > 0 {
					registered[in.Email]++
				}
			}
		}
		h.wantOnce(backlog)
		if total.Registered != len(backlog) || total.Forwarded != len(backlog) {
			t.Errorf("the reports add up to %+v, want %d registered and forwarded", total, len(backlog))
		}
		for email, n := range registered {
			if n != 1 {
				t.Errorf("%d hosts registered messages of %s, want one", n, email)
			}
		}
		for _, host := range []string{"a", "b", "c"} {
			n := h.forwardedBy(host)
			t.Logf("host %s forwarded %d", host, n)
			if n == 0 {
				t.Errorf("host %s forwarded none of %d, want that all hosts deliver", host, len(backlog))
			}
		}
	})
}

// TestScanningHostDies: kill -9 in the middle of a scan. Another host delivers meanwhile, and the
// next run scans on as soon as the lease has run out.
func TestScanningHostDies(t *testing.T) {
	onHosts(t, func(t *testing.T, h *hosts) {
		h.victim = "a"
		backlog := h.fill("desk@firm.example", 300)
		a := h.on("a")
		h.eventually(h.gotten(20))
		b := h.on("b")
		h.eventually(func() bool { return h.forwardedBy("b") > 0 })
		_ = a.cmd.Process.Kill()
		a.wait()
		sending := h.sending("a")
		if n := h.number("SELECT COUNT(*) FROM monitored_emails_tasks"); n == len(backlog) {
			t.Errorf("all %d were registered at the kill, want it to be in the middle of the scan", n)
		}
		h.ended(b, 0, 75)
		h.eventually(func() bool { // as cron does
			h.ended(h.on("c"), 0, 75)
			return h.number("SELECT COUNT(*) FROM monitored_emails_tasks WHERE status = 'forwarded'") == len(backlog)
		})
		h.wantAll(backlog, sending)
	})
}

// TestScanningHostIsStopped past its lease, in the middle of a scan, and another takes over. Awake
// again, it registers nothing, moves no cursor and sends nothing that the other has sent, but for
// what it was sending when it was stopped.
func TestScanningHostIsStopped(t *testing.T) {
	onHosts(t, func(t *testing.T, h *hosts) {
		h.victim = "a"
		backlog := h.fill("desk@firm.example", 300)
		a := h.on("a")
		h.eventually(h.gotten(20))
		h.stop(a)
		sending := h.sending("a")
		if n := h.number("SELECT COUNT(*) FROM monitored_emails_tasks"); n == len(backlog) {
			t.Errorf("all %d were registered at the stop, want it to be in the middle of the scan", n)
		}
		h.eventually(func() bool { // as cron does, until the leases have run out
			h.ended(h.on("b"), 0, 75)
			return h.number("SELECT COUNT(*) FROM monitored_emails_tasks WHERE status = 'forwarded'") == len(backlog)
		})
		const registry = `SELECT SUM(CRC32(CONCAT_WS(',', id, uid, uid_validity, fingerprint))) ` +
			`FROM monitored_emails_tasks`
		const cursor = `SELECT CRC32(CONCAT_WS(',', uid_validity, last_seen_uid, baseline_uid, last_scanned_at)) ` +
			`FROM monitored_folders`
		const inbox = `SELECT CRC32(CONCAT_WS(',', scan_token, last_scanned_at, last_error)) FROM monitored_emails`
		before := []int{h.number(registry), h.number(cursor), h.number(inbox)}
		if err := a.cmd.Process.Signal(syscall.SIGCONT); err != nil {
			t.Fatal(err)
		}
		r := h.ended(a, 75)
		if !strings.Contains(r.Inboxes[0].Error, "took over the inbox") {
			t.Errorf("the host that was stopped reports %+v, want that it was taken over", r.Inboxes[0])
		}
		for i, what := range []string{"registry", "cursor", "inbox"} {
			if now := h.number([]string{registry, cursor, inbox}[i]); now != before[i] {
				t.Errorf("the host that was stopped changed the %s", what)
			}
		}
		h.ended(h.on("c"), 0)
		h.wantAll(backlog, sending)
	})
}

// suspend stops a pass, and returns when all its threads stand still. The pass must not end
// meanwhile.
func (p *process) suspend() {
	p.t.Helper()
	if err := p.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		p.t.Fatal(err)
	}
	for {
		var status syscall.WaitStatus
		if _, err := syscall.Wait4(p.cmd.Process.Pid, &status, syscall.WUNTRACED, nil); err == nil && status.Stopped() {
			return
		} else if err != nil && !errors.Is(err, syscall.EINTR) {
			p.t.Fatalf("wait for a pass to stop: %v", err)
		}
	}
}

// transactions counts those that have locked something. InnoDB refreshes this table only if no one
// has read it for 0.1 s.
const transactions = `SELECT COUNT(*) + SLEEP(0.15) FROM information_schema.innodb_trx ` +
	`WHERE trx_rows_locked + trx_rows_modified > 0`

// idle reports whether no transaction has locked anything. MySQL cannot list a transaction whose
// statement has octets that are no text (3854): then there is one.
func (w *world) idle(db *sql.DB) bool {
	w.t.Helper()
	n := 1
	err := db.QueryRowContext(w.t.Context(), transactions).Scan(&n)
	var refused *mysqldriver.MySQLError
	if err != nil && (!errors.As(err, &refused) || refused.Number != 3854) {
		w.t.Fatalf("%s: %v", transactions, err)
	}
	return n == 0
}

// stop stops a pass, but not in the middle of a transaction: what that has locked stays so until
// the server gives the connection up.
func (h *hosts) stop(p *process) {
	h.t.Helper()
	h.eventually(func() bool {
		p.suspend()
		for range 3 { // what the server has to do yet may end it
			if h.idle(h.sql) {
				return true
			}
		}
		_ = p.cmd.Process.Signal(syscall.SIGCONT)
		h.eventually(func() bool { return h.idle(h.sql) })
		return false
	})
}

// TestOverlappingRuns: cron starts runs while others are at work. One scans, all deliver, and each
// connects once to the IMAP server.
func TestOverlappingRuns(t *testing.T) {
	onHosts(t, func(t *testing.T, h *hosts) {
		proxy := testserver.NewCutProxy(t, fmt.Sprintf("127.0.0.1:%d", h.imap.Port))
		h.imapPort = proxy.Port
		backlog := h.fill("desk@firm.example", 200)
		runs := []*process{h.on("a")}
		h.eventually(h.gotten(5))
		for _, host := range []string{"a", "b", "a", "b"} {
			runs = append(runs, h.on(host))
		}
		registered := 0
		for i, p := range runs {
			r := h.ended(p, 0, 75)
			registered += r.Totals.Registered
			if busy := strings.Contains(p.stdout.String(), `"busy":"a:`); i > 0 && r.Totals.Registered > 0 && busy {
				t.Errorf("a run that did not scan reports %+v, want nothing registered", r.Totals)
			}
		}
		if n := proxy.Connections(); n > len(runs) {
			t.Errorf("%d connections to the IMAP server were made, want at most one by each of %d runs", n, len(runs))
		}
		if registered != len(backlog) {
			t.Errorf("the runs registered %d messages, want %d", registered, len(backlog))
		}
		h.wantOnce(backlog)
	})
}
