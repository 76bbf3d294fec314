package measure

import (
	"context"
	"maps"
	"testing"
	"time"

	"postrider/internal/tasks"
)

// fake is a queue with one task. Its errors are set by the test.
type fake struct {
	tasks.Queue
	claim tasks.Claim
	err   error
}

func (f *fake) Receive(context.Context, tasks.Want) ([]tasks.Claim, error) {
	return []tasks.Claim{f.claim}, nil
}

func (f *fake) Reserve(_ context.Context, _ tasks.Receipt, _ tasks.Reservation) ([]tasks.Delivery, error) {
	return f.claim.Task.Deliveries, f.err
}

func (f *fake) Extend(_ context.Context, _ time.Duration, rs []tasks.Receipt) ([]tasks.Receipt, error) {
	return rs, nil
}

func (f *fake) Sending(context.Context, tasks.Claim, tasks.Form, []tasks.Delivery) error {
	return f.err
}
func (f *fake) Finish(context.Context, tasks.Receipt, tasks.Result) error { return f.err }

func (f *fake) Release(context.Context, tasks.Claim, string, time.Duration, []tasks.Delivery) error {
	return f.err
}

// TestAttempts: what a claim came to is counted, each recipient once, and only what happened in it.
func TestAttempts(t *testing.T) {
	to := func(who string, s tasks.DeliveryStatus, code, attempts int) tasks.Delivery {
		return tasks.Delivery{Recipient: who, Status: s, Code: code, Attempts: attempts}
	}
	before := []tasks.Delivery{
		to("old", tasks.Delivered, 250, 1),
		to("new", tasks.Pending, 0, 0),
		to("again", tasks.Pending, 451, 1),
	}
	for name, tt := range map[string]struct {
		after []tasks.Delivery
		want  map[string]float64
	}{
		"delivered and deferred": {
			[]tasks.Delivery{before[0], to("new", tasks.Delivered, 250, 1), to("again", tasks.Pending, 451, 2)},
			map[string]float64{"delivered 2xx": 1, "retry 4xx": 1},
		},
		"refused, and unknown": {
			[]tasks.Delivery{before[0], to("new", tasks.Failed, 550, 1), to("again", tasks.Sending, 0, 2)},
			map[string]float64{"failed 5xx": 1, "unknown none": 1},
		},
		"not tried":   {before, map[string]float64{}},
		"no delivery": {nil, map[string]float64{}},
	} {
		t.Run(name, func(t *testing.T) {
			m, f, q := claimed(t, before)
			check(t, q.Finish(t.Context(), f.claim.Receipt, tasks.Result{Deliveries: tt.after}))
			check(t, q.Finish(t.Context(), f.claim.Receipt, tasks.Result{Deliveries: tt.after})) // again
			if got := labels(m, deliveries); !maps.Equal(got, tt.want) {
				t.Errorf("counted %v, want %v", got, tt.want)
			}
			if seconds := labels(m, deliverySeconds)[sumLabel]; tt.want["delivered 2xx"] == 1 && seconds != 90 {
				t.Errorf("a delivery took %v s, want 90: a minute until the claim, and half a minute since", seconds)
			}
		})
	}
}

// TestReserved: attempts that a task had before it was decided again are not those of this claim.
func TestReserved(t *testing.T) {
	m, f, q := claimed(t, nil)
	f.claim.Task.Deliveries = []tasks.Delivery{{Recipient: "a", Status: tasks.Pending, Code: 451, Attempts: 3}}
	ds, err := q.Reserve(t.Context(), f.claim.Receipt, tasks.Reservation{})
	check(t, err)
	check(t, q.Finish(t.Context(), f.claim.Receipt, tasks.Result{Deliveries: ds}))
	if got := labels(m, deliveries); len(got) > 0 {
		t.Errorf("counted %v, want nothing: there was no attempt", got)
	}
}

// TestReleased counts what the relay said before a task was put back.
func TestReleased(t *testing.T) {
	m, f, q := claimed(t, []tasks.Delivery{{Recipient: "a", Status: tasks.Pending}})
	after := []tasks.Delivery{{Recipient: "a", Status: tasks.Pending, Code: 421, Attempts: 1}}
	check(t, q.Release(t.Context(), f.claim, "", 0, after))
	if got := labels(m, deliveries); got["retry 4xx"] != 1 {
		t.Errorf("counted %v, want one retry after 4xx", got)
	}
}

// TestLostLeases: a lost lease counts once, and a message that was found again is no loss.
func TestLostLeases(t *testing.T) {
	for name, lose := range map[string]func(q tasks.Queue, f *fake) error{
		"sending": func(q tasks.Queue, f *fake) error {
			f.err = tasks.ErrLeaseLost
			return q.Sending(t.Context(), f.claim, tasks.Form{}, nil)
		},
		"finish": func(q tasks.Queue, f *fake) error {
			f.err = tasks.ErrLeaseLost
			return q.Finish(t.Context(), f.claim.Receipt, tasks.Result{})
		},
		"extend, then release": func(q tasks.Queue, f *fake) error {
			_, err := q.Extend(t.Context(), time.Minute, []tasks.Receipt{f.claim.Receipt})
			f.err = tasks.ErrLeaseLost
			_ = q.Release(t.Context(), f.claim, "", 0, nil)
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			m, f, q := claimed(t, nil)
			_ = lose(q, f)
			if got := labels(m, leasesLost)[""]; got != 1 {
				t.Errorf("%v leases were counted as lost, want 1", got)
			}
			if n := len(q.(*queue).claims); n > 0 {
				t.Errorf("%d claims are still known, want none: they would take memory for ever", n)
			}
		})
	}
	m, f, q := claimed(t, []tasks.Delivery{{Recipient: "a", Status: tasks.Pending}})
	f.err = tasks.ErrMoved
	_ = q.Finish(t.Context(), f.claim.Receipt, tasks.Result{})
	f.err = nil
	delivered := tasks.Delivery{Recipient: "a", Status: tasks.Delivered, Code: 250, Attempts: 1}
	check(t, q.Finish(t.Context(), f.claim.Receipt, tasks.Result{Deliveries: []tasks.Delivery{delivered}}))
	if labels(m, leasesLost)[""] != 0 || labels(m, deliveries)["delivered 2xx"] != 1 {
		t.Errorf("counted %v, want one delivery of the message that was found again", m.added)
	}
}

// claimed is a queue whose task waited a minute until its claim, half a minute ago.
func claimed(t *testing.T, ds []tasks.Delivery) (*Meter, *fake, tasks.Queue) {
	t.Helper()
	m := NewMeter()
	f := &fake{claim: tasks.Claim{
		Task:    tasks.Task{ID: 1, InboxID: 7, QueuedAt: noon.Add(-time.Minute), Deliveries: ds},
		Receipt: tasks.Receipt{TaskID: 1, Token: "t"}, At: noon,
	}}
	q := m.Queue(f).(*queue)
	clock := noon.Add(time.Hour) // of this host
	q.now = func() time.Time { return clock }
	_, err := q.Receive(t.Context(), tasks.Want{})
	check(t, err)
	clock = clock.Add(30 * time.Second)
	return m, f, q
}

// labels are the numbers of a name.
func labels(m *Meter, name string) map[string]float64 {
	out := map[string]float64{}
	for k, v := range m.added {
		if k.name == name {
			out[k.label] = v
		}
	}
	return out
}
