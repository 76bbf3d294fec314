//go:build linux

package e2e

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"postrider/internal/testserver/smtpsink"
)

// hook is a web server that gets events.
type hook struct {
	*httptest.Server
	status atomic.Int32 // of its answers; 0: 204

	mu    sync.Mutex
	holds func(event) bool   // whether there is no answer; nil: there is one
	got   map[string][]event // by their IDs
	order []event
}

// event is a CloudEvent about a task.
type event struct {
	ID, Type, Subject string
	Data              struct {
		ID         int64
		Inbox      string
		Status     string
		Deliveries []struct{ Status string }
		Header     []struct{ Name, Value string }
	}
	octets string
}

func newHook(t *testing.T) *hook {
	h := &hook{got: map[string][]event{}}
	h.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var e event
		body, err := io.ReadAll(r.Body)
		if err == nil {
			err = json.Unmarshal(body, &e)
		}
		if err != nil || r.Header.Get("Webhook-Id") != e.ID || r.Header.Get("Webhook-Signature") == "" {
			t.Errorf("the request has %s and the header %v, %v; want an event that is signed", body, r.Header, err)
		}
		if status := h.status.Load(); status != 0 {
			w.WriteHeader(int(status))
			return
		}
		e.octets = string(body)
		h.mu.Lock()
		h.got[e.ID] = append(h.got[e.ID], e)
		h.order = append(h.order, e)
		holds := h.holds
		h.mu.Unlock()
		if holds != nil && holds(e) {
			<-r.Context().Done()
			return
		}
		w.WriteHeader(http.StatusNoContent)
	}))
	t.Cleanup(h.Close)
	return h
}

// events are the different ones, as "TYPE ID-OF-THE-TASK", and how many came in all.
func (h *hook) events() (types []string, all int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, same := range h.got {
		all += len(same)
		types = append(types, strings.TrimPrefix(same[0].Type, "postrider.")+" "+same[0].Subject)
	}
	slices.Sort(types)
	return types, all
}

// withHook has a world send events of these kinds to a hook.
func withHook(t *testing.T, w *world, kinds string) *hook {
	h := newHook(t)
	t.Setenv("HOOK_SECRET", "whsec_"+strings.Repeat("QUJD", 10))
	w.extra = "events: {crm: {url: '" + h.URL + "', secrets: env:HOOK_SECRET, allow_internal: true, on: " + kinds + "}}"
	w.configure()
	return h
}

// TestEvents: each message's registration and end are events, once each, with what became of it. A
// receiver that is down holds up no mail, and gets them later. What an operator does is an event,
// too.
func TestEvents(t *testing.T) {
	for _, kind := range all {
		t.Run(kind, func(t *testing.T) {
			testEvents(t, newWorld(t, kind))
		})
	}
}

func testEvents(t *testing.T, w *world) {
	h := withHook(t, w, "[registered, forwarded, skipped], include: headers")
	h.status.Store(http.StatusInternalServerError)
	w.addInbox(desk, "--start", "all")
	w.imap.Append(t, desk, "INBOX", mails(3, "letter")...)
	w.pass(0)
	if got := w.arrived(); len(got) != 3 {
		t.Errorf("%d messages came while the receiver is down, want 3", len(got))
	}
	if _, n := h.events(); n != 0 {
		t.Errorf("%d events came, want none", n)
	}
	out := w.must(0, "event", "list", "--status", "waiting", "--json").stdout
	if n := strings.Count(out, `"status":"waiting"`); n != 6 || !strings.Contains(out, `"kind":"forwarded"`) {
		t.Errorf("waiting are\n%s\nwant 6 events", out)
	}
	h.status.Store(0)
	w.must(0, "event", "enable", "crm") // so that it is tried at once
	w.must(0, "event", "retry", "--status", "waiting", "--yes")
	w.pass(0)
	want := []string{
		"task.forwarded.v1 1", "task.forwarded.v1 2", "task.forwarded.v1 3",
		"task.registered.v1 1", "task.registered.v1 2", "task.registered.v1 3",
	}
	if got, n := h.events(); !slices.Equal(got, want) || n != len(want) {
		t.Errorf("the events are %q, %d in all; want %q, once each", got, n, want)
	}
	for _, same := range h.got {
		e := same[0]
		if d := e.Data; strings.Contains(e.Type, "forwarded") && (d.Inbox != desk || d.Status != "forwarded" ||
			len(d.Deliveries) != 1 || d.Deliveries[0].Status != "delivered") {
			t.Errorf("the event is %+v, want the task as it ended", e)
		}
		isSubject := func(f struct{ Name, Value string }) bool { return f.Name == "subject" }
		if !slices.ContainsFunc(e.Data.Header, isSubject) {
			t.Errorf("the event is %+v, want the header fields", e)
		}
	}
	w.startSink(func(e smtpsink.Event) smtpsink.Action { return smtpsink.Action{Code: 450} })
	w.configure()
	w.imap.Append(t, desk, "INBOX", mails(1, "refused")...)
	w.pass(75)
	w.must(0, "task", "skip", "4")
	w.pass(0)
	if got, _ := h.events(); !slices.Contains(got, "task.skipped.v1 4") {
		t.Errorf("the events are %q, want that task 4 was skipped", got)
	}
}

// TestEventsOfWatch: watch tells at once what it does, and a reload loses nothing.
func TestEventsOfWatch(t *testing.T) {
	world := newWorld(t, "sqlite")
	h := withHook(t, world, "[forwarded]")
	world.addInbox(desk, "--start", "now")
	w := &watching{world: world}
	w.restart()
	came := func(n int) {
		t.Helper()
		w.await("the events come", func() bool { types, _ := h.events(); return len(types) >= n })
	}
	w.arrive(3, "before")
	came(3)
	other := newHook(t)
	world.extra = strings.Replace(world.extra, h.URL, other.URL, 1)
	world.configure()
	w.says("the configuration was read again")
	w.arrive(2, "after")
	w.await("the events come elsewhere", func() bool { types, _ := other.events(); return len(types) == 2 })
	w.end(w.p, 0)
	if types, n := h.events(); len(types) != 3 || n != 3 {
		t.Errorf("the first receiver has %d events, %d in all, want 3, once each", len(types), n)
	}
}

// TestEventAlerts: dead events are an alert until an operator has seen to them. A report on one
// inbox has none.
func TestEventAlerts(t *testing.T) {
	w := newWorld(t, "sqlite")
	h := withHook(t, w, "[forwarded]")
	w.extra += "\nalerts: {events_dead: 0}"
	w.configure()
	h.status.Store(http.StatusUnprocessableEntity)
	w.addInbox(desk, "--start", "all")
	w.imap.Append(t, desk, "INBOX", mails(1, "letter")...)
	const alert = `"alert":"events_dead","value":1,"threshold":0`
	_, res := w.pass(75)
	if !strings.Contains(res.stdout, alert) || !strings.Contains(res.stdout, `"destination":"crm"`) {
		t.Errorf("the pass says\n%s\nwant the alert", res.stdout)
	}
	w.must(75, "status").times(t, 1, "more than alerts.events_dead (0)")
	w.must(0, "status", "--inbox", desk)
	w.pass(0, "--inbox", desk)
	w.must(0, "event", "skip", "--status", "dead", "--yes")
	w.must(0, "status")
	w.pass(0)
}
