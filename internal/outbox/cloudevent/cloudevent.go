// Package cloudevent writes events as CloudEvents 1.0 in structured mode: one JSON object that has
// both the attributes and the data. docs/events has a JSON schema for each type.
//
// A type ends in the version of its data. Keys may be added to the data; what would break a reader
// gets a new version.
package cloudevent

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/cloudevents/sdk-go/v2/event"

	"postrider/internal/outbox"
	"postrider/internal/tasks"
)

// ContentType is the media type of what Encode returns.
const ContentType = event.ApplicationCloudEventsJSON

// types are those of the kinds.
var types = map[outbox.Kind]string{
	outbox.Registered:     "postrider.task.registered.v1",
	outbox.Forwarded:      "postrider.task.forwarded.v1",
	outbox.SkippedNoMatch: "postrider.task.skipped_no_match.v1",
	outbox.Skipped:        "postrider.task.skipped.v1",
	outbox.Dead:           "postrider.task.dead.v1",
	outbox.Uncertain:      "postrider.task.uncertain.v1",
	outbox.Bounced:        "postrider.task.bounced.v1",

	outbox.InboxUnreachable: "postrider.inbox.unreachable.v1",
	outbox.InboxOK:          "postrider.inbox.ok.v1",
	outbox.NeedsLogin:       "postrider.inbox.needs_login.v1",
}

// Type returns the CloudEvents type of a kind, empty for an unknown one.
func Type(kind outbox.Kind) string { return types[kind] }

// Event is what Encode writes.
type Event struct {
	ID      string // the same in all tries
	Source  string // a URI of the installation, such as postrider://mail.example.com
	Kind    outbox.Kind
	Subject string // the task's id, or the inbox's address
	Time    time.Time
	Data    any // written as JSON: Task or Inbox
}

// Task is the data of an event of a task.
type Task struct {
	tasks.Details
	EventsCut     bool `json:"events_cut,omitempty"` // the trail has older lines, see NewTask
	*tasks.Header      // nil: not included, or not known
}

// The bounds of the trail in an event. A message that was tried a hundred times may have a trail of
// hundreds of KiB, which receivers refuse.
const (
	maxLines = 50
	maxTrail = 32 << 10 // octets of JSON
)

// NewTask is the data of an event of a task: of its trail, the newest lines.
func NewTask(t tasks.Task, trail []tasks.Event) Task {
	d := Task{Details: tasks.DetailsOf(t, trail)}
	first, size := len(d.Events), 0
	for first > 0 && len(d.Events)-first < maxLines {
		line, err := json.Marshal(d.Events[first-1])
		if size += len(line) + 1; err != nil || size > maxTrail {
			break
		}
		first--
	}
	d.Events, d.EventsCut = d.Events[first:], first > 0
	return d
}

// Inbox is the data of an event of an inbox.
type Inbox struct {
	Inbox  string            `json:"inbox"` // the address
	Labels map[string]string `json:"labels,omitempty"`
	Since  *time.Time        `json:"since"` // of the failure; null when there is none
	Error  string            `json:"error"` // of the last scan; empty when it was well
}

// Encode returns the JSON of an event. The error says what is missing.
func Encode(e Event) ([]byte, error) {
	out := event.New(event.CloudEventsVersionV1)
	out.SetID(e.ID)
	out.SetSource(e.Source)
	out.SetType(Type(e.Kind))
	out.SetSubject(e.Subject)
	out.SetTime(e.Time.UTC())
	err := out.SetData(event.ApplicationJSON, e.Data)
	if err == nil {
		err = out.Validate()
	}
	if err != nil {
		return nil, fmt.Errorf("write the event %s (%s) as a CloudEvent: %w", e.ID, e.Kind, err)
	}
	body, err := out.MarshalJSON()
	if err != nil {
		return nil, fmt.Errorf("write the event %s (%s) as JSON: %w", e.ID, e.Kind, err)
	}
	return body, nil
}
