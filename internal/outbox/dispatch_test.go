package outbox

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"postrider/internal/db"
)

// receiver is a destination. It takes what its rule has no error for.
type receiver struct {
	mu   sync.Mutex
	hang bool                // it answers nothing until it is given up
	deaf bool                // it takes an event although it is given up meanwhile
	rule func(Message) error // nil: it takes all
	got  []string            // what it took: the kind, and the key
	ids  map[string]int
	size []int // of the batches
}

func (r *receiver) Publish(ctx context.Context, batch []Message) []error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.size = append(r.size, len(batch))
	errs := make([]error, len(batch))
	if r.hang {
		<-ctx.Done()
	}
	for i, m := range batch {
		if errs[i] = context.Cause(ctx); errs[i] == nil && r.rule != nil {
			if errs[i] = r.rule(m); !r.deaf {
				errs[i] = cmp.Or(errs[i], ctx.Err())
			}
		}
		if errs[i] == nil {
			r.got = append(r.got, string(m.Kind)+" "+m.Key)
			r.ids[m.ID]++
		}
	}
	return errs
}

func (r *receiver) Close(context.Context) error { return nil }

// takes sets the rule.
func (r *receiver) takes(rule func(Message) error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.rule = rule
}

// desk is a dispatcher with two destinations.
type desk struct {
	bench
	*Dispatcher
	crm, bus *receiver
	log      *strings.Builder
}

func newDesk(t *testing.T) *desk {
	b := newBench(t, db.Config{Driver: db.SQLite, Path: filepath.Join(t.TempDir(), "p.db")})
	d := &desk{
		bench: b, crm: &receiver{ids: map[string]int{}}, bus: &receiver{ids: map[string]int{}},
		log: new(strings.Builder),
	}
	d.Dispatcher = &Dispatcher{
		Store: b.Store, Plan: to("crm", "bus"), Worker: "w", Drain: time.Minute, Grace: time.Millisecond,
		Log: slog.New(slog.NewTextHandler(d.log, nil)),
	}
	for name, r := range map[string]*receiver{"crm": d.crm, "bus": d.bus} {
		d.Targets = append(d.Targets, Target{
			Destination: Destination{Name: name, Target: "there"},
			Publisher:   r, Batch: 10, Timeout: time.Minute, GiveUp: 96 * time.Hour,
		})
	}
	return d
}

// alone leaves crm as the only destination.
func (d *desk) alone() {
	d.Targets = slices.DeleteFunc(d.Targets, func(t Target) bool { return t.Name != "crm" })
	d.Plan = to("crm")
}

// drain publishes after a pause.
func (d *desk) drain(pause time.Duration) {
	d.t.Helper()
	d.ahead.Add(int64(pause))
	d.Run(d.t.Context(), nil, ended)
}

// ended has Run publish what is due, and return.
var ended = func() <-chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}()

// outlet is that of crm.
func (d *desk) outlet() *outlet {
	return d.outlets()[slices.IndexFunc(d.Targets, func(t Target) bool { return t.Name == "crm" })]
}

func (d *desk) want(r *receiver, what ...string) {
	d.t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	if !slices.Equal(r.got, what) {
		d.t.Errorf("it has %q, want %q\n%s", r.got, what, d.log)
	}
}

// wantOnce checks that crm got each event once.
func (d *desk) wantOnce() {
	d.t.Helper()
	for id, n := range d.crm.ids {
		if n != 1 {
			d.t.Errorf("%s came %d times", id, n)
		}
	}
}

// wantLoggedOnce checks that the log has one fault of a destination, and its end.
func (d *desk) wantLoggedOnce() {
	d.t.Helper()
	log := d.log.String()
	if strings.Count(log, "the destination failed") != 1 || strings.Count(log, "the destination works again") != 1 {
		d.t.Errorf("the log has\n%s\nwant the fault and its end once", log)
	}
}

// wantWorks checks that crm is recorded as a destination that works.
func (d *desk) wantWorks() {
	d.t.Helper()
	states, err := d.Dispatcher.Store.Destinations(d.t.Context())
	if s := states["crm"]; err != nil || s.Failures != 0 {
		d.t.Errorf("the destination is recorded as %+v, %v; want it to work", s, err)
	}
}

var errDown = errors.New("connection refused")

// TestDown: a destination that is down gets everything later, in order and once, and holds up
// nothing but itself. Its fault and its end are logged once.
func TestDown(t *testing.T) {
	d := newDesk(t)
	d.crm.takes(func(Message) error { return errDown })
	d.happen(
		Occurrence{Kind: Registered, TaskID: 1}, Occurrence{Kind: Forwarded, TaskID: 1},
		Occurrence{Kind: Registered, TaskID: 2},
	)
	all := []string{"registered task:1", "registered task:2", "forwarded task:1"}
	for range 10 {
		d.drain(LongestPause)
	}
	d.want(d.bus, all...)
	d.crm.takes(nil)
	d.drain(0)
	d.want(d.crm) // it is left alone
	d.drain(LongestPause)
	d.drain(LongestPause) // what may have been the reason waits longest
	slices.Sort(d.crm.got)
	d.want(d.crm, "forwarded task:1", "registered task:1", "registered task:2")
	d.wantOnce()
	d.wantLoggedOnce()
}

// TestPoison: a message that a destination never takes does not hold up the others for ever.
func TestPoison(t *testing.T) {
	d := newDesk(t)
	d.crm.takes(func(m Message) error {
		if m.Key == "task:1" {
			return errors.New("500")
		}
		return nil
	})
	d.happen(Occurrence{Kind: Registered, TaskID: 1}, Occurrence{Kind: Registered, TaskID: 2})
	for range 4 {
		d.drain(firstPause)
	}
	d.want(d.crm, "registered task:2")
	d.drain(96 * time.Hour)
	for _, e := range d.all() {
		dead := e.Destination == "crm" && e.TaskID == 1
		if dead != (e.Status == DeadLetter) || !dead && e.Status != Done {
			t.Errorf("%+v, want all done but one, which is dead", e)
		}
	}
}

// TestPoisonAmongOthers: an event that a destination never takes delays the others by the first
// pause at most, and the log has its fault once.
func TestPoisonAmongOthers(t *testing.T) {
	for _, every := range []time.Duration{30 * time.Second, 3 * time.Minute, time.Hour} {
		t.Run(every.String(), func(t *testing.T) {
			d := newDesk(t)
			d.alone()
			var clock, longest time.Duration
			made := map[string]time.Duration{}
			d.crm.takes(func(m Message) error {
				if m.Key == "task:1" {
					return errors.New("500")
				}
				longest = max(longest, clock-made[m.Key])
				return nil
			})
			for n := range 24 {
				d.happen(Occurrence{Kind: Forwarded, TaskID: int64(n + 1)})
				made[fmt.Sprint("task:", n+1)] = clock
				for _, pause := range []time.Duration{0, firstPause, firstPause, every - 2*firstPause} {
					clock += pause
					d.drain(pause)
				}
				if n == 1 {
					longest = 0 // from now on it has taken one event, and failed to take another one
				}
			}
			if longest > firstPause {
				t.Errorf("an event came %s after it was made, want at most %s", longest, firstPause)
			}
			if n := len(d.crm.got); n != 23 {
				t.Errorf("%d events came, want 23", n)
			}
			d.wantLoggedOnce()
			d.wantWorks()
		})
	}
}

// TestDownAfterOne: of a destination that fails after it has taken an event, and has only one left
// to take, the log tells once.
func TestDownAfterOne(t *testing.T) {
	d := newDesk(t)
	d.Plan = to("crm")
	d.crm.takes(func(m Message) error {
		if m.Key == "task:1" {
			return nil
		}
		return errDown
	})
	d.happen(Occurrence{Kind: Registered, TaskID: 1}, Occurrence{Kind: Registered, TaskID: 2})
	for range 40 {
		d.drain(LongestPause)
	}
	d.want(d.crm, "registered task:1")
	log := d.log.String()
	if strings.Count(log, "not taken in many tries") != 1 || strings.Count(log, "level=WARN") != 1 {
		t.Errorf("the log has\n%s\nwant the event once", log)
	}
}

// TestAnswers: what a destination says of one message, and of itself.
func TestAnswers(t *testing.T) {
	for name, tt := range map[string]struct {
		err    error
		status Status
		again  time.Duration // after which it is tried again; 0: never
	}{
		"refused": {&Refused{Err: errors.New("422")}, DeadLetter, 0},
		"later":   {&Later{20 * time.Minute, errors.New("429")}, Waiting, 20 * time.Minute},
		"gone":    {ErrGone, Waiting, 0},
		"other":   {errDown, Waiting, firstPause},
	} {
		t.Run(name, func(t *testing.T) {
			d := newDesk(t)
			d.crm.takes(func(Message) error { return tt.err })
			d.happen(Occurrence{Kind: Dead, TaskID: 1})
			d.drain(0)
			if e := d.all()[0]; e.Destination != "crm" || e.Status != tt.status || e.Error == "" {
				t.Errorf("it is %+v, want %s", e, tt.status)
			}
			d.crm.takes(nil)
			if tt.again > time.Second {
				d.drain(tt.again / 2)
				d.want(d.crm)
			}
			d.drain(time.Second + 30*time.Minute)
			if tt.again == 0 {
				d.want(d.crm)
			} else {
				d.want(d.crm, "dead task:1")
			}
			if name == "gone" {
				_, err := d.Works(t.Context(), "crm") // an operator enables it
				d.must(err)
				d.drain(0)
				d.want(d.crm, "dead task:1")
			}
		})
	}
}

// TestStopped: what is under way when the process is to end is finished. If that takes too long, it
// is nobody's fault, and goes out next time.
func TestStopped(t *testing.T) {
	d := newDesk(t)
	d.happen(Occurrence{Kind: Dead, TaskID: 1})
	ctx, cancel := context.WithCancel(t.Context())
	d.crm.takes(func(Message) error { cancel(); return nil })
	d.crm.deaf, d.bus.hang = true, true // the grace is too short for any other answer
	d.Run(ctx, nil, ended)
	d.want(d.crm, "dead task:1")
	d.want(d.bus)
	d.crm.takes(func(Message) error { t.Error("it comes again"); return nil })
	d.bus.hang = false
	d.drain(0)
	d.want(d.bus, "dead task:1")
	if d.log.Len() > 0 {
		t.Errorf("it is logged\n%s", d.log)
	}
}

// TestSlowAtTheEnd: at its end a pass lets a batch that is under way have its whole timeout.
// Otherwise a destination that is slower than the end of each pass would get the same event for
// ever.
func TestSlowAtTheEnd(t *testing.T) {
	d := newDesk(t)
	d.Drain = 0
	d.happen(Occurrence{Kind: Dead, TaskID: 1})
	last := make(chan struct{})
	d.crm.takes(func(Message) error {
		close(last)
		<-time.After(50 * time.Millisecond) // much longer than Drain and Grace
		return nil
	})
	d.Run(t.Context(), nil, last)
	d.want(d.crm, "dead task:1")
	for _, e := range d.all() {
		if e.Destination == "crm" && e.Status != Done {
			t.Errorf("it is %+v, want done", e)
		}
	}
}

// TestTimeout: a batch that gets no answer fails with a text that says so.
func TestTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t)
		d.Plan, d.crm.hang = to("crm"), true
		d.happen(Occurrence{Kind: Dead, TaskID: 1})
		d.drain(0)
		if e := d.all()[0]; e.Status != Waiting || e.Error != "no answer within 1m0s" {
			t.Errorf("it is %s with the error %q, want it to wait, and how long there was no answer", e.Status, e.Error)
		}
	})
}

// TestBatches: batches grow while a destination is quick: while it takes a batch in a thirtieth of
// the time that it has.
func TestBatches(t *testing.T) {
	for each, want := range map[time.Duration][]int{
		0:                {8, 16, 32, 50, 50, 4},
		16 * time.Second: slices.Repeat([]int{8}, 20), // 128 s a batch, of an hour
	} {
		synctest.Test(t, func(t *testing.T) {
			d := newDesk(t)
			d.Targets = d.Targets[:1]
			d.Targets[0].Batch, d.Targets[0].Timeout, d.Drain = 50, time.Hour, time.Hour
			for id := range int64(160) {
				d.happen(Occurrence{Kind: Dead, TaskID: id + 1})
			}
			r := d.Targets[0].Publisher.(*receiver)
			r.takes(func(Message) error { time.Sleep(each); return nil })
			d.drain(0)
			if !slices.Equal(r.size, want) {
				t.Errorf("a destination that takes an event in %s gets batches of %v, want %v", each, r.size, want)
			}
		})
	}
}
