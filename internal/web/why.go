package web

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"postrider/internal/route"
	"postrider/internal/text"
)

// whyStep is what one route does with a message.
type whyStep struct {
	Route   string
	Outcome route.Outcome
	Lines   []string // its conditions, who is left out, and a problem
}

// explainPatience is how long a message is waited for. The page needs the rest of patience.
const explainPatience = 10 * time.Second

// explain tries the current routes on a message: on one at a time, because each needs an IMAP
// connection.
func (s *Server) explain(w http.ResponseWriter, r *http.Request, u user) error {
	id, err := messageID(r)
	if err != nil {
		return err
	}
	t, err := s.Queue.Get(r.Context(), id)
	if err != nil {
		return err
	}
	if !s.explaining.TryLock() {
		return &failure{http.StatusConflict, "Another message is being explained. Try again in a few seconds."}
	}
	steps, err := func() ([]route.Step, error) {
		defer s.explaining.Unlock() // not held while the page is made and sent
		ctx, cancel := context.WithTimeout(r.Context(), explainPatience)
		defer cancel()
		return s.Explain(ctx, t)
	}()
	b := messageBody{ID: id}
	if err != nil {
		b.Problem = "The routes could not be tried, because the message could not be fetched: " + text.Error(err)
	}
	for _, step := range steps {
		lines := conditions(step.Conditions, "")
		if step.LeftOut != "" {
			lines = append(lines, text.Line(step.LeftOut)+" is left out: it is the inbox's own address")
		}
		if step.Problem != "" {
			lines = append(lines, problem(step))
		}
		b.Steps = append(b.Steps, whyStep{step.Route, step.Outcome, lines})
	}
	return s.showMessage(w, r, u, http.StatusOK, b)
}

// shown are the conditions whose texts of the message may be shown. Those of others, such as body,
// are content.
var shown = map[string]bool{
	"inbox": true, "label": true, "folder": true, "from": true, "to": true, "cc": true, "recipient": true,
	"subject": true, "larger": true, "smaller": true, "age": true, "weekday": true, "hours": true,
	"has_attachment": true,
}

func isShown(c route.Check) bool { return shown[c.Key[strings.LastIndexByte(c.Key, '.')+1:]] }

// problem is that of a step. It may quote what was captured, which may be content.
func problem(step route.Step) string {
	if len(step.Captured) > 0 && hasContent(step.Conditions) {
		return "a recipient or the priority cannot be used; " +
			"to see why, save the message and run `postrider route test` on the server"
	}
	return text.Cut(text.Line(step.Problem), 400)
}

// hasContent reports whether one of the conditions compares content.
func hasContent(checks []route.Check) bool {
	return slices.ContainsFunc(checks, func(c route.Check) bool {
		return len(c.Of) == 0 && !isShown(c) || hasContent(c.Of)
	})
}

// conditions are lines for a person. A group is followed by its conditions.
func conditions(checks []route.Check, indent string) (out []string) {
	for _, c := range checks {
		line := c.String()
		if len(c.Of) == 0 && !isShown(c) {
			line = fmt.Sprintf("%s %s", c.Key, c.Is)
			if len(c.Want) > 0 {
				line += fmt.Sprintf(", wanted %s", strings.Join(c.Want, " or "))
			}
		}
		out = append(out, indent+text.Cut(text.Line(line), 400))
		out = append(out, conditions(c.Of, indent+"\u2003")...)
	}
	return out
}
