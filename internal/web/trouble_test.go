package web_test

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"postrider/internal/inbox"
	"postrider/internal/measure"
	"postrider/internal/tasks"
	"postrider/internal/web"
)

// TestHostile: what strangers write stays text.
func TestHostile(t *testing.T) {
	s := newSite(t)
	s.add("office@firm.example")
	evil := `<script>alert(1)</script>"'><img src=x onerror=alert(2)>`
	for _, subject := range []string{
		evil, "abc\u202edcba\u2066x", strings.Repeat("界", 10_000), "a\x00b\x1b[31mc\r\nd\u0085", "\xff\xfe",
		"javascript:alert(1)", "{{.}}", "&lt;b&gt;",
	} {
		s.put(msg{
			inbox: "office@firm.example", from: subject, subject: subject, status: tasks.Dead, reason: subject,
			to: []tasks.Delivery{{Recipient: subject[:min(len(subject), 200)], Status: tasks.Failed, Reply: subject}},
		})
		id := s.number(`SELECT MAX(id) FROM monitored_emails_tasks`)
		s.event(id, "error", subject, subject, 0)
	}
	s.exec(`UPDATE monitored_emails SET last_error = ?, description = ?`, evil, evil)
	s.audited("office@firm.example", 0, inbox.Audit{
		By: evil + "\x1b", Summary: evil + "\x1b", Error: evil + "\x1b", Unaccounted: 3,
		Findings: []inbox.Finding{
			{Folder: evil, UID: 1, Says: evil},
			{Folder: "abc\u202edcba\u2066x", Says: "a\x00b\x1b[31mc\r\nd\u0085"},
			{Folder: strings.Repeat("界", 10_000)},
		},
	})
	paths := []string{
		"/", "/messages", "/inboxes", "/audit", "/inboxes/office@firm.example",
		"/messages?q=" + strings.ReplaceAll(form("", evil), "=", ""),
	}
	for id := range s.number(`SELECT MAX(id) FROM monitored_emails_tasks`) {
		paths = append(paths, "/messages/"+itoa(id+1))
	}
	for _, path := range paths {
		got := s.get(path)
		got.has(t, http.StatusOK)
		got.lacks(t, "<script>alert", "<img", "\u202e", "\u2066", "\x00", "\x1b", "\x85")
		if (path == "/" || path == "/messages") && strings.Contains(got.body, strings.Repeat("界", 400)) {
			t.Errorf("%s has more than the beginning of a subject", path)
		}
		if len(got.body) > 300_000 {
			t.Errorf("%s has %d octets", path, len(got.body))
		}
	}
	s.get("/messages?q="+strings.Repeat("x", 9000)).has(t, http.StatusBadRequest, "has more than 500 characters")
	for _, path := range []string{"/messages?q=%00%ff", "/inboxes?after=%ff"} {
		s.get(path).has(t, http.StatusOK)
	}
	for _, before := range []string{"-5", "99999999999999999999", "%00" + strings.Repeat("1", 400)} {
		s.get("/messages?before="+before).has(t, http.StatusBadRequest, "is not the number of a message")
	}
	long := form("why", strings.Repeat("x", 20_000))
	s.do(client(t), http.MethodPost, "/messages/1/retry", long).has(t, http.StatusUnprocessableEntity)
}

// TestThousandInboxes: they are shown a hundred at once, and the trouble among them first.
func TestThousandInboxes(t *testing.T) {
	s := newSite(t)
	s.thousand()
	first := s.get("/inboxes")
	first.has(t, http.StatusOK, "990 ok, 10 failing", "box-0000@", "box-0099@", "after=box-0099%40firm.example")
	first.lacks(t, "box-0100@")
	s.get("/inboxes?after=box-0899%40firm.example").has(t, http.StatusOK, "box-0900@", "box-0999@")
	s.get("/inboxes?show=failing").has(t, http.StatusOK, "box-0050@", "box-0950@")
	s.get("/").has(t, http.StatusOK, "box-0050@firm.example cannot be read", "990 ok", "10 failing")
	s.get("/messages?inbox=box-0500%40firm.example").has(t, http.StatusOK, "No message matches.")
}

// TestSearchIsBounded: a search that finds nothing stops after a number of messages, says how far
// it came, and goes on from there. By state and by day it finds what is far behind.
func TestSearchIsBounded(t *testing.T) {
	const n = 60_000
	s := newSite(t)
	s.add("office@firm.example")
	s.many("office@firm.example", n)
	first := s.get("/messages?q=oldest")
	first.has(t, http.StatusOK, "Nothing found so far.", "Searched back to", "Search older messages")
	_, rest, _ := strings.Cut(first.body, `rel="next" href="`)
	next, _, _ := strings.Cut(rest, `"`)
	s.get(strings.ReplaceAll(next, "&amp;", "&")).has(t, http.StatusOK, ">the oldest<")
	s.get("/messages?state=dead").has(t, http.StatusOK, ">the oldest<")
	s.get("/messages?until=2026-02-01&q=oldest").has(t, http.StatusOK, ">the oldest<")
	day := s.get("/messages?since=2026-03-20&until=2026-03-20")
	day.has(t, http.StatusOK, "2026-03-20 23:59 UTC")
	day.lacks(t, "2026-03-21", "2026-03-19")
}

// TestDatabaseGone: pages say so, and come back with it.
func TestDatabaseGone(t *testing.T) {
	s := newSite(t)
	s.add("office@firm.example")
	s.exec(`ALTER TABLE monitored_emails RENAME TO hidden`)
	s.get("/").has(t, http.StatusServiceUnavailable, "does not answer")
	s.get("/messages").lacks(t, "no such table")
	s.get("/readyz").has(t, http.StatusServiceUnavailable, `"database":"failed"`)
	s.get("/healthz").has(t, http.StatusOK)
	s.get("/api/v1/status").has(t, http.StatusServiceUnavailable, `"error"`)
	s.exec(`ALTER TABLE hidden RENAME TO monitored_emails`)
	s.now = s.now.Add(time.Minute)
	s.get("/").has(t, http.StatusOK, "1 ok")
}

func TestReady(t *testing.T) {
	s := newSite(t)
	s.get("/readyz").has(t, http.StatusOK, `"ready":true`)
	s.add("office@firm.example")
	s.now = s.now.Add(20 * time.Second)
	s.get("/readyz").has(t, http.StatusOK, `"last_pass":"ok"`)
	s.get("/").lacks(t, "No inbox was read")
	s.now = s.now.Add(2 * time.Hour)
	s.get("/readyz").has(t, http.StatusServiceUnavailable, `"last_pass":"late"`)
	s.get("/").has(t, http.StatusOK, "No inbox was read", "2 h ago")
	s.exec(`UPDATE monitored_emails SET last_scanned_at = NULL`)
	s.now = s.now.Add(20 * time.Second)
	s.get("/readyz").has(t, http.StatusServiceUnavailable, `"last_pass":"never"`)
	s.exec(`UPDATE monitored_emails SET last_scanned_at = ?`, s.now)
	s.relay = errRefused
	s.now = s.now.Add(2 * time.Minute)
	gone := s.get("/readyz")
	gone.has(t, http.StatusServiceUnavailable, `"relay":"failed"`)
	gone.lacks(t, "smtp.firm.example")
	tries := s.probes.Load()
	s.now = s.now.Add(59 * time.Second)
	s.get("/readyz").has(t, http.StatusServiceUnavailable, `"relay":"failed"`)
	if got := s.probes.Load() - tries; got != 0 {
		t.Errorf("the relay was tried again %d times within a minute, want once a minute at most", got)
	}
	s.relay, s.now = nil, s.now.Add(time.Second)
	s.get("/readyz").has(t, http.StatusOK, `"relay":"ok"`)
}

// TestSlowRelay: a relay that delays its greeting is usable if passes can use it.
func TestSlowRelay(t *testing.T) {
	s := newSite(t, func(s *site) {
		s.options.Relay.Patience = time.Millisecond
		s.options.Relay.Probe = func(ctx context.Context) error {
			<-ctx.Done()
			return errors.New("no greeting")
		}
	})
	s.get("/readyz").has(t, http.StatusServiceUnavailable, `"relay":"failed"`)
	meter := measure.NewMeter()
	meter.Working(new(true))
	if err := measure.New(s.db).Keep(t.Context(), meter); err != nil {
		t.Fatal(err)
	}
	s.now = s.now.Add(2 * time.Minute)
	s.get("/readyz").has(t, http.StatusOK, `"relay":"ok"`)
	s.get("/").lacks(t, "cannot be used")
}

// TestLate: an inbox that no pass scans is not well, even if others are scanned. One that was just
// enabled has time until it counts.
func TestLate(t *testing.T) {
	s := newSite(t)
	for _, name := range []string{"ok", "late", "never", "disabled"} {
		s.add(name + "@firm.example")
	}
	s.exec(`UPDATE monitored_emails SET last_scanned_at = NULL WHERE email_address = 'never@firm.example'`)
	s.exec(`UPDATE monitored_emails SET is_active = 0 WHERE email_address = 'disabled@firm.example'`)
	s.now = s.now.Add(3 * time.Hour)
	s.exec(`UPDATE monitored_emails SET last_scanned_at = ? WHERE email_address = 'ok@firm.example'`, s.now)
	home := s.get("/")
	home.has(t, http.StatusOK, "2 inboxes were not scanned completely for longer than alerts.last_scan",
		"1 ok", "2 failing", "1 disabled")
	home.lacks(t, "No inbox was read", "All inboxes are read")
	failing := s.get("/inboxes?show=failing")
	failing.has(t, http.StatusOK, "the last complete scan was 3 h ago", "was never scanned completely")
	failing.lacks(t, ">ok@firm.example", "disabled@")
	if err := s.boxes.Enable(t.Context(), "disabled@firm.example", "anna", "why"); err != nil {
		t.Fatal(err)
	}
	s.now = s.now.Add(time.Minute)
	s.get("/").has(t, http.StatusOK, "2 ok", "2 failing")
	s.now = s.now.Add(2 * time.Hour)
	s.exec(`UPDATE monitored_emails SET last_scanned_at = ? `+
		`WHERE email_address IN ('late@firm.example', 'never@firm.example')`, s.now)
	s.exec(`UPDATE monitored_emails SET is_active = 0 WHERE email_address = 'disabled@firm.example'`)
	s.now = s.now.Add(30 * time.Minute)
	s.get("/").has(t, http.StatusOK, "1 inbox was not scanned completely", "2 ok", "1 failing")
}

// TestReadyByTheDatabase: the clock of the host may be wrong.
func TestReadyByTheDatabase(t *testing.T) {
	for _, off := range []time.Duration{3 * time.Hour, -3 * time.Hour} {
		s := newSite(t, func(s *site) { s.options.Now = func() time.Time { return s.now.Add(off) } })
		s.add("office@firm.example")
		s.get("/readyz").has(t, http.StatusOK, `"last_pass":"ok"`)
		s.get("/").lacks(t, "No inbox was read")
		s.now = s.now.Add(2 * time.Hour)
		s.get("/readyz").has(t, http.StatusServiceUnavailable, `"last_pass":"late"`)
	}
}

// TestMetrics: what is given is there, for those who may look.
func TestMetrics(t *testing.T) {
	s := newSite(t, withUsers, func(s *site) {
		s.options.Metrics = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			_, _ = w.Write([]byte("up 1\n"))
		})
	})
	s.get("/metrics").has(t, http.StatusUnauthorized)
	s.get("/metrics", "Authorization", "Basic YmVuOmJlbjE=").has(t, http.StatusOK, "up 1")
}

// TestServe: it ends with its context, over TLS, with a cookie that only goes there.
func TestServe(t *testing.T) {
	s := newSite(t, withUsers, func(s *site) {
		s.settings.CertFile, s.settings.KeyFile = certificateFiles(s.t)
		s.settings.Now = time.Now // which the certificate goes by
	})
	l, err := s.options.Access.Bind(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- web.Serve(ctx, l, web.New(s.options).Handler(), s.options.Log) }()
	c := trusting(t, s.settings.CertFile)
	s.URL = "https://" + strings.Replace(l.Addr().String(), "127.0.0.1", "localhost", 1)
	in := s.enter(c, "anna", "anna1")
	in.has(t, http.StatusSeeOther)
	cookie := in.header.Get("Set-Cookie")
	if !strings.HasPrefix(cookie, "__Host-postrider=") || !strings.Contains(cookie, "Secure") {
		t.Errorf("over TLS the cookie is %q, want it Secure and bound to the host", cookie)
	}
	s.do(c, http.MethodGet, "/", "").has(t, http.StatusOK, "anna")
	stop()
	if err := <-ended; err != nil {
		t.Errorf("Serve ended with %v, want no error", err)
	}
}
