package web_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"postrider/internal/tasks"
)

// schema is what the test reads of a schema in the OpenAPI document.
type schema struct {
	Ref        string            `json:"$ref"`
	Type       any               `json:"type"`
	Format     string            `json:"format"`
	Enum       []string          `json:"enum"`
	Required   []string          `json:"required"`
	Properties map[string]schema `json:"properties"`
	More       *schema           `json:"additionalProperties"`
	Items      *schema           `json:"items"`
	OneOf      []schema          `json:"oneOf"`
}

// document is the OpenAPI document.
type document struct {
	Components struct {
		Schemas map[string]schema `json:"schemas"`
	} `json:"components"`
	Paths map[string]struct {
		Get struct {
			Parameters []struct {
				Name string `json:"name"`
				In   string `json:"in"`
			} `json:"parameters"`
			Responses map[string]struct {
				Content map[string]struct {
					Schema schema `json:"schema"`
				} `json:"content"`
			} `json:"responses"`
		} `json:"get"`
	} `json:"paths"`
}

// faults are where an answer is not as the schema says. A key that the schema lacks is one.
func (d document) faults(at string, s schema, v any) (out []string) {
	if s.Ref != "" {
		return d.faults(at, d.Components.Schemas[strings.TrimPrefix(s.Ref, "#/components/schemas/")], v)
	}
	if len(s.OneOf) > 0 {
		for _, one := range s.OneOf {
			if out = d.faults(at, one, v); len(out) == 0 {
				return nil
			}
		}
		return out
	}
	fault := func(format string, args ...any) { out = append(out, at+": "+fmt.Sprintf(format, args...)) }
	is := "null"
	switch v := v.(type) {
	case string:
		is = "string"
		if _, err := time.Parse(time.RFC3339, v); s.Format == "date-time" && err != nil {
			fault("%q is no time", v)
		}
		if len(s.Enum) > 0 && !slices.Contains(s.Enum, v) {
			fault("%q is not one of %q", v, s.Enum)
		}
	case bool:
		is = "boolean"
	case float64:
		if is = "number"; strings.Contains(fmt.Sprint(s.Type), "integer") && v == float64(int64(v)) {
			is = "integer"
		}
	case []any:
		is = "array"
		for i, one := range v {
			out = append(out, d.faults(fmt.Sprintf("%s[%d]", at, i), *s.Items, one)...)
		}
	case map[string]any:
		is = "object"
		for _, key := range s.Required {
			if _, ok := v[key]; !ok {
				fault("lacks %s", key)
			}
		}
		for key, value := range v {
			switch property, ok := s.Properties[key]; {
			case ok:
				out = append(out, d.faults(at+"."+key, property, value)...)
			case s.More != nil:
				out = append(out, d.faults(at+"."+key, *s.More, value)...)
			case s.Properties != nil:
				fault("has %s, which the document lacks", key)
			}
		}
	}
	if !strings.Contains(fmt.Sprint(s.Type), is) {
		fault("is of type %s, the document says %v", is, s.Type)
	}
	return out
}

// TestOpenAPI: each answer is as the document says, and each path of the document is there.
func TestOpenAPI(t *testing.T) {
	s := newSite(t)
	s.firm()
	gone := s.number(`SELECT MIN(id) FROM monitored_emails_tasks WHERE status = 'forwarded'`)
	if _, err := s.queue.Purge(t.Context(), tasks.By{Who: "ann"}, gone); err != nil {
		t.Fatal(err)
	}
	copied := s.put(msg{
		inbox: "office@firm.example", status: tasks.Skipped, skip: tasks.SkipDuplicate,
		to: []tasks.Delivery{{Recipient: "a@x.example", Status: tasks.Duplicated}},
	})
	s.exec(`UPDATE monitored_emails_deliveries SET duplicate_of = 5 WHERE task_id = ?`, copied)
	var d document
	if err := json.Unmarshal([]byte(s.get("/api/v1/openapi.json").body), &d); err != nil {
		t.Fatal(err)
	}
	dead := itoa(s.number(`SELECT id FROM monitored_emails_tasks WHERE status = 'dead'`))
	asked := map[string][]string{
		"/api/v1/status": {""}, "/api/v1/inboxes": {""}, "/api/v1/history": {""}, "/healthz": {""}, "/readyz": {""},
		"/api/v1/messages":          {"", "?q=anna&state=dead", "?since=2026-03-31", "?label=tenant%3Dacme"},
		"/api/v1/messages/{id}":     {dead, itoa(gone), itoa(copied), itoa(copied - 1)},
		"/api/v1/inboxes/{address}": {"billing@firm.example", "old@firm.example"},
	}
	for path, get := range d.Paths {
		for _, rest := range asked[path] {
			full, _, _ := strings.Cut(path, "{")
			got := s.get(full + rest)
			got.has(t, http.StatusOK)
			d.check(t, full+rest, get.Get.Responses["200"].Content["application/json"].Schema, got.body)
		}
		if asked[path] == nil {
			t.Errorf("the test asks nothing of %s", path)
		}
	}
	if len(d.Paths) != len(asked) {
		t.Errorf("the document has %d paths, want %d", len(d.Paths), len(asked))
	}
	for path, want := range map[string]int{
		"/api/v1/messages/999999": 404, "/api/v1/messages/0": 404, "/api/v1/messages/99999999999999999999": 404,
		"/api/v1/inboxes/x@x.example": 404, "/api/v1/inboxes/%2e%2e": 404, "/api/v1/nothing": 404,
		"/api/v1/messages?since=x": 400, "/api/v1/messages?inbox=office": 400,
		"/api/v1/messages?before=abc": 400, "/api/v1/messages?form=a": 400,
	} {
		got := s.get(path)
		got.has(t, want)
		d.check(t, path, schema{Ref: "#/components/schemas/Error"}, got.body)
		if strings.HasPrefix(path, "/api/v1/messages/") {
			got.has(t, want, "There is no such message.")
		}
	}
}

// TestAPILabels: a message has the labels of its inbox, as `postrider task show --json` has them.
func TestAPILabels(t *testing.T) {
	s := newSite(t)
	s.firm()
	id := s.put(msg{inbox: "intake@firm.example", status: tasks.Received})
	for _, path := range []string{"/api/v1/messages/" + itoa(id), "/api/v1/messages?inbox=intake@firm.example"} {
		s.get(path).has(t, http.StatusOK, `"labels":{"tenant":"acme","vip":"yes"}`)
	}
}

func (d document) check(t *testing.T, path string, s schema, body string) {
	t.Helper()
	var v any
	if err := json.Unmarshal([]byte(body), &v); err != nil {
		t.Fatalf("%s answers %v: %s", path, err, body)
	}
	for _, fault := range d.faults("", s, v) {
		t.Errorf("%s%s", path, fault)
	}
}

// TestAPIParameters: each parameter of the document selects something, and there is no other.
func TestAPIParameters(t *testing.T) {
	s := newSite(t)
	s.firm()
	s.add("new@firm.example")
	var d document
	if err := json.Unmarshal([]byte(s.get("/api/v1/openapi.json").body), &d); err != nil {
		t.Fatal(err)
	}
	none := map[string]string{
		"q": "nosuch", "from": "nosuch", "to": "nosuch", "subject": "nosuch", "message_id": "nosuch",
		"since": "2026-04-02", "until": "2020-01-01",
		"inbox": "new@firm.example", "label": "no=such", "state": "in_progress", "before": "1",
	}
	for _, p := range d.Paths["/api/v1/messages"].Get.Parameters {
		s.get("/api/v1/messages?"+p.Name+"="+none[p.Name]).has(t, http.StatusOK, `"messages":[]`)
		delete(none, p.Name)
	}
	if len(none) > 0 {
		t.Errorf("the document lacks the parameters %v", none)
	}
}

// TestParametersAreRefused: what would select something else than was asked for is an error, in the
// API and on the pages.
func TestParametersAreRefused(t *testing.T) {
	s := newSite(t)
	s.firm()
	const states = "received, in_progress, error, uncertain, dead, forwarded, skipped_no_match, skipped, " +
		"waiting, attention, bounced"
	for query, says := range map[string]string{
		"subject=50%": "write % as %25", "from=a;b": "; as %3B",
		"state=error&state=dead": "occurs 2 times; give it once", "state=late": "; there are " + states + ".",
		"form=a":                             "there are q, from, to,",
		"q=" + strings.Repeat("%C3%BC", 501): "has more than 500 characters; shorten it",
	} {
		for _, path := range []string{"/api/v1/messages?", "/messages?"} {
			got := s.get(path + query)
			got.has(t, http.StatusBadRequest, says)
			got.lacks(t, "Appointment next week?")
		}
	}
	s.get("/messages?form=a").has(t, http.StatusBadRequest, `<option value="office@firm.example">`)
	s.get("/api/v1/messages?q="+strings.Repeat("%C3%BC", 500)).has(t, http.StatusOK)
	s.get("/inboxes?q=50%").has(t, http.StatusBadRequest, "write % as %25")
	s.get("/inboxes?show=bogus").has(t, http.StatusBadRequest,
		"There is no &#34;bogus&#34; to show; there are failing, disabled,")
	s.get("/audit?inbox=a").has(t, http.StatusBadRequest, "there are q, show, after.")
	for _, path := range []string{
		"status", "messages/1", "inboxes", "inboxes/office@firm.example", "history", "openapi.json",
	} {
		s.get("/api/v1/"+path).has(t, http.StatusOK)
		s.get("/api/v1/"+path+"?inbox=a").has(t, http.StatusBadRequest,
			`There is no parameter \"inbox\"; there are none.`)
	}
}

// TestNewInbox: an inbox that was added, or changed, since its messages were counted is shown as it
// is.
func TestNewInbox(t *testing.T) {
	s := newSite(t)
	s.add("old@firm.example")
	s.get("/api/v1/inboxes").has(t, http.StatusOK, `"email":"old@firm.example"`)
	s.add("new@firm.example")
	s.exec(`UPDATE monitored_emails SET last_error = 'refused' WHERE email_address = 'new@firm.example'`)
	s.exec(`UPDATE monitored_emails SET is_active = 0 WHERE email_address = 'old@firm.example'`)
	s.get("/api/v1/inboxes/new@firm.example").has(t, http.StatusOK, `"email":"new@firm.example"`, `"active":true`,
		`"counts":{"dead":0,`, `"last_scanned_at":"2026-03-31T12:33:56Z"`, `"last_error":"refused"`)
	s.get("/api/v1/inboxes/old@firm.example").has(t, http.StatusOK, `"active":false`)
}
