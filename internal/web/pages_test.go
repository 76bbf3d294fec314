package web_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"postrider/internal/tasks"
)

// TestSearch: who asks whether something arrived finds it by any of its names.
func TestSearch(t *testing.T) {
	s := newSite(t)
	s.firm()
	hearing := "Hearing on 14 April: change of room"
	for _, query := range []string{
		"q=LI.WEI", "q=hearing", "q=registry%40", "to=li.wei", "from=court+of", "subject=change+of+room",
		"inbox=intake%40firm.example&q=room", "label=vip%3Dyes&q=hearing", "state=forwarded&q=room",
		"label=vip&q=hearing", "q=room&since=2026-03-31", "q=room&until=2026-03-31",
	} {
		s.get("/messages?"+query).has(t, http.StatusOK,
			hearing, "li.wei@firm.example", "accepted by the relay", "queued as 4XkQ7z1Jp2")
	}
	for _, query := range []string{
		"q=nobody", "q=room&inbox=office%40firm.example", "q=room&label=tenant%3Dbeta", "q=room&state=dead",
		"q=room&since=2026-04-01", "q=room&until=2026-03-30", "to=li.wei&from=bank",
		"state=attention&q=room", "state=waiting&q=room",
	} {
		got := s.get("/messages?" + query)
		got.has(t, http.StatusOK, "No message matches.")
		got.lacks(t, hearing)
	}
	s.get("/messages?state=attention").has(t, http.StatusOK, "Service of documents", "Kontoauszug März · 帐户对账单")
	s.get("/messages?state=waiting").has(t, http.StatusOK,
		"Re: signed contract", "Appointment next week?", "not sent yet")
	id := s.number(`SELECT MAX(id) FROM monitored_emails_tasks`)
	s.get("/messages?q=%23"+itoa(id)).has(t, http.StatusOK,
		fmt.Sprintf(`<a href="/messages/%d">Message number %[1]d</a>`, id))
	s.get("/messages?since=yesterday").has(t, http.StatusBadRequest, "is not a day; write it like 2026-03-31")
	s.get("/messages?state=ded").has(t, http.StatusBadRequest, "did you mean dead?")
	s.get("/messages?inbox=office").has(t, http.StatusBadRequest,
		"There is no inbox &#34;office&#34;; give its whole address.")
	s.get("/messages?before=abc").has(t, http.StatusBadRequest, "&#34;abc&#34; is not the number of a message.")
}

// TestSearchPages: the links lead through all messages, each once.
func TestSearchPages(t *testing.T) {
	s := newSite(t)
	s.add("a@firm.example")
	s.atOnce(func() {
		for i := range 120 {
			s.put(msg{
				inbox: "a@firm.example", subject: fmt.Sprintf("number %d.", i), status: tasks.Forwarded, ago: time.Hour,
			})
		}
	})
	seen, path := 0, "/messages?q=number"
	for path != "" {
		got := s.get(path)
		got.has(t, http.StatusOK)
		for i := range 120 {
			seen += strings.Count(got.body, fmt.Sprintf("number %d.<", i))
		}
		_, rest, found := strings.Cut(got.body, `rel="next" href="`)
		if path = ""; found {
			path, _, _ = strings.Cut(rest, `"`)
			path = strings.ReplaceAll(path, "&amp;", "&")
		}
	}
	if seen != 120 {
		t.Errorf("the pages show %d messages, want each of 120 once", seen)
	}
}

// TestMessage shows everything that is known of one.
func TestMessage(t *testing.T) {
	s := newSite(t)
	s.firm()
	dead := s.number(`SELECT id FROM monitored_emails_tasks WHERE status = 'dead'`)
	path := "/messages/" + itoa(dead)
	got := s.get(path)
	got.has(t, http.StatusOK, "Service of documents 7 C 114/26", "anna.berg@firm.example", "typo@firm.exmaple",
		"not delivered", "550 5.1.2", "Failed, and will be tried again", "Given up", "mail-a:4242:KX7PQ2AB",
		"court-notices", "redirect", "UIDVALIDITY 1", "7f3a@mail.example&gt;",
		`formaction="`+path+`/retry"`, `formaction="`+path+`/skip"`)
	got.lacks(t, "/delivered")
	order := []string{
		"Sent, by its Date field", "Registered</strong>", "Accepted by the relay for anna",
		"Failed, and will be tried again", "Given up", "Ended: dead",
	}
	byPlace := func(a, b string) int { return strings.Index(got.body, a) - strings.Index(got.body, b) }
	if !slices.IsSortedFunc(order, byPlace) {
		t.Errorf("the timeline is not in the order %q", order)
	}
	for _, path := range []string{"/messages/99999999", "/messages/0", "/messages/-1", "/messages/x", "/messages/1/x"} {
		s.get(path).has(t, http.StatusNotFound)
	}
	done := s.number(`SELECT MIN(id) FROM monitored_emails_tasks WHERE status = 'forwarded'`)
	s.get("/messages/"+itoa(done)).lacks(t, "<h2 id=\"decide\">", "formaction")
}

// TestBounced: what bounced is marked wherever it stands, is found by its mark, and can be retried.
func TestBounced(t *testing.T) {
	s := newSite(t, withUsers)
	s.add("office@firm.example")
	offer := msg{inbox: "office@firm.example", subject: "Offer", status: tasks.Forwarded, ago: time.Hour}
	offer.to = []tasks.Delivery{delivered("ann@other.example"), delivered("bob@other.example")}
	fine := msg{inbox: "office@firm.example", subject: "Fine", status: tasks.Forwarded, ago: time.Hour}
	fine.to = []tasks.Delivery{delivered("ann@other.example")}
	id := s.put(offer)
	s.put(fine)
	anna, path := s.logIn("anna"), "/messages/"+itoa(id)
	page := func(path string) answer { return s.do(anna, http.MethodGet, path, "") }
	page("/").lacks(t, "bounced</a>", "Mail bounced")
	page(path).lacks(t, "formaction", ">bounced<")
	page("/messages?state=bounced").has(t, http.StatusOK, "No message matches.")
	bounce := tasks.Arrival{
		Status: tasks.Bounced, Code: 550, Enhanced: "5.1.1", Reply: "no <such> user", Remote: "mx.other.example",
		At: s.now.Add(-time.Hour + 2*time.Second + 2*time.Minute),
	}
	for to, a := range map[string]tasks.Arrival{
		"ann@other.example": bounce,
		"bob@other.example": {Status: tasks.Confirmed},
	} {
		if changed, err := s.queue.Arrived(t.Context(), "reports", id, to, a); err != nil || !changed {
			t.Fatalf("record what became of it: %t, %v", changed, err)
		}
	}
	s.now = s.now.Add(time.Minute) // what is counted is kept for a few seconds
	page("/").has(t, http.StatusOK, "1 delivery bounced in the last day",
		`<a href="/messages?state=bounced">bounced</a></dt><dd class="bad">1</dd>`)
	found := page("/messages?state=bounced")
	found.has(t, http.StatusOK, "Offer", `<span class="state bad">bounced</span>`, `<option value="bounced" selected>`)
	found.lacks(t, "Fine")
	page(path).has(t, http.StatusOK, `<span class="state bad">bounced</span>`,
		"Bounced after the relay had accepted it",
		"bounced: 550 5.1.1 no &lt;such&gt; user at mx.other.example, 2 minutes after it was accepted",
		`<li class="bad"><bdi class="who">ann@other.example`,
		"Confirmed by the recipient&#39;s server", `formaction="`+path+`/retry"`)
	page("/api/v1/messages?state=bounced").has(t, http.StatusOK,
		`"arrival":{"status":"bounced","code":550,"enhanced":"5.1.1","reply":"no <such> user",`+
			`"remote":"mx.other.example","target":"","at":"2026-03-31T11:36:58Z"}`)
	page("/api/v1/status").has(t, http.StatusOK, `"bounced":1,"bounced_last_day":1,`, `"arrivals":{"bounced":1}`)
	s.do(anna, http.MethodPost, path+"/retry", form("why", "her mailbox is back")).has(t, http.StatusSeeOther)
	page(path).has(t, http.StatusOK, "not sent yet", "her mailbox is back")
	s.do(anna, http.MethodPost, path+"/skip", form("why", "no")).has(t, http.StatusSeeOther)
}

// TestGone: of a message that was purged the trail is left.
func TestGone(t *testing.T) {
	s := newSite(t)
	s.firm()
	id := s.number(`SELECT MIN(id) FROM monitored_emails_tasks WHERE status = 'forwarded'`)
	if n, err := s.queue.Purge(t.Context(), tasks.By{Who: "ann"}, id); n != 1 || err != nil {
		t.Fatalf("purged %d tasks, %v", n, err)
	}
	s.get("/messages/"+itoa(id)).has(t, http.StatusOK, "no longer in the registry", "Deleted from the registry", "ann")
	s.get("/api/v1/messages/"+itoa(id)).has(t, http.StatusOK, `"gone":true`)
}

// TestChangeMessage: each action does what its command does, once, with who and why in the trail.
func TestChangeMessage(t *testing.T) {
	for _, tt := range []struct {
		from   tasks.Status
		action string
		want   tasks.Status
		event  string
		says   string
	}{
		{tasks.Dead, "retry", tasks.Received, "requeued", "tried again"},
		{tasks.Dead, "skip", tasks.Skipped, "skipped", "is skipped"},
		{tasks.Uncertain, "delivered", tasks.Forwarded, "resolved", "counts as delivered"},
		{tasks.Uncertain, "not-delivered", tasks.Received, "requeued", "sent again"},
		{tasks.Uncertain, "skip", tasks.Skipped, "skipped", "is skipped"},
		{tasks.Error, "retry", tasks.Received, "requeued", "tried again"},
		{tasks.Received, "skip", tasks.Skipped, "skipped", "is skipped"},
	} {
		t.Run(string(tt.from)+" "+tt.action, func(t *testing.T) {
			s := newSite(t, withUsers)
			s.firm()
			id := s.number(`SELECT id FROM monitored_emails_tasks WHERE status = ?`, tt.from)
			anna, path := s.logIn("anna"), "/messages/"+itoa(id)
			change := func(action, why string) answer {
				return s.do(anna, http.MethodPost, path+"/"+action, form("why", why))
			}
			change(tt.action, " ").has(t, http.StatusUnprocessableEntity, "write why")
			change(tt.action, strings.Repeat("x", 201)).has(t, http.StatusUnprocessableEntity, "200 characters")
			before := len(s.trail(id))
			got := change(tt.action, "she\nasked <b>twice</b>")
			got.has(t, http.StatusSeeOther)
			if task, err := s.queue.Get(t.Context(), id); err != nil || task.Status != tt.want {
				t.Fatalf("the task is %s (%v), want %s", task.Status, err, tt.want)
			}
			trail := s.trail(id)
			want := tt.event + " by anna (status page): by an operator: she asked <b>twice</b>"
			if len(trail) != before+1 || trail[before] != want {
				t.Errorf("the trail is %q, want %q at its end", trail, want)
			}
			s.do(anna, http.MethodGet, got.header.Get("Location"), "").has(t, http.StatusOK,
				tt.says, "she asked &lt;b&gt;twice", "anna (status page)")
			change("delivered", "again").has(t, http.StatusConflict, "Nothing was changed")
			if len(s.trail(id)) != before+1 {
				t.Errorf("a second change left the trail %q, want nothing of it there", s.trail(id))
			}
		})
	}
}

// TestChangeMessageMeanwhile: what somebody else has skipped since the page was shown is not sent
// by a button that was there for a dead message, and that is there for a skipped one, too.
func TestChangeMessageMeanwhile(t *testing.T) {
	s := newSite(t)
	s.firm()
	id := s.number(`SELECT id FROM monitored_emails_tasks WHERE status = 'dead'`)
	path := "/messages/" + itoa(id)
	s.get(path).has(t, http.StatusOK, `name="state" value="dead"`)
	if _, err := s.queue.Skip(t.Context(), tasks.By{Who: "ben"}, id); err != nil {
		t.Fatal(err)
	}
	retry := func(state string) answer {
		return s.do(client(t), http.MethodPost, path+"/retry", form("why", "a test", "state", state))
	}
	retry("dead").has(t, http.StatusConflict, "it is skipped; this is for tasks that are dead", `value="skipped"`)
	retry("skipped").has(t, http.StatusSeeOther)
}

// TestChangeMessageOfDisabled: what was changed says that it waits for its inbox, and so does its
// page.
func TestChangeMessageOfDisabled(t *testing.T) {
	s := newSite(t)
	s.firm()
	box, waits := "office@firm.example", "until <a href=\"/inboxes/office@firm.example\">its inbox</a> is enabled"
	to := []tasks.Delivery{{Recipient: "desk@firm.example", Status: tasks.Sending}}
	id := s.put(msg{inbox: box, status: tasks.Uncertain, to: to})
	path := "/messages/" + itoa(id)
	if err := s.queue.Disable(t.Context(), tasks.By{Who: "ann"}, s.inboxID[box]); err != nil {
		t.Fatal(err)
	}
	s.get(path).lacks(t, waits)
	s.do(client(t), http.MethodPost, path+"/not-delivered", form("why", "a test")).has(t, http.StatusSeeOther)
	s.get(path+"?done=not-delivered").has(t, http.StatusOK,
		"That is recorded. The message waits until its inbox is enabled.", waits)
	s.get(path).lacks(t, "Tried again", "with the next pass.<")
	if err := s.boxes.Enable(t.Context(), box, "ann", ""); err != nil {
		t.Fatal(err)
	}
	s.get(path).lacks(t, waits)
	s.get(path+"?done=not-delivered").has(t, http.StatusOK, "Tried again", "sent again with the next pass")
}

// TestMessageInProgress: a message that is being sent is not said to be tried again.
func TestMessageInProgress(t *testing.T) {
	s := newSite(t)
	s.firm()
	to := []tasks.Delivery{{Recipient: "desk@firm.example", Status: tasks.Pending}}
	id := s.put(msg{inbox: "office@firm.example", status: tasks.InProgress, to: to})
	a := s.get("/messages/" + itoa(id))
	// That worker may be dead.
	a.has(t, http.StatusOK, "A worker has it until <time", "the next pass takes the message over")
	a.lacks(t, "Tried again")
}

// TestOnlyLooks: who may not operate sees no form, and can change nothing.
func TestOnlyLooks(t *testing.T) {
	s := newSite(t, withUsers)
	s.firm()
	dead := s.number(`SELECT id FROM monitored_emails_tasks WHERE status = 'dead'`)
	ben := s.logIn("ben")
	s.do(ben, http.MethodGet, "/messages/"+itoa(dead), "").lacks(t, "formaction", "<h2 id=\"decide\">")
	office := s.do(ben, http.MethodGet, "/inboxes/office@firm.example", "")
	office.lacks(t, "Disable", "formaction", "<h2 id=\"decide\">")
	s.do(ben, http.MethodGet, "/audit", "").has(t, http.StatusOK, "all accounted for")
	for _, path := range []string{
		"/messages/" + itoa(dead) + "/retry", "/inboxes/office@firm.example/disable",
		"/inboxes/office@firm.example/audit",
	} {
		s.do(ben, http.MethodPost, path, form("why", "x")).has(t, http.StatusForbidden, "web.operators")
		s.do(client(t), http.MethodPost, path, form("why", "x")).has(t, http.StatusUnauthorized)
	}
	if len(s.trail(dead)) != 2 {
		t.Errorf("the trail is %q, want it as before", s.trail(dead))
	}
}

func TestInboxes(t *testing.T) {
	s := newSite(t)
	s.get("/inboxes").has(t, http.StatusOK, "There is no inbox")
	s.firm()
	s.now = s.now.Add(time.Minute)
	s.get("/inboxes").has(t, http.StatusOK,
		"office@firm.example", "billing@firm.example", "tenant=acme", "2 ok, 1 failing, 1 disabled")
	failing := s.get("/inboxes?show=failing")
	failing.has(t, http.StatusOK, "billing@firm.example", "refused the password")
	failing.lacks(t, "office@firm.example", "old@firm.example")
	s.get("/inboxes?show=disabled").lacks(t, "office@firm.example")
	vip := s.get("/inboxes?q=VIP")
	vip.has(t, http.StatusOK, "intake@firm.example")
	vip.lacks(t, "office@firm.example")
	s.get("/inboxes?q=none").has(t, http.StatusOK, "No inbox matches.")
	s.get("/inboxes/billing@firm.example").has(t, http.StatusOK, "What is wrong", "refused the password", "Since",
		"INBOX", "4711", "1743400000", "imap.firm.example:993")
	s.get("/inboxes/nosuch@firm.example").has(t, http.StatusNotFound, "there is no inbox nosuch@firm.example")
	s.get("/inboxes/office@firm.example").lacks(t, "sesame", "v1:")
}

// TestSwitchInbox: an inbox is disabled and enabled, with who and why in its trail, once.
func TestSwitchInbox(t *testing.T) {
	s := newSite(t, withUsers)
	s.add("office@firm.example")
	anna, path := s.logIn("anna"), "/inboxes/office@firm.example"
	for i, action := range []string{"disable", "enable"} {
		s.do(anna, http.MethodPost, path+"/"+action, form()).has(t, http.StatusUnprocessableEntity, "write why")
		for range 2 {
			s.do(anna, http.MethodPost, path+"/"+action, form("why", "moved "+action)).has(t, http.StatusSeeOther)
		}
		if got := s.number(`SELECT is_active FROM monitored_emails`); got != int64(i) {
			t.Errorf("after %s is_active is %d, want %d", action, got, i)
		}
		s.do(anna, http.MethodGet, path+"?done="+action, "").has(t, http.StatusOK,
			"The inbox is "+action+"d", "d by an operator: anna (status page)", "moved "+action)
	}
	if got := s.number(`SELECT COUNT(*) FROM monitored_emails_events`); got != 2 {
		t.Errorf("the trail has %d lines, want one for each change", got)
	}
	s.do(anna, http.MethodPost, path+"/remove", form("why", "x")).has(t, http.StatusNotFound)
}
