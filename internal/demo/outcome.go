package demo

import (
	"bytes"
	"fmt"
	"slices"
	"strings"

	"postrider/internal/tasks"
	"postrider/internal/testserver/smtpsink"
)

// Outcome is the result of a demo.
type Outcome struct {
	Rows    []Row
	Verdict string   // one line
	Faults  []string // broken promises, one line each
}

// Row is one recipient of one message, or a message without recipients.
type Row struct {
	Message          string
	Status           tasks.Status
	Attempts         int
	Recipient, Reply string // Reply is the relay's, or the reason why nothing was sent
	Copies           int    // how many the relay accepted for the recipient
}

// evaluation computes an Outcome.
type evaluation struct {
	Outcome
	registry []tasks.Task
	copies   map[copyKey]int

	once, noRoute, refused, lost, twice int
}

// copyKey is a message for one recipient.
type copyKey struct{ id, to string }

// evaluate compares the expected outcome of the samples with the registry and with what the relay
// accepted.
func evaluate(ls []sample, registry []tasks.Task, accepted []smtpsink.Message) Outcome {
	j := evaluation{registry: registry, copies: map[copyKey]int{}}
	j.receive(ls, accepted)
	for _, l := range ls {
		j.sample(l)
	}
	j.Verdict = fmt.Sprintf("%d messages: %d forwarded once each, %d without a route, %d refused; %d lost, %d twice",
		len(ls), j.once, j.noRoute, j.refused, j.lost, j.twice)
	return j.Outcome
}

func (j *evaluation) fault(format string, args ...any) {
	j.Faults = append(j.Faults, fmt.Sprintf(format, args...))
}

// receive counts what the relay accepted, and checks the content and the recipients.
func (j *evaluation) receive(ls []sample, accepted []smtpsink.Message) {
	for _, m := range accepted {
		id := messageID(m.Data)
		i := slices.IndexFunc(ls, func(l sample) bool { return l.id == id })
		if i < 0 {
			j.fault("the relay accepted a message %s that is no sample", id)
			continue
		}
		if !bytes.HasSuffix(m.Data, ls[i].raw()) { // the trace field comes before it
			j.fault("%q arrived changed", ls[i].subject)
		}
		for _, to := range m.To {
			j.copies[copyKey{id, to}]++
			if !slices.Contains(ls[i].to, to) {
				j.fault("%q went to %s, who must not get it", ls[i].subject, to)
			}
		}
	}
}

func (j *evaluation) sample(l sample) {
	var found []tasks.Task
	for _, t := range j.registry {
		if t.Identity.MessageID == l.id {
			found = append(found, t)
		}
	}
	lost, twice := len(found) == 0, len(found) > 1
	for _, t := range found {
		j.rows(t)
		lost = lost || !t.Status.Ended()
		if t.Status != l.want || t.Identity.Subject != l.subject || t.Identity.Sender != l.from {
			j.fault("%q from %s should be %s; the registry has %q from %s, %s",
				l.subject, l.from, l.want, t.Identity.Subject, t.Identity.Sender, t.Status)
		}
	}
	for _, to := range l.to {
		n := j.copies[copyKey{l.id, to}]
		lost, twice = lost || n == 0, twice || n > 1
	}
	if lost {
		j.lost++
		j.fault("%q is lost", l.subject)
	}
	if twice {
		j.twice++
		j.fault("%q arrived twice", l.subject)
	}
	if !lost && !twice {
		j.count(found[0].Status)
	}
}

func (j *evaluation) count(s tasks.Status) {
	switch s {
	case tasks.Forwarded:
		j.once++
	case tasks.SkippedNoMatch:
		j.noRoute++
	case tasks.Dead:
		j.refused++
	}
}

func (j *evaluation) rows(t tasks.Task) {
	r := Row{
		Message: t.Identity.Subject, Status: t.Status, Attempts: t.Attempts, Reply: t.Reason,
	}
	if len(t.Deliveries) == 0 {
		j.Rows = append(j.Rows, r)
	}
	for _, d := range t.Deliveries {
		r.Recipient, r.Reply = d.Recipient, strings.TrimSpace(fmt.Sprintf("%d %s", d.Code, d.Reply))
		r.Copies = j.copies[copyKey{t.Identity.MessageID, d.Recipient}]
		j.Rows = append(j.Rows, r)
	}
}
