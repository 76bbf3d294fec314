package said

import (
	"fmt"
	"strings"
	"time"

	"postrider/internal/pass"
	"postrider/internal/text"
)

// Line is one thing to print. Exactly one of NoInbox, Failure, Good and Sentence is set.
type Line struct {
	NoInbox  bool     // there is no active inbox
	Failure  string   // what failed; Error has why
	Good     string   // what works again
	Sentence string   // a whole sentence
	Error    string   // one line
	Inboxes  []string // that Failure and Good are about; none for the relay

	server string // one line is for all inboxes of it
}

// maxNamed is how many inboxes a line names.
const maxNamed = 20

// Who names the inboxes.
func (l Line) Who() string {
	return strings.Join(text.Some(l.Inboxes, maxNamed), ", ")
}

// lines are what to say: failures of inboxes and of the relay, then what became of messages, then
// alerts.
func (f found) lines(news map[string]Change) []Line {
	var out []Line
	r := f.report
	if c, ok := news[ofNoInbox]; ok && c.Kind == Began {
		out = append(out, Line{NoInbox: true})
	}
	for _, in := range r.Inboxes {
		if c, ok := news[ofInbox+in.Email]; ok {
			out = add(out, f.words.inboxLine(in, c))
		}
	}
	if c, ok := news[ofRelay]; ok {
		out = append(out, f.words.relayLine(r, c))
	}
	for _, in := range r.Inboxes {
		if s := trouble(in, news); s != "" {
			out = append(out, Line{Sentence: s})
		}
	}
	for _, a := range f.alerts {
		if _, ok := news[alertSubject(a)]; ok {
			out = append(out, Line{Sentence: text.Line(a.Message)})
		}
	}
	return out
}

func (w words) inboxLine(in pass.InboxReport, c Change) Line {
	began, lasts := "the inbox failed", "the inbox still fails"
	if in.Left != "" {
		began, lasts = w.server, "the server still cannot be reached"
	}
	l := about(c, began, lasts, "works again", in.Error)
	l.Inboxes = []string{in.Email}
	if c.Kind != Ended {
		l.server = in.Left
	}
	return l
}

func (w words) relayLine(r pass.Report, c Change) Line {
	return about(c, w.relay, "the relay still fails", "the relay takes mail again", r.RelayError)
}

func about(c Change, began, lasts, ended, why string) Line {
	switch c.Kind {
	case Began:
		return Line{Failure: began, Error: why}
	case Lasts:
		return Line{Failure: lasts + " after " + text.Lasted(c.Lasted), Error: why}
	}
	if c.Lasted < time.Second {
		return Line{Good: ended}
	}
	return Line{Good: ended + " after " + text.Lasted(c.Lasted)}
}

// add adds a line, or its inbox to an equal line. For a server any of the errors will do.
func add(lines []Line, l Line) []Line {
	for i, other := range lines {
		same := other.Error == l.Error && other.server == l.server || l.server != "" && other.server == l.server
		if same && other.Failure == l.Failure && other.Good == l.Good {
			lines[i].Inboxes = append(lines[i].Inboxes, l.Inboxes...)
			return lines
		}
	}
	return append(lines, l)
}

// trouble is what became of messages of an inbox, when somebody should know. That a message died is
// always worth a line. That messages wait is a state.
func trouble(in pass.InboxReport, news map[string]Change) string {
	var parts []string
	add := func(n int, what string) {
		if n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, what))
		}
	}
	if _, ok := news[ofRetry+in.Email]; ok {
		add(in.Counters.Retry, "to be retried")
	}
	add(in.Counters.Dead, "dead (see `postrider task list --status dead`)")
	add(in.Counters.Uncertain, "uncertain (see `postrider task list --status uncertain`)")
	if _, ok := news[ofBacklog+in.Email]; ok {
		add(in.Counters.Backlog, "not registered yet")
	}
	if len(parts) == 0 {
		return ""
	}
	add(in.Counters.Waiting, "waiting for smtp.limits") // which alone is not an error
	return in.Email + ": " + strings.Join(parts, ", ")
}
