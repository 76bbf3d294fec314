package e2e

import (
	"testing"

	"gorm.io/gorm"

	"postrider/internal/db"
)

// counted is a number from the database, without an effect on it.
func counted(t *testing.T, d *db.DB, query string) (n int) {
	t.Helper()
	err := d.View(t.Context(), func(tx *gorm.DB) error { return tx.Raw(query).Scan(&n).Error })
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// TestBouncesKilled: of 1,000 reports each is read once, although the passes that read them are
// killed again and again: between reports, and between a report and the registration of its page.
func TestBouncesKilled(t *testing.T) {
	const reports, step = 1000, 130
	w := newWorld(t, "sqlite").bouncing(withTokens, "")
	w.routes = "  - {name: all, match: {}, to: [gone@other.example]}\n"
	w.configure()
	w.imap.Append(t, "desk@firm.example", "INBOX", mails(reports, "one of many")...)
	w.pass(0)
	var back []sentBack
	for _, m := range w.sink.Messages() {
		back = append(back, bounced(m.From, "", "gone@other.example"))
	}
	w.comeBack(back...)

	d, err := db.Open(t.Context(), db.Config{Driver: db.SQLite, Path: w.path("postrider.db")})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = d.Close() })
	const recorded = `SELECT COUNT(*) FROM monitored_emails_arrivals WHERE status = 'bounced'`
	kills := 0
	for goal := step; goal < reports; goal += step {
		w.eventually(func() bool {
			p := w.start(nil, "run", "--inbox", bounceInbox)
			for counted(t, d, recorded) < goal {
				select {
				case <-p.ended():
					return false
				default:
				}
			}
			_ = p.cmd.Process.Kill()
			if p.wait().code == -1 {
				kills++
			}
			w.endLeases()
			return true
		})
	}
	w.eventually(func() bool {
		w.start(nil, "run").wait()
		return counted(t, d, `SELECT COUNT(*) FROM monitored_emails_tasks WHERE skip_reason = 'report'`) == reports
	})
	if kills < reports/step/2 {
		t.Errorf("%d passes were killed, want more", kills)
	}
	for _, is := range []struct {
		what, query string
		want        int
	}{
		{"deliveries bounced", recorded, reports},
		{"lines of the audit trail", `SELECT COUNT(*) FROM monitored_emails_events WHERE event = 'bounced'`, reports},
		{
			"tasks have such a line",
			`SELECT COUNT(DISTINCT task_id) FROM monitored_emails_events WHERE event = 'bounced'`, reports,
		},
		{"tasks are registered", `SELECT COUNT(*) FROM monitored_emails_tasks`, 2 * reports},
		{"tasks are forwarded", `SELECT COUNT(*) FROM monitored_emails_tasks WHERE status = 'forwarded'`, reports},
	} {
		if n := counted(t, d, is.query); n != is.want {
			t.Errorf("%d %s, want %d", n, is.what, is.want)
		}
	}
	t.Logf("%d kills", kills)
}
