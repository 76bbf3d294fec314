package web_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"postrider/internal/inbox"
)

// TestAudits: the last result of each inbox is on the page, on that of the inbox, and among what
// needs a person.
func TestAudits(t *testing.T) {
	s := newSite(t)
	s.get("/audit").has(t, http.StatusOK, "There is no inbox")
	s.firm()
	s.now = s.now.Add(time.Minute) // what is counted is kept for a few seconds
	all := s.get("/audit")
	all.has(t, http.StatusOK, `<a href="/audit" aria-current="page">Audit</a>`,
		"1 proved, 2 not proved, 1 never audited", "all accounted for", "2 not accounted for", "inconclusive",
		"never audited", "refused the password", "2026-03-31 04:34 UTC", `href="/inboxes/intake@firm.example#audit"`)
	for show, want := range map[string][]string{
		"unproved": {"intake@", "billing@"}, "never": {"old@"}, "&q=tenant%3Dacme": {"office@", "intake@"},
	} {
		got := s.get("/audit?show=" + show)
		got.has(t, http.StatusOK, want...)
		if rows := strings.Count(got.body, `scope="row"`); rows != len(want) {
			t.Errorf("with %s %d inboxes are shown, want %d", show, rows, len(want))
		}
	}
	s.get("/").has(t, http.StatusOK,
		"2 messages of intake@firm.example are not accounted for", "Missing: 2; to register them",
		"The last audit of 1 inbox could not compare everything", `href="/audit?show=unproved"`)
	intake := "/inboxes/intake@firm.example"
	s.get(intake).has(t, http.StatusOK,
		"2 not accounted for", "UID 4702: <bdi>missing</bdi>; received", "18220 octets",
		"UID 4703, message 77: <bdi>something other than postrider deleted its task",
		"409 of 411 on the server accounted for", "<bdi>root@mail-a</bdi>; it took 900ms")
	s.get("/inboxes/old@firm.example").has(t, http.StatusOK, "never audited")

	s.audited("intake@firm.example", 0, inbox.Audit{Unaccounted: 900, Findings: []inbox.Finding{
		{Folder: "INBOX", UID: 5, Says: "missing"},
		{Folder: "Junk", Says: "not there"},
	}})
	s.get(intake).has(t, http.StatusOK,
		"and 899 more: <code>postrider audit --inbox intake@firm.example", "<bdi>Junk</bdi>: <bdi>not there")
	s.audited("intake@firm.example", 0, inbox.Audit{Unaccounted: 1})
	s.get("/").has(t, http.StatusOK, "1 message of intake@firm.example is not accounted for")
	s.audited("intake@firm.example", 0, inbox.Audit{Clean: true})
	s.audited("billing@firm.example", 0, inbox.Audit{Clean: true})
	s.get("/").lacks(t, "not accounted for", "could not compare")
}

// blocked is an audit that goes on until it may end, or has to.
type blocked struct {
	s       *site
	may     chan struct{}
	began   chan string
	stopped chan error
}

func newBlocked(s *site) *blocked {
	b := &blocked{s: s, may: make(chan struct{}), began: make(chan string, 100), stopped: make(chan error, 100)}
	s.audit = func(ctx context.Context, in inbox.Inbox, who string) {
		b.began <- in.Address + " by " + who
		select {
		case <-b.may:
			s.audited(in.Address, 0, inbox.Audit{
				By: who, Messages: 7, Accounted: 7, Clean: true,
				Summary: "Every message is accounted for: 7 on the servers.",
			})
		case <-ctx.Done():
		}
		b.stopped <- ctx.Err()
	}
	return b
}

// shown waits until a page has a text.
func (s *site) shown(c *http.Client, path, text string) answer {
	s.t.Helper()
	for until := time.Now().Add(10 * time.Second); ; time.Sleep(5 * time.Millisecond) {
		got := s.do(c, http.MethodGet, path, "")
		if strings.Contains(got.body, text) || time.Now().After(until) {
			got.has(s.t, http.StatusOK, text)
			return got
		}
	}
}

// TestRunAudit: an operator starts an audit with a reason. It runs in the background, once, and its
// result is shown.
func TestRunAudit(t *testing.T) {
	s := newSite(t, withUsers)
	s.firm()
	b := newBlocked(s)
	anna, path := s.logIn("anna"), "/inboxes/old@firm.example"
	s.do(anna, http.MethodGet, path, "").has(t, http.StatusOK, `action="`+path+`/audit"`)
	s.do(anna, http.MethodPost, path+"/audit", form("why", " ")).has(t, http.StatusUnprocessableEntity, "write why")
	started := s.do(anna, http.MethodPost, path+"/audit", form("why", "a <b>new</b> server"))
	started.has(t, http.StatusSeeOther)
	if got, want := <-b.began, "old@firm.example by anna (status page)"; got != want {
		t.Errorf("the audit is of %q, want %q", got, want)
	}
	s.do(anna, http.MethodGet, started.header.Get("Location"), "").has(t, http.StatusOK,
		"The audit was started.", "running since", "never audited",
		"Audit started by an operator: anna (status page)", "a &lt;b&gt;new&lt;/b&gt; server")
	s.do(anna, http.MethodGet, "/audit", "").has(t, http.StatusOK, "running since")
	s.do(anna, http.MethodGet, "/api/v1"+path, "").has(t, http.StatusOK,
		`"last_audit":null,"audit_running_since":"2026-03-31T12:34:56Z"`)
	s.do(anna, http.MethodPost, path+"/audit", form("why", "again")).has(t, http.StatusConflict,
		"is running already", `value="again"`)
	if n := s.number(`SELECT COUNT(*) FROM monitored_emails_events WHERE event = 'audit_started'`); n != 1 {
		t.Errorf("the trail has %d lines about audits, want 1", n)
	}
	close(b.may)
	done := s.shown(anna, path, "all accounted for")
	done.has(t, http.StatusOK, "Every message is accounted for: 7 on the servers.", "<bdi>anna (status page)</bdi>")
	if err := <-b.stopped; err != nil {
		t.Errorf("the context of the audit ended with %v, want it to outlast the request", err)
	}
	s.do(anna, http.MethodGet, "/api/v1"+path, "").has(t, http.StatusOK,
		`"by":"anna (status page)"`, `"clean":true`)
}

// TestAuditsAtOnce: there are four at most, and the end of the page ends them.
func TestAuditsAtOnce(t *testing.T) {
	s := newSite(t)
	b := newBlocked(s)
	start := func(i int) answer {
		return s.do(client(t), http.MethodPost, fmt.Sprintf("/inboxes/box-%d@firm.example/audit", i), form("why", "x"))
	}
	for i := range 6 {
		s.add(fmt.Sprintf("box-%d@firm.example", i))
	}
	for i := range 4 {
		start(i).has(t, http.StatusSeeOther)
		<-b.began
	}
	start(4).has(t, http.StatusConflict, "4 audits are running.")
	b.may <- struct{}{}
	if err := <-b.stopped; err != nil {
		t.Errorf("the context of an audit ended with %v before the audit did", err)
	}
	until := time.Now().Add(10 * time.Second)
	for start(4).code != http.StatusSeeOther {
		if time.Now().After(until) {
			t.Fatal("after one of four has ended, another one cannot be started")
		}
		time.Sleep(5 * time.Millisecond)
	}
	s.page.Close()
	for range 4 {
		if err := <-b.stopped; !errors.Is(err, context.Canceled) {
			t.Errorf("the context of an audit ended with %v, want it canceled", err)
		}
	}
	start(5).has(t, http.StatusServiceUnavailable, "postrider is stopping")
	if n := s.number(`SELECT COUNT(*) FROM monitored_emails_events`); n != 5 {
		t.Errorf("the trail has %d lines, want one for each audit that was started", n)
	}
}

// TestNoAudit: one that cannot be noted in the trail is not started, and can be started later.
func TestNoAudit(t *testing.T) {
	s := newSite(t)
	s.add("office@firm.example")
	b := newBlocked(s)
	close(b.may)
	s.exec(`ALTER TABLE monitored_emails_events RENAME TO hidden`)
	start := func() answer {
		return s.do(client(t), http.MethodPost, "/inboxes/office@firm.example/audit", form("why", "x"))
	}
	start().has(t, http.StatusServiceUnavailable)
	s.exec(`ALTER TABLE hidden RENAME TO monitored_emails_events`)
	start().has(t, http.StatusSeeOther)
	s.shown(client(t), "/inboxes/office@firm.example", "all accounted for")
	if len(b.began) != 1 {
		t.Errorf("%d audits began, want the second one", len(b.began))
	}
}
