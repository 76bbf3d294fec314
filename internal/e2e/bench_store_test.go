package e2e

import (
	"context"
	"database/sql"
	"fmt"
	"io"
	"net/http"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	_ "modernc.org/sqlite" // for the claim's benchmark

	"postrider/internal/testserver"
)

// claims measures passes that claim one task each, and what is asked of the page, without and with
// a million finished tasks in the registry.
func (b *bench) claims() {
	for _, kind := range []string{"sqlite", "mariadb"} {
		b.Run(kind, func(t *testing.T) {
			one := *b
			one.T = t
			w := filled(&one, kind, 200, 200)
			before := one.pass(w).took
			one.bury(w, kind, 100_000)
			few := one.asks(w)
			one.bury(w, kind, 1_000_000)
			for i, many := range one.asks(w) {
				one.row(fmt.Sprintf("the page: %s, with 100,000 and a million tasks, %s", questions[i].name, kind),
					fmt.Sprintf("%d ms and %d ms", few[i].Milliseconds(), many.Milliseconds()),
					"<= 2 x + 50 ms", many <= 2*few[i]+50*time.Millisecond)
			}
			w.imap.Append(t, "desk@firm.example", "INBOX", mails(200, "more")...)
			after := one.pass(w).took
			one.row("200 messages, without and with a million finished tasks, "+kind,
				fmt.Sprintf("%.2f s and %.2f s", before.Seconds(), after.Seconds()),
				"<= 2 x + 200 ms", after <= 2*before+200*time.Millisecond)
		})
	}
}

// questions are what people ask of the page's list of messages.
var questions = []struct{ name, query, finds string }{
	{"the newest messages", "", "intake@firm.example"},
	{"those before the 50,000th", "before=50000", "intake@firm.example"},
	{"a subject that a message has", "subject=message+1", "intake@firm.example"},
	{"a text that no message has", "q=nothing", "Searched back to"},
	{"a state that none is in", "state=dead", "No message matches."},
	{"an inbox and a recipient", "inbox=desk%40firm.example&to=intake", "intake@firm.example"},
}

// asks returns how long the answers to the questions take, the best of three each.
func (b *bench) asks(w *world) (took []time.Duration) {
	b.Helper()
	p := w.start(nil, "-v", "serve", "--listen", "127.0.0.1:0")
	at := w.page(p)
	for _, q := range questions {
		best := time.Hour
		for range runs {
			start := time.Now()
			res, err := http.Get(at + "messages?" + q.query)
			if err != nil {
				b.Fatal(err)
			}
			page, err := io.ReadAll(res.Body)
			_ = res.Body.Close()
			if err != nil || !strings.Contains(string(page), q.finds) {
				b.Fatalf("%s: %s, %v, without %q:\n%s%s", q.name, res.Status, err, q.finds, page, p.stderr.String())
			}
			best = min(best, time.Since(start))
		}
		took = append(took, best)
	}
	w.end(p, 0)
	return took
}

// bury copies finished tasks until there are n of them, each with its delivery.
func (b *bench) bury(w *world, kind string, n int) {
	b.Helper()
	driver, dsn := "sqlite", filepath.Join(w.dir, "postrider.db")
	if kind != "sqlite" {
		driver, dsn = "mysql", strings.Trim(strings.TrimSpace(strings.SplitAfter(w.database, "dsn:")[1]), `"`)
	}
	db, err := sql.Open(driver, dsn)
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	const columns = `inbox_id, folder_id, uid_validity, message_id, fingerprint, subject, sender, email_date, ` +
		`size, route, priority,
		status, attempt_count, lost_leases, visible_at, receipt, worker, error_message, ` +
		`created_at, queued_at, updated_at, finished_at`
	exec := func(statement string) {
		if _, err := db.ExecContext(context.Background(), statement); err != nil {
			b.Fatal(err)
		}
	}
	have := 0
	row := db.QueryRowContext(context.Background(), `SELECT COUNT(*) FROM monitored_emails_tasks`)
	if err := row.Scan(&have); err != nil {
		b.Fatal(err)
	}
	for ; have < n; have *= 2 {
		exec(`INSERT INTO monitored_emails_tasks (uid, ` + columns + `)
			SELECT uid + (SELECT MAX(uid) FROM monitored_emails_tasks) + 1000, ` + columns +
			` FROM monitored_emails_tasks`)
	}
	exec(`INSERT INTO monitored_emails_deliveries (task_id, recipient, status, code, reply, attempts, delivered_at)
		SELECT id, 'intake@firm.example', 'delivered', 250, 'ok', 1, finished_at FROM monitored_emails_tasks
		WHERE id > (SELECT MAX(task_id) FROM monitored_emails_deliveries)`)
}

// audit measures the audit of a mailbox of 100,000 forwarded messages.
func (b *bench) audit() {
	port, n := b.smtpSink(), b.messages*50
	mailbox := filled(b, "sqlite", 0, 0)
	mailbox.imap.Fill(b.T, "desk@firm.example", n, func(i int) []byte {
		subject := fmt.Sprint("message ", i)
		return testserver.Mail("alice@client.example", "desk@firm.example", subject, "The quick brown fox.\n")
	})
	for _, kind := range []string{"sqlite", "mariadb"} {
		b.Run("audit/"+kind, func(t *testing.T) {
			one := *b
			one.T = t
			w := mailbox
			if kind != "sqlite" {
				w = newWorld(t, kind)
				w.imap, w.imapPort = mailbox.imap, mailbox.imapPort
				w.addInbox("desk@firm.example", "--start", "all")
			}
			w.smtpPort = port
			w.configure()
			one.pass(w)
			got := one.timed(exec.Command(binary, "-c", w.path("postrider.yaml"), "audit"))
			want := fmt.Sprintf("Every message is accounted for: %d on the servers.", n)
			if !strings.Contains(got.out, want) {
				t.Errorf("the audit printed %s, want %q", got.out, want)
			}
			one.row(fmt.Sprintf("audit of %d messages, %s", n, kind),
				fmt.Sprintf("%.1f s, peak %d MiB", got.took.Seconds(), got.peak>>20),
				"<= 60 s, 64 MiB", got.took <= time.Minute && got.peak <= 64<<20 && got.peak > 0)
		})
	}
}
