package web

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"postrider/internal/tasks"
)

// messageBody is what the page of one message shows.
type messageBody struct {
	Now      time.Time
	ID       int64
	Gone     bool // only its trail is left
	Task     tasks.Task
	Details  tasks.Details
	Timeline []moment
	Steps    []whyStep // what they do with it, if that was asked for
	Choices  []choice  // what can be done
	Done     string    // what was just done
	Problem  string    // why that was not done
	Why      string    // the reason that was given with it
}

// moment is a line of the timeline.
type moment struct {
	At      time.Time
	What    string
	Detail  string
	By      string
	Tone    string
	Ordinal int // of lines of the same time
}

// choice is a change that an operator can make.
type choice struct {
	Action, Label, Explains string
	command                 tasks.Command
	done                    string
}

// changes are what operators can do, in the words of the page.
func changes() []choice {
	return []choice{
		{
			"delivered", "It arrived",
			"The message counts as forwarded. The next pass goes on for recipients that it has not reached.",
			tasks.DeliveredCommand(), "The message counts as delivered.",
		},
		{
			"not-delivered", "It did not arrive",
			"The next pass sends it again to the recipients whose outcome is unknown.",
			tasks.NotDeliveredCommand(), "The message is sent again with the next pass.",
		},
		{
			"retry", "Retry",
			"The next pass tries it again. Recipients who have it are left out.",
			tasks.RetryCommand(), "The message is tried again with the next pass.",
		},
		{
			"skip", "Skip",
			"It is not forwarded. Later copies of it are skipped, too.",
			tasks.SkipCommand(), "The message is skipped.",
		},
	}
}

// choicesFor are those for a task in its state. An uncertain one is either resolved or skipped.
func choicesFor(t tasks.Task) []choice {
	return slices.DeleteFunc(changes(), func(c choice) bool {
		return !c.command.Fits(t) || t.Status == tasks.Uncertain && c.Action == "retry"
	})
}

func messageID(r *http.Request) (int64, error) {
	id, err := strconv.ParseInt(r.PathValue("id"), 10, 64)
	if err != nil || id < 1 {
		return 0, tasks.ErrNotFound
	}
	return id, nil
}

func (s *Server) message(w http.ResponseWriter, r *http.Request, u user) error {
	id, err := messageID(r)
	if err != nil {
		return err
	}
	done := ""
	for _, c := range changes() {
		if c.Action == r.URL.Query().Get("done") {
			done = c.done
		}
	}
	return s.showMessage(w, r, u, http.StatusOK, messageBody{ID: id, Done: done})
}

// showMessage completes the body and shows it.
func (s *Server) showMessage(w http.ResponseWriter, r *http.Request, u user, code int, b messageBody) error {
	t, err := s.Queue.Get(r.Context(), b.ID)
	b.Gone = errors.Is(err, tasks.ErrNotFound)
	if err != nil && !b.Gone {
		return err
	}
	events, err := s.Queue.Events(r.Context(), b.ID)
	if err != nil {
		return err
	}
	if b.Gone && len(events) == 0 {
		return tasks.ErrNotFound
	}
	b.Now, b.Task, b.Details = s.Now(), t, tasks.DetailsOf(t, events)
	b.Timeline = timeline(t, events, b.Gone)
	if b.Done != "" && t.Shut() {
		b.Done = "That is recorded. The message waits until its inbox is enabled."
	}
	if !b.Gone && u.Operator {
		b.Choices = choicesFor(t)
	}
	s.show(w, code, "message", page{Title: fmt.Sprintf("Message %d", b.ID), Nav: "messages", User: u, Body: b})
	return nil
}

// eventWords say what the events of the trail mean. An event without words stands as it is.
var eventWords = map[string]string{
	"requeued": "Requeued", "skipped": "Skipped", "resolved": "Marked as delivered",
	"purged": "Deleted from the registry", "released": "Released by its worker",
	"conflict": "A worker had lost it to another", "lease_lost": "Taken over from a worker that did not finish",
	"error": "Failed, and will be tried again", "dead": "Given up", "uncertain": "Outcome unknown",
	"forwarded": "Forwarded", "skipped_no_match": "No route", "forgotten": "Forgotten",
	"enabled": "Enabled", "disabled": "Disabled", "rewound": "Rewound", "audit_started": "Audit started",
	"bounced": "Bounced after the relay had accepted it", "delayed": "Delayed on its way",
	"relayed": "Handed on to the recipient's server", "confirmed": "Confirmed by the recipient's server",
	"complained": "Reported by the recipient as unwanted", "left_out": "Not sent to the inbox's own address",
	"undecided": "A route could not look at all of it", "not_used": "Part of a route was not used",
	"server":        "Action on the server",
	"event_retried": "Event to be sent again", "event_skipped": "Event skipped", "event_purged": "Event deleted",
}

// momentOf is an event of a trail. What an operator did is in one line with who that was.
func momentOf(e tasks.Event) moment {
	what := cmp.Or(eventWords[e.Event], strings.ReplaceAll(e.Event, "_", " "))
	m := moment{At: e.At, What: what, Detail: e.Detail, By: e.Worker}
	if why, ok := strings.CutPrefix(e.Detail, "by an operator"); ok {
		m.What, m.Detail, m.By = m.What+" by an operator: "+e.Worker, strings.TrimPrefix(why, ": "), ""
	}
	return m
}

// timeline is everything that happened to a message, in order.
func timeline(t tasks.Task, events []tasks.Event, gone bool) []moment {
	var out []moment
	add := func(at time.Time, what, detail, by, tone string) {
		out = append(out, moment{at, what, detail, by, tone, len(out)})
	}
	if !gone {
		if !t.Identity.Date.IsZero() {
			add(t.Identity.Date, "Sent, by its Date field", "", "", "calm")
		}
		add(t.CreatedAt, "Registered", "in "+t.Folder+" of "+t.Inbox, "", "calm")
	}
	for _, e := range events {
		m := momentOf(e)
		add(m.At, m.What, m.Detail, m.By, tone(e.Event))
	}
	for _, d := range t.Deliveries {
		if d.DeliveredAt != nil {
			add(*d.DeliveredAt, "Accepted by the relay for "+d.Recipient, replyOf(d), "", "good")
		}
	}
	if t.FinishedAt != nil {
		add(*t.FinishedAt, "Ended: "+strings.ReplaceAll(string(t.Status), "_", " "), t.Reason, "", tone(t.Status))
	}
	slices.SortStableFunc(out, func(a, b moment) int {
		return cmp.Or(a.At.Compare(b.At), cmp.Compare(a.Ordinal, b.Ordinal))
	})
	return out
}

// replyOf is what the relay said about a recipient.
func replyOf(d tasks.Delivery) string {
	if d.Code == 0 {
		return d.Reply
	}
	return strings.TrimSpace(fmt.Sprintf("%d %s", d.Code, d.Reply))
}
