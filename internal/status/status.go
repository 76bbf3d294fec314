// Package status gathers the state of the whole installation: the state of each inbox, what passes
// measured, the alerts, the notices that wait, and the limit of the relay's provider that is used
// up, if any. The command line, the metrics and the status page all show this state.
//
// It reads the database and asks no server. The number of statements does not depend on the number
// of inboxes. If something cannot be read, that is an error, except for the provider's limits:
// without them the rest is still worth knowing.
package status

import (
	"context"
	"log/slog"
	"time"

	"postrider/internal/health"
	"postrider/internal/inbox"
	"postrider/internal/limits"
	"postrider/internal/measure"
	"postrider/internal/notify"
	"postrider/internal/outbox"
	"postrider/internal/tasks"
	"postrider/internal/text"
)

// Inboxes is what it needs of *inbox.Store.
type Inboxes interface {
	List(ctx context.Context) ([]inbox.Inbox, error)
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
	// Measures are what passes measured, (*measure.Store).Read.
	Measures func(ctx context.Context) (measure.Numbers, error)
	// Events says where the destinations of events stand.
	Events func(ctx context.Context) ([]outbox.Standing, error)

	Alerts health.Limits
	Only   inbox.Selection // the inboxes to report on
	Log    *slog.Logger
}

// Report is what `status --json` prints.
type Report struct {
	Inboxes []Inbox        `json:"inboxes"`
	Alerts  []health.Alert `json:"alerts"`

	Notices []notify.Waiting `json:"notices,omitempty"` // not sent yet

	// RelayNeedsLogin is why a person has to log in to the relay (OAuth2).
	RelayNeedsLogin string `json:"relay_needs_login,omitempty"`

	Events []outbox.Standing `json:"events,omitempty"` // destinations of events

	LimitReached string `json:"limit_reached,omitempty"` // which of smtp.limits due tasks wait for, and until when

	LastPassAt *time.Time `json:"last_pass_at"` // when the last pass on any host ended; null before
	RelayUp    *bool      `json:"relay_up"`     // whether the relay took mail when it was last tried; null before

	// RelayCertificateUntil is when the certificate expires that it showed at the last login.
	RelayCertificateUntil *time.Time `json:"relay_certificate_expires_at,omitempty"`

	DeliverySeconds measure.Histogram `json:"-"` // from the registration of a message to the relay's acceptance
	PassSeconds     measure.Histogram `json:"-"`
}

// Inbox is the state of one inbox.
type Inbox struct {
	ID      int64        `json:"-"`
	Email   string       `json:"email"`
	Labels  inbox.Labels `json:"labels,omitempty"`
	Active  bool         `json:"active"`
	Backlog int          `json:"backlog"` // unfinished tasks
	// Due are those of the backlog that the next run claims; the rest waits for its time, or for
	// smtp.limits.
	Due           int                  `json:"due"`
	Counts        map[tasks.Status]int `json:"counts"` // of all states
	LastScannedAt *time.Time           `json:"last_scanned_at"`
	LastError     string               `json:"last_error"`
	// FailingSince is when the first of the failed scans in a row ended.
	FailingSince    *time.Time `json:"failing_since,omitempty"`
	NeedsLogin      string     `json:"needs_login,omitempty"` // why a person has to log in (OAuth2)
	OldestWaitingAt *time.Time `json:"oldest_waiting_at"`
	InError         int        `json:"in_error"`
	Dead            int        `json:"dead"`
	Uncertain       int        `json:"uncertain"`
	// Bounced are tasks of which a delivery bounced after the relay had accepted it.
	Bounced       int          `json:"bounced"`
	BouncedLately int          `json:"bounced_last_day"` // deliveries that bounced in the last day
	Conflicts     int          `json:"conflicts"`        // of the last day
	RetryRate     health.Share `json:"retry_rate"`       // of the last day, from 0 to 1

	// Arrivals counts deliveries by what became of them: bounced, delayed, complained.
	Arrivals map[tasks.ArrivalStatus]int `json:"arrivals,omitempty"`

	// What passes measured, of all time:
	Deliveries []measure.Deliveries `json:"deliveries,omitempty"` // attempts, by result and reply class
	// LeasesLost is how often a worker found that it had lost the lease of a task.
	LeasesLost       int        `json:"leases_lost,omitempty"`
	CertificateUntil *time.Time `json:"certificate_expires_at,omitempty"`

	Numbers health.Numbers `json:"-"`
	Late    bool           `json:"-"` // the last complete scan is too long ago
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
	measured, err := s.Measures(ctx)
	if err != nil {
		return r, err
	}
	r.RelayNeedsLogin = logins[0]
	r.measured(measured)
	err = s.each(ctx, left, func(f health.Facts) {
		in, alerts := Of(f), health.Check(f, s.Alerts)
		in.alerts, in.NeedsLogin = len(alerts), logins[in.ID]
		in.Late = s.late(f, in.Numbers)
		in.measured(measured)
		if f.Inbox.Security == inbox.None || !in.Active {
			in.CertificateUntil = nil
		}
		if limit != nil && in.Due > 0 {
			in.Due, r.LimitReached = 0, limit.Error()
		}
		r.Inboxes = append(r.Inboxes, in)
		r.Alerts = append(r.Alerts, alerts...)
	})
	if err == nil {
		r.Notices, err = s.Notices(ctx)
	}
	if err == nil {
		r.Events, err = s.Events(ctx)
		r.Alerts = append(r.Alerts, s.eventAlerts(r.Events)...)
	}
	return r, err
}

// late reports whether the last complete scan is too long ago. An inbox that was just enabled, or
// changed, has as much time from then on.
func (s Sources) late(f health.Facts, n health.Numbers) bool {
	limit := s.Alerts.Of(f.Inbox.Labels).LateAfter()
	return f.Inbox.Active && n.SinceScan > limit && f.Stats.Now.Sub(f.Inbox.UpdatedAt) > limit
}

// eventAlerts are those of the destinations of events. A report on chosen inboxes has none.
func (s Sources) eventAlerts(all []outbox.Standing) (alerts []health.Alert) {
	if !s.Only.Empty() {
		return nil
	}
	for _, st := range all {
		alerts = append(alerts, health.CheckDestination(st, s.Alerts)...)
	}
	return alerts
}

func (r *Report) measured(n measure.Numbers) {
	r.LastPassAt, r.RelayUp, r.RelayCertificateUntil = n.LastPassAt, n.RelayUp, known(n.Certificates, 0)
	r.DeliverySeconds, r.PassSeconds = n.DeliverySeconds, n.PassSeconds
}

func (in *Inbox) measured(n measure.Numbers) {
	in.Deliveries, in.LeasesLost = n.Deliveries[in.ID], n.LeasesLost[in.ID]
	in.CertificateUntil = known(n.Certificates, in.ID)
}

func known(times map[int64]time.Time, id int64) *time.Time {
	if t, ok := times[id]; ok {
		return &t
	}
	return nil
}

// Check are the alerts alone.
func (s Sources) Check(ctx context.Context) ([]health.Alert, error) {
	alerts := []health.Alert{}
	if !s.Alerts.Set() {
		return alerts, nil
	}
	left, _ := s.left(ctx)
	err := s.each(ctx, left, func(f health.Facts) {
		alerts = append(alerts, health.Check(f, s.Alerts)...)
	})
	if err != nil {
		return alerts, err
	}
	events, err := s.Events(ctx)
	return append(alerts, s.eventAlerts(events)...), err
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

func (s Sources) each(ctx context.Context, left *int, each func(health.Facts)) error {
	boxes, err := s.Inboxes.List(ctx)
	if err == nil {
		boxes, err = s.Only.Choose(boxes)
	}
	if err != nil {
		return err
	}
	stats, err := s.Queue.Stats(ctx, inbox.IDs(boxes))
	if err != nil {
		return err
	}
	for _, in := range boxes {
		each(health.Facts{Inbox: in, Stats: stats[in.ID], Left: left})
	}
	return nil
}

// Of returns the state of an inbox.
func Of(f health.Facts) Inbox {
	n, box := health.Count(f), f.Inbox
	in := Inbox{
		ID: box.ID, Email: box.Address, Labels: box.Labels, Active: box.Active,
		Backlog: n.Backlog, Due: n.Due, Counts: map[tasks.Status]int{},
		LastScannedAt: text.UTC(box.LastScannedAt), LastError: box.LastError, FailingSince: text.UTC(box.FailingSince),
		OldestWaitingAt: text.UTC(f.Stats.Oldest), InError: n.InError,
		Dead: n.Dead, Uncertain: n.Uncertain, Conflicts: n.Conflicts, RetryRate: n.RetryRate,
		Numbers: n, Bounced: f.Stats.Bounced, BouncedLately: n.Bounced, Arrivals: f.Stats.Arrivals,
	}
	for _, s := range tasks.Statuses {
		in.Counts[s] = f.Stats.ByStatus[s]
	}
	return in
}

// Up reports whether the last scan succeeded. It is nil for an inbox that is disabled, or that was
// never scanned.
func (in Inbox) Up() *bool {
	if !in.Active || in.LastScannedAt == nil && in.LastError == "" {
		return nil
	}
	up := in.LastError == ""
	return &up
}

// Troubled reports whether an operator should look at the inbox: messages are dead or uncertain, or
// bounced in the last day, a number is above its limit, the last scan failed or is too long ago, or
// a person has to log in. A disabled inbox is not scanned.
func (in Inbox) Troubled() bool {
	return in.Dead+in.Uncertain+in.BouncedLately+in.alerts > 0 || in.Late ||
		in.Active && in.LastError+in.NeedsLogin != ""
}
