package pass

import (
	"context"
	"fmt"
	"io"

	"postrider/internal/forward"
	"postrider/internal/message"
	"postrider/internal/route"
	"postrider/internal/tasks"
	"postrider/internal/text"
)

// Specimen is a message to try the routes on.
type Specimen struct {
	route.Mail
	Task tasks.Task // the zero task for a message from a file
}

// Trial is what would become of a message. It is what `route test --json` prints.
type Trial struct {
	Inbox        string          `json:"inbox"`
	Folder       string          `json:"folder"`
	Task         int64           `json:"task,omitempty"`
	Subject      string          `json:"subject"`
	Sender       string          `json:"sender"`
	Size         int64           `json:"size"`
	Status       tasks.Status    `json:"status"` // forwarded, if the relay accepts it; skipped; skipped_no_match
	Reason       string          `json:"reason"`
	Route        string          `json:"route"`
	Recipients   []string        `json:"recipients"`
	LeftOut      string          `json:"left_out,omitempty"` // the inbox's own address, if left out
	EnvelopeFrom string          `json:"envelope_from"`
	Priority     route.Priority  `json:"priority"`
	Uncertain    route.Uncertain `json:"uncertain"`
	Mode         string          `json:"mode"`
	ModeReason   string          `json:"mode_reason,omitempty"` // when the mode was chosen
	Settled      []string        `json:"settled,omitempty"`     // recipients that the task keeps
	Routes       []route.Step    `json:"routes"`

	content *forward.Content // what would go out; nil when nothing would
}

// Content is the message that would go out; nil when nothing would.
func (t Trial) Content() io.Reader {
	if t.content == nil {
		return nil
	}
	return t.content.Reader()
}

// Tester tries routes on messages, as a pass would, and sends nothing.
type Tester struct {
	Routes      *route.Table
	Relay       *forward.Relay                    // knows the envelope sender, and does not connect
	Composer    func() (*forward.Composer, error) // asked for only when something would go out
	Style       route.Style
	Hold        bool // the policy for an unknown outcome, when the route has none
	Notices     bool // a notice goes out for a message that is too large
	MaxSize     int64
	MaxReceived int
}

// Try decides about the message and composes what would go out.
func (t Tester) Try(ctx context.Context, s Specimen) (Trial, error) {
	if s.Size > t.MaxSize && t.Notices {
		s.Message.HeaderOnly = true // a pass downloads no more
	}
	decision, d := byRoutes(ctx, t.Routes, s.Mail, t.MaxReceived)
	out := Trial{
		Inbox: s.Inbox, Folder: s.Folder, Task: s.Task.ID,
		Subject: s.Message.Subject(), Sender: s.Message.From(), Size: s.Size,
		Status: decision.Status(), Reason: decision.Reason, Route: d.Route,
		Recipients: append([]string{}, d.To...), LeftOut: d.LeftOut,
		Priority: d.Priority, Uncertain: route.Retry, Mode: string(t.Style.Mode), Routes: t.Routes.Explain(ctx, s.Mail),
		EnvelopeFrom: t.Relay.Envelope(s.Message, forward.Trace{Inbox: s.Inbox, TaskID: s.Task.ID}, d.To).From,
	}
	if t.Routes.Holds(d.Route, t.Hold) {
		out.Uncertain = route.Hold
	}
	if s.Task.Begun() {
		for _, del := range s.Task.Deliveries {
			out.Settled = append(out.Settled, del.Recipient)
		}
	}
	switch {
	case s.Size > t.MaxSize && !t.Notices:
		out.Status, out.Reason = tasks.Skipped, tooLarge(s.Size, t.MaxSize)
		return out, nil
	case out.Status != tasks.Received:
		return out, nil
	}
	out.Status = tasks.Forwarded
	return out, t.compose(ctx, &out, s)
}

func (t Tester) compose(ctx context.Context, out *Trial, s Specimen) error {
	composer, err := t.Composer()
	if err != nil {
		return err
	}
	of := s.Task
	of.Route = out.Route
	style := t.Routes.Style(ctx, out.Route, s.Mail, t.Style)
	out.content, err = composed(ctx, composer, t.Routes, s.Mail, of, t.MaxSize, style)
	if err != nil {
		return err
	}
	out.Mode, out.ModeReason = string(out.content.Mode), out.content.Remark
	out.EnvelopeFrom = t.Relay.Sender(out.EnvelopeFrom, out.content.Mode)
	return nil
}

// Fetch reads the message of a task from its server; of one larger than maxSize only the header.
func Fetch(ctx context.Context, src Source, t tasks.Task, maxSize int64) (m *message.Message, _ error) {
	info, err := src.Select(ctx, t.Folder)
	switch {
	case err != nil:
		return nil, err
	case info.UIDValidity != t.UIDValidity():
		return nil, fmt.Errorf("the UIDVALIDITY of folder %q has changed since; "+
			"`postrider run --inbox %s` finds its messages again", t.Folder, text.Arg(t.Inbox))
	}
	fetch := src.Bodies
	if t.Identity.Size > maxSize {
		fetch = src.Headers
	}
	found, err := fetch(ctx, []uint32{t.UID}, func(_ uint32, one *message.Message) error {
		m = one
		return nil
	})
	switch {
	case m != nil:
		return m, nil
	case err != nil:
		return nil, err
	case found.Failed[t.UID] != nil:
		return nil, found.Failed[t.UID]
	}
	return nil, fmt.Errorf("it is not in folder %q any more", t.Folder)
}
