package cloudevent_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"postrider/internal/outbox"
	"postrider/internal/outbox/cloudevent"
	"postrider/internal/tasks"
)

const schemas = "../../../docs/events"

var kinds = []outbox.Kind{
	outbox.Registered, outbox.Forwarded, outbox.SkippedNoMatch, outbox.Skipped, outbox.Dead, outbox.Uncertain,
	outbox.Bounced, outbox.InboxUnreachable, outbox.InboxOK, outbox.NeedsLogin,
}

var at = time.Date(2026, 11, 23, 9, 30, 0, 0, time.FixedZone("", 3600))

// data is what events of a kind tell, with every key that can be there.
func data(kind outbox.Kind) any {
	if strings.HasPrefix(cloudevent.Type(kind), "postrider.inbox.") {
		return cloudevent.Inbox{
			Inbox: "desk@firm.example", Labels: map[string]string{"team": "a"}, Since: &at, Error: "no route to host",
		}
	}
	visible, status := at.Add(time.Hour), tasks.Status(kind)
	switch kind {
	case outbox.Registered:
		status = tasks.Received
	case outbox.Bounced:
		status = tasks.Forwarded
	}
	arrival := &tasks.Arrival{
		Status: tasks.Bounced, Code: 550, Enhanced: "5.1.1", Reply: "no such user", Remote: "mx.other.example", At: at,
	}
	task := tasks.Task{
		ID: 7, Inbox: "desk@firm.example", Folder: "INBOX", Status: status, Skip: "duplicate",
		Keep: tasks.KeepUndecided, Attempts: 2,
		CreatedAt: at, QueuedAt: at, UpdatedAt: at, VisibleAt: &visible,
		Deliveries: []tasks.Delivery{{
			Recipient: "a@b.example", Status: "delivered", Code: 250, DeliveredAt: &at, DuplicateOf: 3,
			Arrival: arrival,
		}},
	}
	told := cloudevent.NewTask(task, []tasks.Event{{At: at, Worker: "w", Event: "claimed", Detail: "d"}})
	told.Labels, told.EventsCut = map[string]string{"team": "a"}, true
	told.Header = &tasks.Header{Fields: []tasks.HeaderField{{Name: "from", Value: "a@b.example"}}}
	return told
}

func encode(t *testing.T, kind outbox.Kind) []byte {
	t.Helper()
	body, err := cloudevent.Encode(cloudevent.Event{
		ID: "0195e7", Source: "postrider://mail.example.com", Kind: kind, Subject: "7", Time: at, Data: data(kind),
	})
	if err != nil {
		t.Fatal(err)
	}
	return body
}

func compile(t *testing.T, kind outbox.Kind) *jsonschema.Schema {
	t.Helper()
	compiler := jsonschema.NewCompiler()
	compiler.AssertFormat()
	schema, err := compiler.Compile(filepath.Join(schemas, cloudevent.Type(kind)+".json"))
	if err != nil {
		t.Fatal(err)
	}
	return schema
}

// TestSchemas checks that what is encoded fits the schema of its type, and that no schema accepts
// an event of another type, or one without one of its keys.
func TestSchemas(t *testing.T) {
	for _, kind := range kinds {
		t.Run(string(kind), func(t *testing.T) {
			schema := compile(t, kind)
			if err := schema.Validate(decode(t, encode(t, kind))); err != nil {
				t.Errorf("the event does not fit its schema: %v", err)
			}
			for _, other := range kinds {
				if other != kind && schema.Validate(decode(t, encode(t, other))) == nil {
					t.Errorf("the schema accepts an event of the kind %s", other)
				}
			}
			withoutEach(t, schema, decode(t, encode(t, kind)).(map[string]any))
		})
	}
}

// TestNewestLines: of a long trail an event has the newest lines, and says that others are missing.
func TestNewestLines(t *testing.T) {
	for name, c := range map[string]struct {
		lines, octets, want int
	}{
		"none":       {0, 0, 0},
		"fifty":      {50, 100, 50},
		"many":       {51, 100, 50},
		"long":       {8, 4000, 8},
		"long, many": {100, 4000, 8},
	} {
		t.Run(name, func(t *testing.T) {
			var trail []tasks.Event
			for n := range c.lines {
				detail := fmt.Sprintf("%3d", n) + strings.Repeat("x", max(0, c.octets-3))
				trail = append(trail, tasks.Event{Event: "error", Detail: detail})
			}
			got := cloudevent.NewTask(tasks.Task{}, trail)
			if len(got.Events) != c.want || got.EventsCut != (c.want < c.lines) {
				t.Errorf("it has %d lines, cut %t; want the newest %d of %d",
					len(got.Events), got.EventsCut, c.want, c.lines)
			}
			if c.want > 0 && got.Events[c.want-1].Detail != trail[c.lines-1].Detail {
				t.Errorf("it ends with %q, want the newest line", got.Events[c.want-1].Detail)
			}
		})
	}
}

// withoutEach takes each key of the event and of its data away.
func withoutEach(t *testing.T, schema *jsonschema.Schema, event map[string]any) {
	t.Helper()
	optional := map[string]bool{
		"labels": true, "skip_reason": true, "keep_reason": true, "events_cut": true,
		"header": true, "header_cut": true,
	}
	for _, object := range []map[string]any{event, event["data"].(map[string]any)} {
		for key, value := range object {
			delete(object, key)
			if err := schema.Validate(event); (err == nil) != optional[key] {
				t.Errorf("without %s the schema says %v, want an error unless the key is optional", key, err)
			}
			object[key] = value
		}
	}
}

// TestSchemasKnowAllKeys checks that each key of the data is described, in the schema and nowhere
// else.
func TestSchemasKnowAllKeys(t *testing.T) {
	for kind, name := range map[outbox.Kind]string{outbox.Dead: "task.json", outbox.InboxOK: "inbox.json"} {
		text, err := os.ReadFile(filepath.Join(schemas, name))
		if err != nil {
			t.Fatal(err)
		}
		var schema struct {
			Properties map[string]any `json:"properties"`
		}
		if err := json.Unmarshal(text, &schema); err != nil {
			t.Fatal(err)
		}
		told := decode(t, encode(t, kind)).(map[string]any)["data"].(map[string]any)
		for key := range told {
			if schema.Properties[key] == nil {
				t.Errorf("docs/events/%s does not describe %s", name, key)
			}
			delete(schema.Properties, key)
		}
		for key := range schema.Properties {
			t.Errorf("docs/events/%s describes %s, which no event has", name, key)
		}
	}
}

// TestSchemaFiles checks that there is no schema of a type that does not exist.
func TestSchemaFiles(t *testing.T) {
	known := map[string]bool{"task.json": true, "inbox.json": true, "event.json": true}
	for _, kind := range kinds {
		known[cloudevent.Type(kind)+".json"] = true
	}
	files, err := fs.Glob(os.DirFS(schemas), "*.json")
	if err != nil || len(files) != len(known) {
		t.Errorf("docs/events has %d schemas (%v), want %d", len(files), err, len(known))
	}
	for _, file := range files {
		if !known[file] {
			t.Errorf("docs/events/%s is of no type", file)
		}
	}
}

func TestEncode(t *testing.T) {
	event := decode(t, encode(t, outbox.Forwarded)).(map[string]any)
	delete(event, "data")
	got, err := json.Marshal(event)
	const want = `{"datacontenttype":"application/json","id":"0195e7","source":"postrider://mail.example.com",` +
		`"specversion":"1.0","subject":"7","time":"2026-11-23T08:30:00Z","type":"postrider.task.forwarded.v1"}`
	if err != nil || string(got) != want {
		t.Errorf("the attributes are\n%s (%v), want\n%s", got, err, want)
	}
	for name, e := range map[string]cloudevent.Event{
		"no id":        {Source: "postrider://a", Kind: outbox.Dead, Time: at, Data: 1},
		"no source":    {ID: "1", Kind: outbox.Dead, Time: at, Data: 1},
		"unknown kind": {ID: "1", Source: "postrider://a", Kind: "odd", Time: at, Data: 1},
		"no JSON":      {ID: "1", Source: "postrider://a", Kind: outbox.Dead, Time: at, Data: func() {}},
	} {
		if body, err := cloudevent.Encode(e); err == nil {
			t.Errorf("%s: the event is %s, want an error", name, body)
		}
	}
}

func decode(t *testing.T, body []byte) any {
	t.Helper()
	value, err := jsonschema.UnmarshalJSON(bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	return value
}
