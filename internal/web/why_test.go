package web_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"postrider/internal/route"
	"postrider/internal/tasks"
)

// TestExplainOneAtATime: others are asked to try again, and open no connection.
func TestExplainOneAtATime(t *testing.T) {
	began, may := make(chan struct{}, 10), make(chan struct{})
	s := newSite(t, func(s *site) {
		s.options.Explain = func(ctx context.Context, _ tasks.Task) ([]route.Step, error) {
			began <- struct{}{}
			select {
			case <-may:
			case <-ctx.Done():
			}
			return nil, ctx.Err()
		}
	})
	s.firm()
	path := "/messages/" + itoa(s.number(`SELECT MIN(id) FROM monitored_emails_tasks`)) + "/explain"
	explain := func() answer { return s.do(client(t), http.MethodPost, path, "") }
	first := make(chan answer)
	go func() { first <- explain() }()
	<-began
	explain().has(t, http.StatusConflict, "Another message is being explained. Try again in a few seconds.")
	close(may)
	(<-first).has(t, http.StatusOK)
	explain().has(t, http.StatusOK)
	if n := len(began) + 1; n != 2 {
		t.Errorf("%d messages were fetched, want the first and the last", n)
	}
}

// slowBrowser does not read the page before may is closed.
type slowBrowser struct {
	http.ResponseWriter
	began, may chan struct{}
}

func (b slowBrowser) Write(p []byte) (int, error) {
	close(b.began)
	<-b.may
	return len(p), nil
}

// TestExplainToSlowBrowser: others can have a message explained while a page is being sent.
func TestExplainToSlowBrowser(t *testing.T) {
	s := newSite(t, func(s *site) {
		s.options.Explain = func(context.Context, tasks.Task) ([]route.Step, error) { return nil, nil }
	})
	s.firm()
	path := "/messages/" + itoa(s.number(`SELECT MIN(id) FROM monitored_emails_tasks`)) + "/explain"
	got, request := httptest.NewRecorder(), httptest.NewRequest(http.MethodPost, s.URL+path, nil)
	request.RemoteAddr = "127.0.0.1:1024"
	slow := slowBrowser{got, make(chan struct{}), make(chan struct{})}
	done := make(chan struct{})
	go func() {
		defer close(done)
		s.page.Handler().ServeHTTP(slow, request)
	}()
	<-slow.began
	s.do(client(t), http.MethodPost, path, "").has(t, http.StatusOK)
	close(slow.may)
	<-done
	if got.Code != http.StatusOK {
		t.Errorf("the slow browser gets %d, want %d", got.Code, http.StatusOK)
	}
}

// TestExplain: the routes are shown with what they compared, and nothing of the content.
func TestExplain(t *testing.T) {
	inBody := route.Check{
		Key: "any[0].body", Is: route.Held, Want: []string{"room"},
		On: "the secret room", Got: []string{"the secret room"}, By: "room",
	}
	steps := []route.Step{{
		Route: "court-notices", Outcome: route.Matched, Conditions: []route.Check{
			{Key: "subject", Is: route.Held, On: "Hearing", By: "hearing"},
			{Key: "any[0]", Is: route.Held, Of: []route.Check{inBody}},
		},
	}}
	failed := errors.New("connect to imap.firm.example:993: refused")
	var err error
	s := newSite(t, func(s *site) {
		s.options.Explain = func(ctx context.Context, _ tasks.Task) ([]route.Step, error) {
			if ends, _ := ctx.Deadline(); time.Until(ends) > 10*time.Second { // after 15 s there would be no page
				t.Errorf("the message is waited for until %s, want ten seconds at most", ends)
			}
			return steps, err
		}
	})
	s.firm()
	path := "/messages/" + itoa(s.number(`SELECT MAX(id) FROM monitored_emails_tasks`))
	s.get(path).has(t, http.StatusOK, "Explain by the current routes")
	got := s.do(client(t), http.MethodPost, path+"/explain", "")
	got.has(t, http.StatusOK, "court-notices", "matched", "subject contains &#34;Hearing&#34;, matched by",
		"any[0].body held, wanted room")
	got.lacks(t, "secret")
	captured := map[string]string{"client": "room 101"}
	problem := `to[0] ("${client}@firm.example") becomes "room 101@firm.example", which is not an address`
	steps = []route.Step{
		{Route: "own", Outcome: route.Matched, LeftOut: "office@firm.example"},
		{
			Route: "by-subject", Outcome: route.NotUsed, Captured: captured, Problem: problem,
			Conditions: []route.Check{{Key: "subject", On: "room 101", By: "x"}},
		},
		{
			Route: "by-contact", Outcome: route.NotUsed, Problem: "no address: Li Wei",
			Conditions: []route.Check{{Key: "body", Want: []string{"hearing"}}},
		},
	}
	s.do(client(t), http.MethodPost, path+"/explain", "").has(t, http.StatusOK,
		"office@firm.example is left out: it is the inbox&#39;s own address",
		"becomes &#34;room 101@firm.example&#34;, which is not an address", "no address: Li Wei")
	steps = []route.Step{{
		Route: "by-body", Outcome: route.NotUsed, Captured: captured, Problem: problem,
		Conditions: []route.Check{
			{Key: "any[0]", Of: []route.Check{{Key: "any[0].body", On: "room 101", By: "x"}}},
		},
	}}
	got = s.do(client(t), http.MethodPost, path+"/explain", "")
	got.has(t, http.StatusOK, "a recipient or the priority cannot be used", "postrider route test")
	got.lacks(t, "room 101")
	steps, err = nil, failed
	s.do(client(t), http.MethodPost, path+"/explain", "").has(t, http.StatusOK, "could not be fetched", "refused")
}
