// Package demo shows postrider at work: with an IMAP server and a relay inside this process, on
// loopback, and an SQLite file in a temporary directory.
//
// The messages are samples, the rest is real. Each pass is a process of its own, started with
// Options.Pass and the configuration file of the demo. The first pass is killed (SIGKILL;
// TerminateProcess on Windows) when the relay has received a whole message and has not replied yet.
// The second pass takes over its tasks. The third delivers what the relay deferred. Before the
// fourth, the cursor is moved back to the beginning; that pass has nothing to do.
//
// The outcome is computed from the tasks in the database and from the messages that the relay
// accepted. A difference to what postrider promises is a fault in the outcome. An error means that
// the demo itself failed. In every case, also when ctx ends, the demo removes its files and ends
// its processes and listeners.
package demo

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"time"

	"postrider/internal/pass"
	"postrider/internal/tasks"
)

const maxDuration = time.Minute

// Options are the callbacks of a demo.
type Options struct {
	// Pass returns a command, not started, that does one pass with this configuration file and
	// prints its pass.Report as JSON (`run --json`). The command ends when ctx does.
	Pass func(ctx context.Context, config string) *exec.Cmd
	// Say prints one line about a step.
	Say func(line string)
}

// Run runs the demo, in less than a minute.
func Run(ctx context.Context, opts Options) (out Outcome, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, maxDuration, fmt.Errorf("the demo takes longer than %s", maxDuration))
	defer cancel()
	s := &stage{opts: opts}
	defer func() {
		if cause := context.Cause(ctx); err != nil && cause != nil {
			err = cause
		}
		err = errors.Join(err, s.close())
	}()
	if err := s.open(ctx); err != nil {
		return Outcome{}, err
	}
	s.say("On 127.0.0.1: an IMAP server (port %d) with %d messages for %s, and an SMTP relay (port %d).",
		s.imap.Port(), len(samples()), deskInbox, s.relay.Port())
	for _, step := range []func(context.Context) error{s.killed, s.takeOver, s.deferred, s.again} {
		if err := step(ctx); err != nil {
			return Outcome{}, err
		}
	}
	registry, err := s.registry(ctx)
	if err != nil {
		return Outcome{}, err
	}
	out = evaluate(samples(), registry, s.relay.Messages())
	out.Faults = append(s.faults, out.Faults...)
	return out, nil
}

// killed kills a pass. The relay does not accept the message that the pass was sending.
func (s *stage) killed(ctx context.Context) error {
	p, err := s.start(ctx)
	if err != nil {
		return err
	}
	select {
	case <-s.relay.held:
	case <-p.ended:
		return p.unexpected()
	}
	// The end of the message before it may still be on its way into the database.
	err = until(ctx, func() (bool, error) {
		registry, err := s.registry(ctx)
		return sending(registry) == 1, err
	})
	p.kill()
	s.relay.release()
	if err != nil {
		return err
	}
	registry, err := s.registry(ctx)
	if err != nil {
		return err
	}
	s.say("Pass 1 is killed (kill -9): the relay had received all of %q and not replied yet.", scan().subject)
	count := map[tasks.Status]int{}
	for _, t := range registry {
		count[t.Status]++
	}
	s.say("       It leaves %d forwarded, %d in progress (%d marked as being sent) and %d waiting.",
		count[tasks.Forwarded], count[tasks.InProgress], sending(registry), count[tasks.Received])
	n := sending(registry)
	s.expect(n == 1, "deliveries marked as being sent after the killed pass: %d, not 1", n)
	return nil
}

// sending is how many deliveries are marked as being sent.
func sending(registry []tasks.Task) (n int) {
	for _, t := range registry {
		for _, d := range t.Deliveries {
			if d.Status == tasks.Sending {
				n++
			}
		}
	}
	return n
}

// takeOver waits until the leases of the dead pass have expired, those of its tasks and its scan
// lease, and does a pass.
func (s *stage) takeOver(ctx context.Context) error {
	began := time.Now()
	if err := s.due(ctx, tasks.InProgress); err != nil {
		return err
	}
	var report pass.Report
	err := until(ctx, func() (done bool, err error) {
		report, err = s.pass(ctx)
		return err == nil && report.Inboxes[0].Busy == "", err
	})
	if err == nil {
		s.say("Pass 2, %.1f s later, takes over after the leases have expired: %s.",
			time.Since(began).Seconds(), summary(report.Totals))
	}
	return err
}

// deferred does a pass after the backoff.
func (s *stage) deferred(ctx context.Context) error {
	s.relay.ready.Store(true)
	if err := s.due(ctx, tasks.Error); err != nil {
		return err
	}
	report, err := s.pass(ctx)
	if err == nil {
		s.say("Pass 3, after the backoff, sends what the relay deferred (451): %s.", summary(report.Totals))
		s.expect(report.Totals == pass.Counters{Forwarded: 1},
			"pass 3 should forward 1 message and nothing else: %s", summary(report.Totals))
	}
	return err
}

// again does a pass over all messages, which are already registered.
func (s *stage) again(ctx context.Context) error {
	before := len(s.relay.Messages())
	if err := s.rewind(ctx); err != nil {
		return err
	}
	report, err := s.pass(ctx)
	if err == nil {
		s.say("Pass 4, with the cursor moved back to the beginning, sees all messages again: %s.",
			summary(report.Totals))
		more := len(s.relay.Messages()) - before
		s.expect(report.Totals == pass.Counters{} && more == 0,
			"pass 4 should do nothing: %s; messages that the relay accepted: %d", summary(report.Totals), more)
	}
	return err
}

func (s *stage) say(format string, args ...any) { s.opts.Say(fmt.Sprintf(format, args...)) }

// expect adds a fault unless ok.
func (s *stage) expect(ok bool, format string, args ...any) {
	if !ok {
		s.faults = append(s.faults, fmt.Sprintf(format, args...))
	}
}

// summary describes in words what a pass did.
func summary(c pass.Counters) string {
	var parts []string
	for _, p := range []struct {
		n    int
		what string
	}{
		{c.Registered, "registered"},
		{c.Forwarded, "forwarded"},
		{c.SkippedNoMatch, "without a route"},
		{c.Skipped, "skipped"},
		{c.Retry, "to be retried"},
		{c.Dead, "permanently refused"},
		{c.Uncertain, "uncertain"},
		{c.Backlog, "not registered yet"},
	} {
		if p.n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", p.n, p.what))
		}
	}
	if parts == nil {
		return "0 registered, 0 forwarded"
	}
	return strings.Join(parts, ", ")
}
