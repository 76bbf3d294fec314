package e2e

import (
	"context"
	"database/sql"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	_ "modernc.org/sqlite" // for the claim's benchmark

	"postrider/internal/testserver"
)

// claims measures passes that claim one task each, without and with a million finished tasks in the
// registry.
func (b *bench) claims() {
	for _, kind := range []string{"sqlite", "mariadb"} {
		b.Run(kind, func(t *testing.T) {
			one := *b
			one.T = t
			w := filled(&one, kind, 200, 200)
			before := one.pass(w).took
			one.bury(w, kind, 1_000_000)
			w.imap.Append(t, "desk@firm.example", "INBOX", mails(200, "more")...)
			after := one.pass(w).took
			one.row("200 messages, without and with a million finished tasks, "+kind, fmt.Sprintf("%.2f s and %.2f s", before.Seconds(), after.Seconds()),
				"<= 2 x", after <= 2*before+200*time.Millisecond)
		})
	}
}

// bury copies a finished task until there are n of them.
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
	const columns = `inbox_id, folder_id, uid_validity, message_id, fingerprint, subject, sender, email_date, size, route, priority,
		status, attempt_count, lost_leases, visible_at, receipt, worker, error_message, created_at, queued_at, updated_at, finished_at`
	for have := 200; have < n; have *= 2 {
		_, err := db.ExecContext(context.Background(), `INSERT INTO monitored_emails_tasks (uid, `+columns+`)
			SELECT uid + (SELECT MAX(uid) FROM monitored_emails_tasks) + 1000000, `+columns+` FROM monitored_emails_tasks`)
		if err != nil {
			b.Fatal(err)
		}
	}
}

// audit measures the audit of a mailbox of 100,000 forwarded messages.
func (b *bench) audit() {
	port, n := b.smtpSink(), b.messages*50
	mailbox := filled(b, "sqlite", 0, 0)
	mailbox.imap.Fill(b.T, "desk@firm.example", n, func(i int) []byte {
		return testserver.Mail("alice@client.example", "desk@firm.example", fmt.Sprint("message ", i), "The quick brown fox.\n")
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
			if want := fmt.Sprintf("Every message is accounted for: %d on the servers.", n); !strings.Contains(got.out, want) {
				t.Errorf("the audit printed %s, want %q", got.out, want)
			}
			one.row(fmt.Sprintf("audit of %d messages, %s", n, kind), fmt.Sprintf("%.1f s, peak %d MiB", got.took.Seconds(), got.peak>>20),
				"<= 60 s, 64 MiB", got.took <= time.Minute && got.peak <= 64<<20 && got.peak > 0)
		})
	}
}
