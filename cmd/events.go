package cmd

import (
	"context"
	"fmt"
	"net/url"
	"strings"
	"time"

	"postrider/internal/address"
	"postrider/internal/outbox"
	"postrider/internal/outbox/plan"
	"postrider/internal/outbox/sink"
	"postrider/internal/text"
)

// drainTime is how long a pass goes on at its end, so that its own events go out.
const drainTime = 10 * time.Second

// follow has the queue and the inboxes note what destinations want to know.
func (s *services) follow() {
	kinds := plan.Kinds(s.cfg.EventRules())
	s.inboxes.Follow(kinds...)
	s.queue.Follow(s.wakeEvents, append(kinds, s.cfg.AfterKinds()...)...)
}

// wakeEvents has events published soon.
func (s *services) wakeEvents() {
	select {
	case s.events <- struct{}{}:
	default:
	}
}

// dispatcher opens the destinations. It is nil when nothing follows from anything. Close ends them.
func (s *services) dispatcher() (_ *outbox.Dispatcher, closeAll func(), _ error) {
	rules := s.cfg.EventRules()
	after := s.after()
	if len(rules) == 0 && after == nil {
		return nil, func() {}, nil
	}
	d := &outbox.Dispatcher{Store: s.outbox, Worker: s.worker(), Drain: drainTime, Grace: drainTime, Log: s.log}
	planner := &plan.Planner{Rules: rules, Source: s.eventSource(), Tasks: s.queue, Inboxes: s.inboxes, After: after}
	d.Plan = planner.Plan
	closeAll = func() {
		ctx, cancel := context.WithTimeout(context.Background(), drainTime)
		defer cancel()
		for _, t := range d.Targets {
			_ = t.Publisher.Close(ctx) // what was acknowledged is recorded; the rest goes out again
		}
	}
	for _, r := range rules {
		t, err := s.target(r.Destination)
		if err != nil {
			closeAll()
			return nil, nil, usage(fmt.Errorf("events.%s: %w", r.Destination, err))
		}
		d.Targets = append(d.Targets, t)
	}
	return d, closeAll, nil
}

func (s *services) target(name string) (outbox.Target, error) {
	e := s.cfg.Events[name]
	set := e.Settings("postrider/" + version())
	p, err := sink.Open(set)
	return outbox.Target{
		Destination: outbox.Destination{Name: name, Target: outbox.Digest(set.URL)}, Publisher: p,
		Batch: e.Batch, Timeout: e.Timeout, GiveUp: e.GiveUp,
	}, err
}

// eventSource names the installation, the same on all its hosts.
func (s *services) eventSource() string {
	host := s.cfg.SMTP.Host
	if _, from, err := address.ParseNamed(s.cfg.Forward.From); err == nil {
		host = strings.Trim(from.Domain(), "[]")
		if _, v6, ok := strings.Cut(host, ":"); ok { // of the address literal [IPv6:...]
			host = v6
		}
	}
	if strings.Contains(host, ":") { // an IPv6 address
		host = "[" + host + "]"
	}
	return (&url.URL{Scheme: "postrider", Host: host}).String()
}

// publish hands events to their destinations, by what dispatcher returned, until stop is called;
// with drain, stop waits for those of this process.
func (s *services) publish(ctx context.Context, d *outbox.Dispatcher, closeAll func()) (stop func(drain bool)) {
	if d == nil {
		return func(bool) { s.tidyEvents(ctx) }
	}
	running, cancel := context.WithCancel(ctx)
	last, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		d.Run(running, s.events, last)
	}()
	return func(drain bool) {
		if drain {
			close(last)
		} else {
			cancel()
		}
		<-done
		cancel()
		closeAll()
		s.tidyEvents(ctx)
	}
}

// tidyEvents deletes what was done of the outbox long ago, and the headers of messages that ended
// so long ago.
func (s *services) tidyEvents(ctx context.Context) {
	s.tidy(ctx, s.outbox.Expire)
	s.tidy(ctx, s.queue.ExpireHeaders)
}

func (s *services) tidy(
	ctx context.Context, expire func(ctx context.Context, age time.Duration, limit int) (int, error),
) {
	const portion = 500
	age := time.Duration(s.cfg.Retention.Outbox)
	for age > 0 && ctx.Err() == nil {
		n, err := expire(ctx, age, portion)
		if err != nil && s.news(ctx, "outbox") {
			s.log.Warn("could not delete all expired events; the next pass continues", "error", text.Error(err))
		}
		if err != nil || n < portion {
			return
		}
	}
}

// standings are where the destinations of events stand.
func (s *services) standings(ctx context.Context) ([]outbox.Standing, error) {
	var all []outbox.Destination
	for name, e := range s.cfg.Events {
		all = append(all, outbox.Destination{Name: name, Target: outbox.Digest(string(e.URL))})
	}
	if len(s.cfg.AfterKinds()) > 0 {
		all = append(all, outbox.Destination{Name: outbox.Server})
	}
	return s.outbox.Standings(ctx, all...)
}

// printStandings prints a line for each destination with events that wait, or are dead.
func (a *app) printStandings(all []outbox.Standing) {
	for _, st := range all {
		live, dead := st.Live(), st.Dead()
		if live+dead == 0 && st.LastError == "" {
			continue
		}
		var parts []string
		if live > 0 || dead == 0 {
			parts = append(parts, fmt.Sprintf("%d waiting", live))
		}
		if st.OldestWaitingAt != nil {
			parts = append(parts, "the oldest since "+a.when(st.OldestWaitingAt))
		}
		const list = "%d %s (postrider event list --destination %s --status %s)"
		if st.Failing > 0 && st.Name == outbox.Server {
			parts = append(parts, fmt.Sprintf(list, st.Failing, "of them failed before", st.Name, outbox.Waiting))
		}
		if dead > 0 {
			parts = append(parts, fmt.Sprintf(list, dead, "dead", st.Name, outbox.DeadLetter))
		}
		line := st.Title() + ": " + strings.Join(parts, ", ")
		if why := st.Stopped(); why != "" {
			line += "; " + why
		} else if st.LastError != "" {
			line += "; the last attempt failed: " + text.Cut(st.LastError, 300)
		}
		a.print("%s\n", text.Line(line))
	}
}
