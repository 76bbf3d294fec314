package web

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"postrider/internal/inbox"
	"postrider/internal/outbox"
	"postrider/internal/status"
	"postrider/internal/tasks"
	"postrider/internal/text"
)

// overviewBody is what the overview shows.
type overviewBody struct {
	Now      time.Time
	Needs    []need
	Latest   []messageRow
	Counts   []stateCount
	Charts   []chart
	Inboxes  inboxCounts
	Due      int
	Bounced  int      // messages of which a delivery bounced
	Waiting  *waiting // the oldest message that is not forwarded
	Relay    relayState
	LastScan *time.Time
	Follows  []outbox.Standing // events and actions
}

// need is something that a person has to look at.
type need struct {
	Title string // what is wrong
	Since *time.Time
	Says  string // the error
	Fix   string
	Link  string // where more is said, or done
}

// stateCount is how many messages are in a state.
type stateCount struct {
	Status tasks.Status
	N      int
}

// inboxCounts are how many inboxes are how.
type inboxCounts struct{ Active, Failing, Disabled int }

// waiting is the inbox with the oldest message that is not forwarded.
type waiting struct {
	Inbox string
	Since time.Time
}

// relayState is what is known of the relay.
type relayState struct {
	Name    string
	Problem string // empty: it can be used
}

const (
	mostNeeds    = 20 // of each kind
	latestOnHome = 8
	historyDays  = 30
)

func (s *Server) overview(w http.ResponseWriter, r *http.Request, u user) error {
	ctx := r.Context()
	report, err := s.report.get(ctx)
	if err != nil {
		return err
	}
	hours, err := s.history.get(ctx)
	if err != nil {
		return err
	}
	boxes, err := s.Inboxes.List(ctx)
	if err != nil {
		return err
	}
	latest, err := s.Queue.Search(ctx, tasks.Search{Limit: latestOnHome, Examine: latestOnHome + 1})
	if err != nil {
		return err
	}
	b := overviewBody{
		Now: s.Now(), Latest: rowsOf(latest.Tasks), Charts: charts(hours, s.Now(), s.Zone),
		Relay: relayState{Name: s.Relay.Name},
	}
	if err := s.relayProblem(ctx, report); err != nil {
		b.Relay.Problem = err.Error()
	}
	audits, err := s.auditsOf(ctx, boxes...)
	if err != nil {
		return err
	}
	b.sum(report)
	if s.Broken != nil && s.Broken() {
		b.Needs = append(b.Needs, broken)
	}
	reachable := slices.ContainsFunc(report.Inboxes, func(in status.Inbox) bool {
		return in.Active && in.LastError+in.NeedsLogin == ""
	})
	if at, state := s.lastPass(report); state != "ok" && reachable {
		b.Needs = append(b.Needs, need{
			Title: "No inbox was read", Since: at,
			Fix: "Check on the server that cron, the systemd timer or `postrider watch` runs.",
		})
	}
	b.need(report, boxes, audits)
	b.Follows = report.Events
	s.show(w, http.StatusOK, "overview", page{Title: "Overview", Nav: "overview", User: u, Body: b})
	return nil
}

// need lists what a person has to look at, the most urgent first.
func (b *overviewBody) need(report status.Report, boxes []inbox.Inbox, audits []auditState) {
	b.Needs = slices.Concat(b.Needs, b.relayNeeds(report), inboxNeeds(report, boxes), messageNeeds(report),
		auditNeeds(boxes, audits), alertNeeds(report))
	for _, n := range report.Notices {
		if n.LastError != "" {
			b.Needs = append(b.Needs, need{
				Title: fmt.Sprintf("Notices for %s could not be sent", n.Channel), Says: n.LastError,
				Fix: "postrider tries again with the next pass. " +
					"Correct notify or hook in the configuration if the error stays.",
			})
		}
	}
	for _, d := range report.Events {
		stopped := d.Stopped()
		if !failing(d) {
			continue
		}
		n := need{Title: fmt.Sprintf("%s: %d waiting, %d dead", d.Title(), d.Live(), d.Dead()), Says: d.LastError}
		if d.LastError != "" && d.Live() > 0 {
			n.Fix = "postrider tries again by itself. "
		}
		if d.Dead() > 0 {
			n.Fix += "Look at the dead ones: postrider event list --destination " + d.Name + " --status dead"
		}
		if stopped != "" {
			n.Fix = strings.ToUpper(stopped[:1]) + stopped[1:]
		}
		b.Needs = append(b.Needs, n)
	}
}

// failing reports whether a destination of events is listed even without an alert.
func failing(d outbox.Standing) bool { return d.LastError+d.Stopped() != "" || d.Dead() > 0 }

// bounded are the first needs of a kind, and one that leads to the rest.
func bounded(all []need, rest need) []need {
	n := len(all) - mostNeeds
	if n <= 0 {
		return all
	}
	rest.Title += ": " + thousands(n)
	return append(all[:mostNeeds], rest)
}

// readHistory reads what the charts show.
func (s *Server) readHistory(ctx context.Context) ([]tasks.Ended, error) {
	boxes, err := s.Inboxes.List(ctx)
	if err != nil {
		return nil, err
	}
	return s.Queue.History(ctx, inbox.IDs(boxes), s.Now().AddDate(0, 0, -historyDays))
}

// sum adds up the inboxes.
func (b *overviewBody) sum(report status.Report) {
	all := map[tasks.Status]int{}
	for _, in := range report.Inboxes {
		switch {
		case !in.Active:
			b.Inboxes.Disabled++
		case in.Late || in.LastError+in.NeedsLogin != "":
			b.Inboxes.Failing++
		default:
			b.Inboxes.Active++
		}
		for state, n := range in.Counts {
			all[state] += n
		}
		b.Due += in.Due
		b.Bounced += in.Bounced
		if at := in.OldestWaitingAt; at != nil && (b.Waiting == nil || at.Before(b.Waiting.Since)) {
			b.Waiting = &waiting{in.Email, *at}
		}
		if at := in.LastScannedAt; at != nil && (b.LastScan == nil || at.After(*b.LastScan)) {
			b.LastScan = at
		}
	}
	for _, state := range tasks.Statuses {
		b.Counts = append(b.Counts, stateCount{state, all[state]})
	}
}

// broken comes first: what was changed has no effect. It does not say why, because that may quote
// what the program of a secret printed.
var broken = need{
	Title: "The configuration cannot be used, so the previous one stays in force",
	Fix:   "Run `postrider check` on the server to see why. Mail goes on as before, but a restart would fail.",
}

// relayNeeds come next: nothing goes out without a relay.
func (b *overviewBody) relayNeeds(report status.Report) (out []need) {
	switch {
	case report.RelayNeedsLogin != "":
		out = append(out, need{
			Title: "The relay needs a login", Says: report.RelayNeedsLogin,
			Fix: "Run `postrider smtp login` on the server.",
		})
	case b.Relay.Problem != "":
		out = append(out, need{
			Title: "The relay " + b.Relay.Name + " cannot be used", Says: b.Relay.Problem,
			Fix: "Mail waits, and goes out when the relay is back. Run `postrider check` on the server to test it.",
		})
	}
	if report.LimitReached != "" {
		out = append(out, need{Title: "Mail waits for a limit of the relay's provider", Says: report.LimitReached})
	}
	return out
}

// inboxNeeds are those of inboxes that are not read.
func inboxNeeds(report status.Report, boxes []inbox.Inbox) (out []need) {
	since := map[string]*time.Time{}
	for _, in := range boxes {
		since[in.Address] = in.FailingSince
	}
	late := 0
	for _, in := range report.Inboxes {
		switch {
		case !in.Active:
		case in.NeedsLogin != "":
			out = append(out, need{
				Title: in.Email + " needs a login", Since: since[in.Email], Says: in.NeedsLogin,
				Fix: "Run `postrider inbox login " + text.Arg(in.Email) + "` on the server.", Link: inboxPath(in.Email),
			})
		case in.LastError != "":
			out = append(out, need{
				Title: in.Email + " cannot be read", Since: since[in.Email], Says: in.LastError,
				Fix:  "Run `postrider inbox check " + text.Arg(in.Email) + "` on the server to test it.",
				Link: inboxPath(in.Email),
			})
		case in.Late:
			late++
		}
	}
	if late > 0 {
		out = append(out, need{
			Title: number(late, "inbox was", "inboxes were") +
				" not scanned completely for longer than alerts.last_scan (an hour if that is not set)",
			Fix:  "Check on the server that the passes are for these inboxes, too, and have enough time.",
			Link: "/inboxes?show=failing",
		})
	}
	return bounded(out, need{Title: "More inboxes that cannot be read", Link: "/inboxes?show=failing"})
}

// alertNeeds are the numbers above their limits, except those of failing destinations, which are
// listed anyway.
func alertNeeds(report status.Report) (out []need) {
	for _, a := range report.Alerts {
		listed := func(d outbox.Standing) bool { return d.Name == a.Destination && failing(d) }
		if slices.ContainsFunc(report.Events, listed) {
			continue
		}
		n := need{Title: a.Message}
		if a.Inbox != "" {
			n.Link = inboxPath(a.Inbox)
		}
		out = append(out, n)
	}
	return bounded(out, need{Title: "More alerts", Fix: "Run `postrider status --failing` on the server to see them."})
}

// messageNeeds are those of messages that somebody did not get, or perhaps did not.
func messageNeeds(report status.Report) (out []need) {
	dead, uncertain, bounced := 0, 0, 0
	for _, in := range report.Inboxes {
		dead += in.Dead
		uncertain += in.Uncertain
		bounced += in.BouncedLately
	}
	if dead > 0 {
		out = append(out, need{
			Title: number(dead, "message was", "messages were") + " not delivered (dead)",
			Fix:   "Open each: retry it, or skip it.", Link: "/messages?state=dead",
		})
	}
	if uncertain > 0 {
		out = append(out, need{
			Title: number(uncertain, "message", "messages") + " may or may not have arrived (uncertain)",
			Fix:   "Ask the recipient, then say whether it arrived.", Link: "/messages?state=uncertain",
		})
	}
	if bounced > 0 {
		out = append(out, need{
			Title: number(bounced, "delivery", "deliveries") +
				" bounced in the last day, after the relay had accepted the message",
			Fix:  "Open each: retry it, or correct the recipient's address in the routes.",
			Link: "/messages?state=bounced",
		})
	}
	return out
}

func number(n int, one, more string) string {
	if n == 1 {
		return "1 " + one
	}
	return thousands(n) + " " + more
}

func inboxPath(address string) string { return "/inboxes/" + url.PathEscape(address) }
