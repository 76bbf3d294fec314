package web_test

import (
	"testing"
	"time"

	"postrider/internal/tasks"
)

// thousand makes a thousand inboxes, box-0000@firm.example and so on. Ten of them fail.
func (s *site) thousand() {
	s.t.Helper()
	s.add("box-0000@firm.example")
	s.atOnce(func() {
		s.exec(`WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 999)
			INSERT INTO monitored_emails (email_address, email_password, description, is_active,
			host, port, security, allow_plaintext, username, auth, start, last_error,
			scan_holder, scan_token, scan_until, created_at, updated_at, last_scanned_at)
			SELECT printf('box-%04d@firm.example', i), '', '', 1,
			host, port, security, 0, username, auth, start, '', '', 0, 0,
			created_at, updated_at, last_scanned_at
			FROM monitored_emails, n`)
		s.exec(
			`UPDATE monitored_emails SET last_error = 'cannot be reached' WHERE email_address LIKE '%50@firm.example'`)
	})
}

// many puts n forwarded messages into the registry, one a minute up to today. Older than they is a
// dead one with the subject "the oldest".
func (s *site) many(inbox string, n int) {
	s.t.Helper()
	s.put(msg{inbox: inbox, subject: "the oldest", status: tasks.Dead, ago: 2 * time.Duration(n) * time.Minute})
	s.atOnce(func() {
		s.exec(`WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?)
			INSERT INTO monitored_emails_tasks (inbox_id, folder_id, uid_validity, uid, message_id,
			fingerprint, subject, sender, size, route, priority, status, attempt_count, lost_leases, receipt, worker,
			error_message, created_at, queued_at, updated_at, finished_at)
			SELECT inbox_id, folder_id, 2, i, '',
			fingerprint, printf('number %d', i), '', 1, '', 0, 'forwarded', 1, 0, '', '',
			'', datetime('2026-03-31', printf('-%d minutes', ? - i)) || '+00:00', queued_at, updated_at, finished_at
			FROM monitored_emails_tasks, n`, n, n)
	})
}

// TestBrowserCrowded: with a thousand inboxes and a million messages each page comes before the
// page gives up waiting for the database, and leads on to what is not on it.
func TestBrowserCrowded(t *testing.T) {
	if testing.Short() {
		t.Skip("filling the registry takes long")
	}
	s := newSite(t)
	s.thousand()
	s.many("box-0000@firm.example", 1_000_000)
	b := visitor{browser(t), t, s}
	b.goes("/")
	b.sees("box-0050@firm.example cannot be read", "1\u202f000\u202f000", "990", "Last 30 days")
	b.clicks(`a[href^="/messages?state=dead"]`)
	b.sees("the oldest")
	b.clicks(".messages a")
	b.sees("Timeline", "the oldest")
	b.types("#q", "number 1000000")
	b.clicks(".search button")
	b.sees("number 1000000")
	b.goes("/messages")
	b.clicks(`.pager a[rel="next"]`)
	b.sees("number 999950")
	b.types("#q", "nowhere")
	b.clicks(".search button")
	b.sees("Nothing found so far.", "Searched back to")
	b.goes("/inboxes")
	b.clicks(`.pager a[rel="next"]`)
	b.sees("box-0100@firm.example", "box-0199@firm.example")
	b.clicks(`a[href="/inboxes/box-0150@firm.example"]`)
	b.sees("cannot be reached")
	b.goes("/inboxes/box-0000@firm.example")
	b.sees("INBOX")
	b.goes("/audit")
	b.sees("never audited")
}
