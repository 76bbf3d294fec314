package pass

import (
	"context"
	"errors"
	"fmt"
	"time"

	"postrider/internal/imapsrc"
	"postrider/internal/inbox"
	"postrider/internal/message"
	"postrider/internal/text"
)

// FirstMessage is a message that a first pass begins with.
type FirstMessage struct {
	Subject string    `json:"subject"`
	Date    time.Time `json:"date"` // when the last server received it, or else what its author says
}

// lookAt reads the header of a message; nil when the server does not deliver it.
func lookAt(ctx context.Context, src Source, uid uint32) (first *FirstMessage, err error) {
	_, err = src.Headers(ctx, []uint32{uid}, func(_ uint32, m *message.Message) error {
		date := m.Header.Received()
		if date.IsZero() {
			date = m.Date()
		}
		first = &FirstMessage{Subject: m.Subject(), Date: date}
		return m.Close()
	})
	return first, err
}

// deleted reports whether err is that the server has no folder of that name.
func deleted(err error) bool {
	var e *imapsrc.Error
	return errors.As(err, &e) && e.Unlisted
}

// Plan says in one line what the first pass forwards of a folder that was never scanned. When
// writes a time for people.
func (f FolderCheck) Plan(start inbox.Start, when func(time.Time) string) string {
	all := text.Count(int(f.Messages), "message")
	const then = "will be forwarded, then new mail"
	switch day, since := start.Since(); {
	case f.Messages == 0:
		return "no messages; new mail will be forwarded"
	case since && f.Above == 0:
		return fmt.Sprintf("%s, none received since %s; new mail will be forwarded", all, day.Format(time.DateOnly))
	case f.Above == 0:
		return all + ", none of them will be forwarded; new mail will be"
	case start == inbox.StartLatest:
		return fmt.Sprintf("%s; the newest%s %s; `--start now` leaves it out", all, f.First.in(when), then)
	case since:
		return fmt.Sprintf("%s; %d of them, from the first received since %s%s, %s",
			all, f.Above, day.Format(time.DateOnly), f.First.in(when), then)
	}
	return fmt.Sprintf("%s; all of them, from the oldest%s, %s", all, f.First.in(when), then)
}

// in is the message in parentheses, or nothing when it is not known.
func (m *FirstMessage) in(when func(time.Time) string) string {
	if m == nil {
		return ""
	}
	subject := fmt.Sprintf("%q", text.Cut(text.Line(m.Subject), 60))
	if m.Subject == "" {
		subject = "without a subject"
	}
	if m.Date.IsZero() {
		return " (" + subject + ")"
	}
	return " (" + subject + ", " + when(m.Date) + ")"
}
