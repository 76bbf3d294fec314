package web_test

import (
	"cmp"
	"fmt"
	"time"

	"postrider/internal/inbox"
	"postrider/internal/tasks"
)

// firm fills the registry as that of an office on a day with some trouble.
func (s *site) firm() {
	s.t.Helper()
	s.add("office@firm.example", "tenant=acme")
	s.add("intake@firm.example", "tenant=acme", "vip=yes")
	s.add("billing@firm.example", "tenant=beta")
	s.add("old@firm.example")
	s.exec(`UPDATE monitored_emails SET is_active = 0 WHERE email_address = 'old@firm.example'`)
	s.audits()
	s.exec(`UPDATE monitored_emails SET last_error = ?, failing_since = ? WHERE email_address = 'billing@firm.example'`,
		"log in as billing@firm.example: the server refused the password (AUTHENTICATIONFAILED); "+
			"set it with `postrider inbox set billing@firm.example --password-stdin`",
		s.now.Add(-3*time.Hour-20*time.Minute))
	s.atOnce(s.month)
}

// audited stores the result of an audit that was done a while ago.
func (s *site) audited(address string, ago time.Duration, a inbox.Audit) {
	s.t.Helper()
	a.StartedAt = s.now.Add(-ago)
	a.By = cmp.Or(a.By, "root@mail-a")
	if err := s.boxes.KeepAudit(s.t.Context(), s.inboxID[address], a); err != nil {
		s.t.Fatal(err)
	}
}

// audits are those of firm: everything is accounted for, two messages are missing, and an inbox
// that could not be read.
func (s *site) audits() {
	s.audited("office@firm.example", 9*time.Hour, inbox.Audit{
		DurationMS: 4200, Messages: 5312, Accounted: 5312, Clean: true,
		Summary: "Every message is accounted for: 5312 on the servers. No longer there, and accounted for: 118.",
	})
	at := s.now.Add(-26 * time.Hour)
	s.audited("intake@firm.example", 8*time.Hour, inbox.Audit{
		DurationMS: 900, Messages: 411, Accounted: 409, Unaccounted: 2,
		Summary: "Missing: 2; to register them, as a run would: `postrider audit --repair`.",
		Findings: []inbox.Finding{
			{Folder: "INBOX", UID: 4702, Received: &at, Size: 18_220, Says: "missing"},
			{
				Folder: "INBOX", UID: 4703, TaskID: 77, Received: &at, Size: 2048,
				Says: "something other than postrider deleted its task, so it is unknown who got it",
			},
		},
	})
	s.audited("billing@firm.example", 7*time.Hour, inbox.Audit{
		Summary: "Not everything could be compared, so the audit is inconclusive.",
		Error:   "log in as billing@firm.example: the server refused the password (AUTHENTICATIONFAILED)",
	})
}

func (s *site) month() {
	for i := range 640 { // a month of ended mail, less of it at night and at the weekend
		at := time.Duration(i) * 67 * time.Minute
		hour, weekday := s.now.Add(-at).Hour(), s.now.Add(-at).Weekday()
		night := hour < 7 || hour > 19
		if night && i%5 > 0 || weekday == time.Saturday && i%3 > 0 || weekday == time.Sunday && i%4 > 0 {
			continue
		}
		m := msg{
			inbox: "office@firm.example", from: "clerk@court.example", subject: fmt.Sprintf("Notice %d", 9000-i),
			ago: at + 90*time.Minute, status: tasks.Forwarded,
			to: []tasks.Delivery{delivered("desk@firm.example")},
		}
		if i%9 == 4 {
			m.status, m.skip, m.to = tasks.Skipped, tasks.SkipDuplicate, nil
			m.reason = "duplicate: the same message is task 7"
		}
		s.put(m)
	}
	s.put(msg{
		inbox: "office@firm.example", from: "weekly@news.example", subject: "Your weekly digest",
		ago: 80 * time.Minute, status: tasks.SkippedNoMatch, reason: "no route matches",
	})
	s.put(msg{
		inbox: "intake@firm.example", from: "Court of Appeal <registry@court.example>",
		subject: "Hearing on 14 April: change of room", ago: 64 * time.Minute, status: tasks.Forwarded,
		to: []tasks.Delivery{
			delivered("anna.berg@firm.example"), delivered("intake@partner.example"), delivered("li.wei@firm.example"),
		},
	})
	first, at := delivered("anna.berg@firm.example"), s.now.Add(-50*time.Minute-57*time.Second)
	first.DeliveredAt = &at
	dead := s.put(msg{
		inbox: "intake@firm.example", from: "registry@court.example", subject: "Service of documents 7 C 114/26",
		ago: 51 * time.Minute, took: 2 * time.Minute, status: tasks.Dead,
		reason: "anna.berg@firm.example has it; typo@firm.exmaple: 550 5.1.2 Domain not found",
		to: []tasks.Delivery{first, {
			Recipient: "typo@firm.exmaple", Status: tasks.Failed, Code: 550,
			Reply: "5.1.2 <typo@firm.exmaple>: Recipient address rejected: Domain not found",
		}},
	})
	s.event(dead, "error", "mail-a:4242:KX7PQ2AB", "typo@firm.exmaple: 450 4.1.2 Domain not found, try later",
		50*time.Minute)
	s.event(dead, "dead", "mail-a:4242:KX7PQ2AB", "typo@firm.exmaple: 550 5.1.2 Domain not found", 49*time.Minute)
	s.put(msg{
		inbox: "office@firm.example", from: "bank@bank.example", subject: "Kontoauszug März · 帐户对账单",
		ago: 33 * time.Minute, status: tasks.Uncertain, reason: "the connection broke after the final dot",
		to: []tasks.Delivery{{
			Recipient: "desk@firm.example", Status: tasks.Sending,
			Reply: "the connection broke after the final dot: EOF",
		}},
	})
	s.put(msg{
		inbox: "intake@firm.example", from: "client@example.org", subject: "Re: signed contract",
		ago: 9 * time.Minute, status: tasks.Error, reason: "desk@firm.example: 451 4.3.0 Try again later",
		to: []tasks.Delivery{{
			Recipient: "desk@firm.example", Status: tasks.Pending, Code: 451, Reply: "4.3.0 Try again later",
		}},
	})
	s.put(msg{
		inbox: "office@firm.example", from: "new@example.org", subject: "Appointment next week?",
		ago: time.Minute, status: tasks.Received,
		to: []tasks.Delivery{{Recipient: "desk@firm.example", Status: tasks.Pending}},
	})
}

func (s *site) event(task int64, event, worker, detail string, ago time.Duration) {
	s.t.Helper()
	s.exec(`INSERT INTO monitored_emails_events (task_id, at, worker, event, detail) VALUES (?, ?, ?, ?, ?)`,
		task, s.now.Add(-ago), worker, event, detail)
}
