// Package demo shows postrider at work on servers of its own: an IMAP server and a relay inside this process, on
// loopback, and an SQLite file in a temporary directory.
//
// The mail is made up, the rest is real. Each pass is a process of its own, made by Options.Pass, with the
// configuration file written here. The first one is killed (SIGKILL; TerminateProcess on Windows) when the relay has
// got all of a message and has not answered yet; the second takes over what the first left behind; the third delivers
// what the relay deferred; for the fourth the cursor is put back to the beginning, and it has nothing to do.
//
// The outcome is not told but computed: from what the registry says of every message and from what the relay
// accepted. A promise that was not kept is a fault in it. An error means that the demo itself could not be carried
// through. Either way, and when ctx ends, no file, process or listener is left behind.
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

const longest = time.Minute

// Options are what a demo needs of its caller.
type Options struct {
	// Pass makes a process, not started, that does one pass with this configuration file and prints its pass.Report
	// as JSON (`run --json`). It ends with ctx.
	Pass func(ctx context.Context, config string) *exec.Cmd
	// Say is told each step, one line at a time.
	Say func(line string)
}

// Run plays the demo, in less than a minute.
func Run(ctx context.Context, opts Options) (out Outcome, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, longest, fmt.Errorf("the demo takes longer than %s", longest))
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
		s.imap.Port(), len(letters()), deskInbox, s.relay.Port())
	for _, act := range []func(context.Context) error{s.killed, s.replay, s.deferred, s.again} {
		if err := act(ctx); err != nil {
			return Outcome{}, err
		}
	}
	registry, err := s.registry(ctx)
	if err != nil {
		return Outcome{}, err
	}
	out = judge(letters(), registry, s.relay.Messages())
	out.Faults = append(s.faults, out.Faults...)
	return out, nil
}

// killed is the pass that dies. Its connection to the relay breaks before the relay has taken the message on.
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
	p.kill()
	s.relay.letGo()
	registry, err := s.registry(ctx)
	if err != nil {
		return err
	}
	s.say("Pass 1 is killed (kill -9): the relay had got all of %q and not answered yet.", scan().subject)
	sending := s.tellLeft(registry)
	s.expect(sending == 1, "the killed pass left %d messages marked as being sent, not 1", sending)
	return nil
}

// tellLeft says what a killed pass has left, and returns how many deliveries it was in the middle of.
func (s *stage) tellLeft(registry []tasks.Task) (sending int) {
	count := map[tasks.Status]int{}
	for _, t := range registry {
		count[t.Status]++
		for _, d := range t.Deliveries {
			if d.Status == tasks.Sending {
				sending++
			}
		}
	}
	s.say("       It leaves %d forwarded, %d in progress (%d marked as being sent) and %d waiting.",
		count[tasks.Forwarded], count[tasks.InProgress], sending, count[tasks.Received])
	return sending
}

// replay waits for the leases of the dead pass, the tasks' and the inbox's, and does the next pass.
func (s *stage) replay(ctx context.Context) error {
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
		s.say("Pass 2, %.1f s later, takes over when its leases have run out: %s.", time.Since(began).Seconds(), sum(report.Totals))
	}
	return err
}

// deferred does the pass after the backoff.
func (s *stage) deferred(ctx context.Context) error {
	s.relay.ready.Store(true)
	if err := s.due(ctx, tasks.Error); err != nil {
		return err
	}
	report, err := s.pass(ctx)
	if err == nil {
		s.say("Pass 3, after the backoff, sends what was deferred (451): %s.", sum(report.Totals))
		s.expect(report.Totals == pass.Counters{Forwarded: 1}, "pass 3 was to forward 1 message and leave nothing to be done: %s", sum(report.Totals))
	}
	return err
}

// again does a full pass over what is known already.
func (s *stage) again(ctx context.Context) error {
	before := len(s.relay.Messages())
	if err := s.rewind(ctx); err != nil {
		return err
	}
	report, err := s.pass(ctx)
	if err == nil {
		s.say("Pass 4, with the cursor put back to the beginning, sees all messages again: %s.", sum(report.Totals))
		more := len(s.relay.Messages()) - before
		s.expect(report.Totals == pass.Counters{} && more == 0, "pass 4 was to do nothing: %s, the relay got %d more", sum(report.Totals), more)
	}
	return err
}

func (s *stage) say(format string, args ...any) { s.opts.Say(fmt.Sprintf(format, args...)) }

func (s *stage) expect(kept bool, format string, args ...any) {
	if !kept {
		s.faults = append(s.faults, fmt.Sprintf(format, args...))
	}
}

// sum is what a pass did, in words.
func sum(c pass.Counters) string {
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
		{c.Dead, "refused for good"},
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
