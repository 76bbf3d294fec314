package demo

import (
	"bytes"
	"fmt"
	"slices"
	"strings"

	"postrider/internal/tasks"
	"postrider/internal/testserver/smtpsink"
)

// Outcome is what arrived where.
type Outcome struct {
	Rows    []Row
	Verdict string   // one line
	Faults  []string // what was not as promised, one line each
}

// Row is one recipient of one message, or a message without any.
type Row struct {
	Message, From    string
	Route            string
	Status           tasks.Status
	Attempts         int
	Recipient, Reply string // Reply is the relay's, or why nothing was sent
	Copies           int    // that the relay accepted for the recipient
}

// judgement counts.
type judgement struct {
	Outcome
	registry []tasks.Task
	copies   map[parcel]int

	once, noRoute, refused, lost, twice int
}

// parcel is a message for one recipient.
type parcel struct{ id, to string }

// judge compares what was to become of the letters with what the registry says and with what the relay accepted.
func judge(ls []letter, registry []tasks.Task, accepted []smtpsink.Message) Outcome {
	j := judgement{registry: registry, copies: map[parcel]int{}}
	j.receive(ls, accepted)
	for _, l := range ls {
		j.letter(l)
	}
	j.Verdict = fmt.Sprintf("%d messages: %d forwarded once each, %d without a route, %d refused; %d lost, %d twice",
		len(ls), j.once, j.noRoute, j.refused, j.lost, j.twice)
	return j.Outcome
}

func (j *judgement) fault(format string, args ...any) {
	j.Faults = append(j.Faults, fmt.Sprintf(format, args...))
}

// receive counts what the relay accepted, and checks that it is what was sent, to whom it should be sent.
func (j *judgement) receive(ls []letter, accepted []smtpsink.Message) {
	for _, m := range accepted {
		id := messageID(m.Data)
		i := slices.IndexFunc(ls, func(l letter) bool { return l.id == id })
		if i < 0 {
			j.fault("the relay accepted a message %s that nobody sent", id)
			continue
		}
		if !bytes.HasSuffix(m.Data, ls[i].raw()) { // above it is the trace field
			j.fault("%q arrived changed", ls[i].subject)
		}
		for _, to := range m.To {
			j.copies[parcel{id, to}]++
			if !slices.Contains(ls[i].to, to) {
				j.fault("%q went to %s, who was not to get it", ls[i].subject, to)
			}
		}
	}
}

func (j *judgement) letter(l letter) {
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
			j.fault("%q from %s was to be %s; the registry has %q from %s, %s", l.subject, l.from, l.want, t.Identity.Subject, t.Identity.Sender, t.Status)
		}
	}
	for _, to := range l.to {
		n := j.copies[parcel{l.id, to}]
		lost, twice = lost || n == 0, twice || n > 1
	}
	if lost {
		j.lost++
		j.fault("%q is lost", l.subject)
	}
	if twice {
		j.twice++
		j.fault("%q came twice", l.subject)
	}
	if !lost && !twice {
		j.count(found[0].Status)
	}
}

func (j *judgement) count(s tasks.Status) {
	switch s {
	case tasks.Forwarded:
		j.once++
	case tasks.SkippedNoMatch:
		j.noRoute++
	case tasks.Dead:
		j.refused++
	}
}

func (j *judgement) rows(t tasks.Task) {
	r := Row{Message: t.Identity.Subject, From: t.Identity.Sender, Route: t.Route, Status: t.Status, Attempts: t.Attempts, Reply: t.Reason}
	if len(t.Deliveries) == 0 {
		j.Rows = append(j.Rows, r)
	}
	for _, d := range t.Deliveries {
		r.Recipient, r.Reply, r.Copies = d.Recipient, strings.TrimSpace(fmt.Sprintf("%d %s", d.Code, d.Reply)), j.copies[parcel{t.Identity.MessageID, d.Recipient}]
		j.Rows = append(j.Rows, r)
	}
}
