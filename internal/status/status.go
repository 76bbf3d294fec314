// Package status gathers what to know about the whole: where each inbox stands, the alerts, the
// notices that wait, and the relay provider's limit that is used up.
//
// It reads the database and asks no server. What it cannot read is an error, except for the
// provider's limits: without them the rest is still worth knowing.
package status

import (
	"context"
	"log/slog"
	"slices"
	"time"

	"postrider/internal/health"
	"postrider/internal/inbox"
	"postrider/internal/limits"
	"postrider/internal/notify"
	"postrider/internal/tasks"
)

// Inboxes is what it needs of *inbox.Store.
type Inboxes interface {
	List(ctx context.Context, activeOnly bool) ([]inbox.Inbox, error)
}

// Queue is what it needs of a queue.
type Queue interface {
	Stats(ctx context.Context, inboxIDs []int64) (map[int64]tasks.Stats, error)
}

// Quota is what is left of the limits of the relay's provider, *limits.Quota.
type Quota interface {
	Limited() bool
	Left(ctx context.Context) (n int, why *limits.Reached, err error)
}

// Sources are where it reads, and the thresholds of the alerts.
type Sources struct {
	Inboxes Inboxes
	Queue   Queue
	Quota   Quota
	Notices func(ctx context.Context) ([]notify.Waiting, error)
	// Logins says of which inboxes, by their ids, a person has to log in, and why; key 0 is the
	// relay.
	Logins func(ctx context.Context) (map[int64]string, error)
	Alerts health.Limits
	Only   inbox.Selection // the inboxes to report on
	Log    *slog.Logger
}

// Report is what `status --json` prints.
type Report struct {
	Inboxes []Inbox        `json:"inboxes"`
	Alerts  []health.Alert `json:"alerts"`

	Notices         []notify.Waiting `json:"notices,omitempty"`           // not sent yet
	RelayNeedsLogin string           `json:"relay_needs_login,omitempty"` // why a person has to log in to the relay (OAuth2)

	LimitReached string `json:"limit_reached,omitempty"` // which of smtp.limits due tasks wait for, and until when
}

// Inbox is where one inbox stands.
type Inbox struct {
	Email           string               `json:"email"`
	Active          bool                 `json:"active"`
	Backlog         int                  `json:"backlog"` // unfinished tasks
	Due             int                  `json:"due"`     // of these, what the next run claims; the rest waits for its time
	Counts          map[tasks.Status]int `json:"counts"`  // of all states
	LastScannedAt   *time.Time           `json:"last_scanned_at"`
	LastError       string               `json:"last_error"`
	NeedsLogin      string               `json:"needs_login,omitempty"` // why a person has to log in (OAuth2)
	OldestWaitingAt *time.Time           `json:"oldest_waiting_at"`
	InError         int                  `json:"in_error"`
	Dead            int                  `json:"dead"`
	Uncertain       int                  `json:"uncertain"`
	Conflicts       int                  `json:"conflicts"`  // of the last day
	RetryRate       health.Share         `json:"retry_rate"` // of the last day, from 0 to 1

	Numbers health.Numbers `json:"-"`
	alerts  int
}

// Read gathers everything.
func (s Sources) Read(ctx context.Context) (Report, error) {
	r := Report{Inboxes: []Inbox{}, Alerts: []health.Alert{}}
	left, limit := s.left(ctx)
	logins, err := s.Logins(ctx)
	if err != nil {
		return r, err
	}
	r.RelayNeedsLogin = logins[0]
	err = s.each(ctx, nil, left, func(f health.Facts) {
		in, alerts := Of(f), health.Check(f, s.Alerts)
		in.alerts, in.NeedsLogin = len(alerts), logins[f.ID]
		r.Inboxes = append(r.Inboxes, in)
		r.Alerts = append(r.Alerts, alerts...)
		if limit != nil && f.Stats.Due > 0 {
			r.LimitReached = limit.Error()
		}
	})
	if err == nil {
		r.Notices, err = s.Notices(ctx)
	}
	return r, err
}

// After are the alerts after a pass: of the inboxes that it was to work on by name, or of all.
func (s Sources) After(ctx context.Context, named []string) ([]health.Alert, error) {
	alerts := []health.Alert{}
	if !s.Alerts.Set() {
		return alerts, nil
	}
	left, _ := s.left(ctx)
	err := s.each(ctx, named, left, func(f health.Facts) { alerts = append(alerts, health.Check(f, s.Alerts)...) })
	return alerts, err
}

// left is how many recipients smtp.limits allow now, nil for any number. When that is none, why is
// the limit used up.
func (s Sources) left(ctx context.Context) (n *int, why *limits.Reached) {
	if !s.Quota.Limited() {
		return nil, nil
	}
	left, why, err := s.Quota.Left(ctx)
	if err != nil {
		s.Log.Warn("smtp.limits could not be read; mail may be waiting for them", "error", err)
		return nil, nil
	}
	return &left, why
}

func (s Sources) each(ctx context.Context, named []string, left *int, each func(health.Facts)) error {
	boxes, err := s.Inboxes.List(ctx, false)
	if err == nil {
		boxes, err = s.Only.Choose(boxes)
	}
	if err != nil {
		return err
	}
	boxes = slices.DeleteFunc(boxes, func(in inbox.Inbox) bool { return !health.Concerns(named, in.Address) })
	stats, err := s.Queue.Stats(ctx, inbox.IDs(boxes))
	if err != nil {
		return err
	}
	for _, in := range boxes {
		each(health.Facts{
			ID: in.ID, Inbox: in.Address, Active: in.Active, CreatedAt: in.CreatedAt, LastScannedAt: in.LastScannedAt,
			LastError: in.LastError, Labels: in.Labels, Stats: stats[in.ID], Left: left,
		})
	}
	return nil
}

// Of is where an inbox stands, by the facts.
func Of(f health.Facts) Inbox {
	n := health.Count(f)
	in := Inbox{
		Email: f.Inbox, Active: f.Active, Backlog: n.Backlog, Due: n.Due, Counts: map[tasks.Status]int{},
		LastScannedAt: utc(f.LastScannedAt), LastError: f.LastError, OldestWaitingAt: utc(f.Stats.Oldest),
		InError: n.InError, Dead: n.Dead, Uncertain: n.Uncertain, Conflicts: n.Conflicts, RetryRate: n.RetryRate, Numbers: n,
	}
	for _, s := range tasks.Statuses {
		in.Counts[s] = f.Stats.ByStatus[s]
	}
	return in
}

// Troubled reports whether an operator should look at the inbox: messages are dead or uncertain, a
// number is above its limit, the last scan failed, or a person has to log in. A disabled inbox is
// not scanned.
func (in Inbox) Troubled() bool {
	return in.Dead+in.Uncertain+in.alerts > 0 || in.Active && in.LastError+in.NeedsLogin != ""
}

func utc(t *time.Time) *time.Time {
	if t == nil {
		return nil
	}
	u := t.UTC()
	return &u
}
