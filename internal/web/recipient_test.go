package web_test

import (
	"database/sql"
	"net/http"
	"testing"

	"postrider/internal/tasks"
)

// TestTrailWords: each event of the trail has words, and what an operator did says who that was.
func TestTrailWords(t *testing.T) {
	s := newSite(t)
	s.add("office@firm.example")
	id := s.put(msg{inbox: "office@firm.example", status: tasks.Dead})
	for _, event := range []string{"left_out", "undecided", "not_used", "server"} {
		s.event(id, event, "mail-a", "", 0)
	}
	s.event(id, "requeued", "root@vm", "by an operator", 0)
	s.event(id, "skipped", "root@vm", "by an operator: not needed", 0)
	s.get("/messages/"+itoa(id)).has(t, http.StatusOK, "<strong>Not sent to the inbox&#39;s own address</strong>",
		"<strong>A route could not look at all of it</strong>", "<strong>Part of a route was not used</strong>",
		"<strong>Action on the server</strong>", "<strong>Requeued by an operator: root@vm</strong></div>",
		`<strong>Skipped by an operator: root@vm</strong><div class="detail"><bdi>not needed</bdi></div></div>`)
}

// TestRecipients: of a task that has ended, a recipient who lacks the message does not get it. A
// copy is left to the other task, whether that was delivered or skipped.
func TestRecipients(t *testing.T) {
	const ann = "ann@other.example"
	line := func(tone, how string) string {
		return `<li class="` + tone + `"><bdi class="who">` + ann + `</bdi>
  <span class="how">` + how
	}
	for _, tt := range []struct {
		name   string
		status tasks.Status
		to     tasks.Delivery
		want   string
	}{
		{"waiting", tasks.Received, tasks.Delivery{Status: tasks.Pending}, line("wait", "not sent yet")},
		{"skipped", tasks.Skipped, tasks.Delivery{Status: tasks.Pending}, line("calm", "not delivered")},
		{"dead", tasks.Dead, tasks.Delivery{Status: tasks.Pending}, line("bad", "not delivered")},
		{
			"a copy", tasks.Skipped,
			tasks.Delivery{Status: tasks.Duplicated, DuplicateOf: 22},
			"left to message 22, which has the same content",
		},
		{
			"a copy of one that was purged", tasks.Skipped,
			tasks.Delivery{Status: tasks.Duplicated},
			"left to another message with the same content",
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := newSite(t)
			s.add("office@firm.example")
			tt.to.Recipient = ann
			id := s.put(msg{inbox: "office@firm.example", status: tt.status, to: []tasks.Delivery{tt.to}})
			other := sql.NullInt64{Int64: tt.to.DuplicateOf, Valid: tt.to.DuplicateOf != 0}
			s.exec(`UPDATE monitored_emails_deliveries SET duplicate_of = ?`, other)
			s.get("/messages/"+itoa(id)).has(t, http.StatusOK, tt.want)
			s.get("/messages").has(t, http.StatusOK, tt.want)
		})
	}
}
