package web_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"postrider/internal/health"
	"postrider/internal/inbox"
	"postrider/internal/outbox"
	"postrider/internal/tasks"
)

func TestOverview(t *testing.T) {
	s := newSite(t)
	s.get("/").has(t, http.StatusOK, "Nothing. All inboxes are read", "No message is registered yet")
	s.firm()
	s.now = s.now.Add(time.Minute) // what is counted is kept for a few seconds
	home := s.get("/")
	home.has(t, http.StatusOK,
		"billing@firm.example cannot be read", "the server refused the password", "3 h ago",
		"inbox check billing@firm.example", "1 message was not delivered (dead)",
		"1 message may or may not have arrived (uncertain)", `href="/messages?state=dead"`,
		"2 ok", "1 failing", "1 disabled", "Last 24 hours: ", "Last 30 days: ", "smtp.firm.example:587",
		"Appointment next week?", "typo@firm.exmaple", "5.1.2")
	search, needs := strings.Index(home.body, `role="search"`), strings.Index(home.body, "Needs a person")
	if search < 0 || search > needs {
		t.Error("the search box does not come first")
	}
	s.relay, s.logins[0] = errRefused, ""
	s.now = s.now.Add(2 * time.Minute)
	s.get("/").has(t, http.StatusOK,
		"The relay smtp.firm.example:587 cannot be used", "connection refused", "postrider check")
	s.logins[0], s.logins[s.inboxID["office@firm.example"]] = "the refresh token expired", "the password was changed"
	s.now = s.now.Add(2 * time.Minute)
	s.get("/").has(t, http.StatusOK, "The relay needs a login", "the refresh token expired", "postrider smtp login",
		"office@firm.example needs a login", "postrider inbox login office@firm.example")
}

// TestOverviewIsBounded: many needs of one kind hide none of another, and lead to the rest of
// theirs.
func TestOverviewIsBounded(t *testing.T) {
	zero := 0
	s := newSite(t, func(s *site) { s.alerts = health.Limits{Dead: &zero} })
	for i := range 22 {
		address := fmt.Sprintf("box-%02d@firm.example", i)
		s.add(address)
		s.put(msg{inbox: address, status: tasks.Dead})
		s.audited(address, time.Hour, inbox.Audit{Unaccounted: 1})
	}
	s.put(msg{inbox: "box-00@firm.example", status: tasks.Uncertain})
	s.exec(`UPDATE monitored_emails SET last_error = 'refused'`)
	home := s.get("/")
	home.has(t, http.StatusOK, "box-19@firm.example cannot be read",
		`<a href="/inboxes?show=failing"><bdi>More inboxes that cannot be read: 2`,
		"22 messages were not delivered (dead)", "1 message may or may not have arrived (uncertain)",
		"1 message of box-19@firm.example is not accounted for",
		`<a href="/audit?show=unproved"><bdi>More inboxes with messages that are not accounted for: 2`,
		"box-19@firm.example: dead messages: 1, more than alerts.dead (0)", "More alerts: 2",
		"postrider status --failing")
	home.lacks(t, "box-20@firm.example cannot", "of box-20@firm.example", "box-20@firm.example: dead")
}

// TestBroken: a process that stays up goes by an older configuration when the new one has errors.
func TestBroken(t *testing.T) {
	broken := false
	s := newSite(t, func(s *site) { s.options.Broken = func() bool { return broken } })
	const title = "The configuration cannot be used"
	s.get("/").lacks(t, title)
	broken = true
	s.get("/").has(t, http.StatusOK, title, "postrider check")
}

// TestFollows: how many events and actions wait, since when, and what was given up.
func TestFollows(t *testing.T) {
	s := newSite(t)
	since := noon.Add(-time.Hour)
	s.follows = []outbox.Standing{
		{
			Name: "crm", Counts: map[outbox.Status]int{outbox.Waiting: 4, outbox.InProgress: 1},
			OldestWaitingAt: &since, LastError: "connection refused",
		},
		{Name: "old", Counts: map[outbox.Status]int{outbox.Waiting: 1}, Removed: true},
		{Name: outbox.Server, Counts: map[outbox.Status]int{outbox.DeadLetter: 2}, LastError: "login refused"},
	}
	home := s.get("/")
	home.has(t, http.StatusOK, "events for crm: 5 waiting, 0 dead", "connection refused", "tries again by itself",
		"events for old: 1 waiting, 0 dead", "It is no longer in the section events",
		"actions on the servers: 0 waiting, 2 dead", "postrider event list --destination imap --status dead",
		"postrider event skip --destination old",
		`<dt>events for crm</dt><dd>5 waiting <span class="muted">since `, "2026-03-31 11:34",
		`<dt>actions on the servers</dt><dd>0 waiting, <span class="bad">2 dead</span>`)
	home.lacks(t, "postrider event list --destination crm")
	if got := strings.Count(home.body, "tries again by itself"); got != 1 {
		t.Errorf("%d destinations are said to be tried again, want only crm", got)
	}
}

// TestChart: each message that ended is in one bar of each chart that its time is in.
func TestChart(t *testing.T) {
	s := newSite(t)
	s.add("a@firm.example")
	for _, m := range []msg{
		{ago: time.Minute, status: tasks.Forwarded},
		{ago: 23 * time.Hour, status: tasks.Dead},
		{ago: 25 * time.Hour, status: tasks.Skipped},
		{ago: 29 * 24 * time.Hour, status: tasks.SkippedNoMatch},
		{ago: 40 * 24 * time.Hour, status: tasks.Forwarded},
		{ago: time.Minute, status: tasks.Received},
	} {
		m.inbox = "a@firm.example"
		s.put(m)
	}
	s.get("/").has(t, http.StatusOK,
		"Last 24 hours: 1 forwarded, 0 skipped, 1 failed.", "Last 30 days: 1 forwarded, 2 skipped, 1 failed.",
		"<title>12:00: 1 forwarded, 0 skipped, 0 failed</title>",
		"<title>Mon 2 Mar: 0 forwarded, 1 skipped, 0 failed</title>")
}

// TestDayWithoutMidnight: days are those of the server's zone, which the form names, and each has
// all of its hours.
func TestDayWithoutMidnight(t *testing.T) {
	zone, err := time.LoadLocation("America/Santiago")
	if err != nil {
		t.Fatal(err)
	}
	s := newSite(t, func(s *site) {
		s.options.Zone, s.now = zone, time.Date(2026, 9, 6, 12, 0, 0, 0, zone) // which began at 01:00
	})
	s.add("a@firm.example")
	s.put(msg{
		inbox: "a@firm.example", subject: "late on Saturday", status: tasks.Forwarded,
		ago: 11*time.Hour + 30*time.Minute,
	})
	s.get("/messages?until=2026-09-05").has(t, http.StatusOK,
		"late on Saturday", "From day (UTC-03)", "To day (UTC-03)")
	s.get("/messages?since=2026-09-06").has(t, http.StatusOK, "No message matches.")
	s.get("/").has(t, http.StatusOK, "<title>Sat 5 Sep: 1 forwarded,", "<title>Sun 6 Sep: 0 forwarded,")
}

// TestDestinationOnce: a destination that fails is listed once, also if its events are too old. One
// that is only slow is an alert.
func TestDestinationOnce(t *testing.T) {
	minute := time.Minute
	s := newSite(t, func(s *site) { s.alerts = health.Limits{EventsWaiting: &minute} })
	s.follows = []outbox.Standing{
		{Name: "crm", OldestWaiting: time.Hour, LastError: "connection refused"},
		{Name: "slow", OldestWaiting: time.Hour},
	}
	home := s.get("/")
	home.has(t, http.StatusOK, "events for crm: 0 waiting", "events for slow: age of the oldest waiting event")
	home.lacks(t, "events for crm: age of")
}
