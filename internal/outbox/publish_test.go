package outbox

import (
	"errors"
	"strings"
	"testing"
	"time"
)

// TestJudge: an old event is dead when it fails, but not when the destination asks for time; and
// what a destination asks for counts, whichever event of a batch it answers so.
func TestJudge(t *testing.T) {
	const limit = 96 * time.Hour
	later := &Later{20 * time.Minute, errors.New("429")}
	for name, tt := range map[string]struct {
		errs  []error
		first Status
		gone  bool
		asked time.Duration
	}{
		"fails":                  {[]error{errDown, errDown}, DeadLetter, false, 0},
		"asks for time":          {[]error{later, later}, Waiting, false, later.After},
		"gone":                   {[]error{ErrGone, ErrGone}, Waiting, true, 0},
		"fails, asks for time":   {[]error{errDown, later}, DeadLetter, false, later.After},
		"fails, gone":            {[]error{errDown, ErrGone}, DeadLetter, true, 0},
		"refuses, asks for time": {[]error{&Refused{Err: errDown}, later}, DeadLetter, false, later.After},
	} {
		old := Claim{Entry: Entry{Attempts: 1}, Age: limit + time.Hour}
		v := judge([]Claim{old, old}, tt.errs, limit, false)
		if v.outcomes[0].Status != tt.first || v.outcomes[1].Status != Waiting {
			t.Errorf("%s: the old events are %s and %s, want %s and waiting",
				name, v.outcomes[0].Status, v.outcomes[1].Status, tt.first)
		}
		if v.gone != tt.gone || v.gone != errors.Is(v.fault, ErrGone) || v.asked != tt.asked {
			t.Errorf("%s: gone is %t (%v), and the pause is %s; want %t and %s",
				name, v.gone, v.fault, v.asked, tt.gone, tt.asked)
		}
	}
}

// TestWorksAgain: a destination that refuses an event after its fault works again, unless it fails
// to take another one.
func TestWorksAgain(t *testing.T) {
	d := newDesk(t)
	d.alone()
	d.crm.takes(func(Message) error { return errDown })
	d.happen(Occurrence{Kind: Dead, TaskID: 1})
	d.happen(Occurrence{Kind: Dead, TaskID: 2})
	d.drain(0)
	refuse := func(Message) error {
		d.crm.rule = func(Message) error { return errDown }
		return &Refused{Err: errors.New("no such case")}
	}
	d.crm.takes(refuse)
	d.drain(time.Hour)
	if log := d.log.String(); strings.Contains(log, "works again") {
		t.Errorf("it refused one event and failed to take another one, and the log has\n%s", log)
	}
	d.happen(Occurrence{Kind: Dead, TaskID: 3})
	d.crm.takes(func(Message) error { return &Refused{Err: errors.New("too large"), Unsent: true} })
	d.drain(time.Hour)
	if log := d.log.String(); strings.Contains(log, "works again") {
		t.Errorf("this host refused an event, and the log has\n%s", log)
	}
	d.happen(Occurrence{Kind: Dead, TaskID: 4})
	d.crm.takes(refuse)
	d.drain(time.Hour)
	d.wantWorks()
	d.wantLoggedOnce()
}
