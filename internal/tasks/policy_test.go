package tasks

import (
	"errors"
	"strings"
	"testing"
	"time"
)

// policy is the default one, without chance: the factor is 1.
func policy() Policy {
	return Policy{
		MaxAttempts: 8, GiveUpAfter: 96 * time.Hour, Base: time.Minute, Max: time.Hour, MaxLostLeases: 3,
		Jitter: func() float64 { return 0.5 },
	}
}

func TestBackoff(t *testing.T) {
	for _, c := range []struct {
		name   string
		n      int
		jitter float64
		want   time.Duration
	}{
		{"first", 1, 0.5, time.Minute},
		{"second", 2, 0.5, 2 * time.Minute},
		{"sixth", 6, 0.5, 32 * time.Minute},
		{"at most", 7, 0.5, time.Hour},
		{"far beyond", 1 << 40, 0.5, time.Hour},
		{"none yet", 0, 0.5, time.Minute},
		{"least factor", 1, 0, 42 * time.Second},
		{"least factor of the most", 9, 0, 42 * time.Minute},
		{"greatest factor", 9, 1, 78 * time.Minute},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := policy()
			p.Jitter = func() float64 { return c.jitter }
			if got := p.Backoff(c.n).Round(time.Millisecond); got != c.want {
				t.Errorf("the pause after attempt %d is %v, want %v", c.n, got, c.want)
			}
		})
	}
}

func TestSettle(t *testing.T) {
	got := Delivery{Recipient: "got@x", Status: Delivered, Code: 250}
	later := Delivery{Recipient: "later@x", Status: Pending, Code: 451, Reply: "4.7.1 greylisted"}
	refused := Delivery{Recipient: "refused@x", Status: Failed, Code: 550, Reply: "5.1.1 no such user"}
	unknown := Delivery{Recipient: "unknown@x", Status: Sending, Reply: "the connection broke"}
	waits := Delivery{Recipient: "waits@x", Status: Pending, DuplicateOf: 7}
	suspended := Delivery{Recipient: "suspended@x", Status: Failed, Reply: "suspended since 2026-02-01"}
	copied := Delivery{Recipient: "copied@x", Status: Duplicated, DuplicateOf: 8}
	const young, old = time.Hour, 97 * time.Hour
	for _, c := range []struct {
		name     string
		ds       []Delivery
		hold     bool
		attempts int
		age      time.Duration
		want     Status
		reason   []string // parts of it, in order
		delay    time.Duration
		after    []DeliveryStatus
	}{
		{"all accepted", []Delivery{got, got}, false, 1, young, Forwarded, nil, 0, nil},
		{"accepted late", []Delivery{got}, false, 5, old, Forwarded, nil, 0, nil},
		{"one put off", []Delivery{got, later}, false, 2, young, Error, []string{"later@x: 451 4.7.1 greylisted"}, 2 * time.Minute, nil},
		{"put off and refused", []Delivery{refused, later}, false, 1, young, Error, []string{"later@x: 451", "refused@x: 550"}, time.Minute, nil},
		{"one refused", []Delivery{got, refused}, false, 1, young, Dead, []string{"permanently refused: ", "refused@x: 550 5.1.1 no such user"}, 0, nil},
		{"unknown, send again", []Delivery{got, unknown}, false, 1, young, Error, []string{"unknown@x: the connection broke"}, time.Minute, []DeliveryStatus{Delivered, Sending}},
		{"unknown, hold", []Delivery{got, unknown}, true, 1, young, Uncertain, []string{"not known", "unknown@x"}, 0, []DeliveryStatus{Delivered, Sending}},
		{"unknown, hold, beside others", []Delivery{later, refused, unknown}, true, 1, young, Uncertain, []string{"unknown@x: the connection broke; refused or given up: refused@x: 550"}, 0, []DeliveryStatus{Pending, Failed, Sending}},
		{"unknown, hold, too old", []Delivery{unknown}, true, 5, old, Uncertain, []string{"unknown@x"}, 0, []DeliveryStatus{Sending}},
		{"too many attempts", []Delivery{got, later}, false, 8, young, Dead, []string{"given up after 8 attempts in 1h0m0s", "later@x: 451"}, 0, []DeliveryStatus{Delivered, Failed}},
		{"one attempt left", []Delivery{later}, false, 7, young, Error, []string{"later@x"}, time.Hour, nil},
		{"old, and hardly tried", []Delivery{later}, false, 1, old, Error, []string{"later@x"}, time.Minute, nil},
		{"too old", []Delivery{later, refused}, false, 5, old, Dead, []string{"given up after 5 attempts in 97h0m0s", "later@x", "refused@x"}, 0, []DeliveryStatus{Failed, Failed}},
		{"unknown, too old", []Delivery{unknown}, false, 5, old, Uncertain, []string{"given up after 5 attempts in 97h0m0s: the outcome is not known: unknown@x"}, 0, []DeliveryStatus{Sending}},
		{"unknown, too many attempts", []Delivery{later, refused, unknown}, false, 8, young, Uncertain, []string{"given up after 8 attempts", "not known: unknown@x", "; refused or given up: later@x: 451", "refused@x: 550"}, 0, []DeliveryStatus{Failed, Failed, Sending}},
		{"all waits", []Delivery{waits}, false, 1, young, Received, []string{"waits: the same message is task 7"}, 0, []DeliveryStatus{Pending}},
		{"one waits, accepted", []Delivery{got, waits}, false, 1, young, Received, []string{"task 7"}, 0, nil},
		{"one waits, refused", []Delivery{refused, waits}, false, 1, young, Received, []string{"task 7"}, 0, []DeliveryStatus{Failed, Pending}},
		{"one waits, put off", []Delivery{later, waits}, false, 1, young, Error, []string{"later@x: 451"}, time.Minute, []DeliveryStatus{Pending, Pending}},
		{"one waits, too old", []Delivery{waits}, false, 9, old, Received, []string{"task 7"}, 0, []DeliveryStatus{Pending}},
		{"one waits, too many attempts", []Delivery{later, waits}, false, 8, young, Received, []string{"task 7"}, 0, []DeliveryStatus{Failed, Pending}},
		{"one waits, unknown, too old", []Delivery{unknown, waits}, false, 5, old, Uncertain, []string{"given up", "unknown@x: the connection broke"}, 0, []DeliveryStatus{Sending, Pending}},
		{"one waits, unknown, hold", []Delivery{unknown, waits}, true, 5, old, Uncertain, []string{"unknown@x"}, 0, []DeliveryStatus{Sending, Pending}},
		{"all duplicates", []Delivery{copied, copied}, false, 1, young, Skipped, []string{"duplicate: the same message is task 8"}, 0, nil},
		{"duplicate and accepted", []Delivery{copied, got}, false, 1, young, Forwarded, nil, 0, nil},
		{"suspended", []Delivery{got, suspended}, false, 1, young, Dead, []string{"not sent: suspended@x: suspended since"}, 0, nil},
		{"suspended and refused", []Delivery{suspended, refused}, false, 1, young, Dead, []string{"refused or not sent: suspended@x", "refused@x"}, 0, nil},
		{"duplicate and refused", []Delivery{copied, refused}, false, 1, young, Dead, []string{"permanently refused: refused@x"}, 0, nil},
		{"duplicate, and waits", []Delivery{copied, waits}, false, 1, young, Received, []string{"waits: the same message is task 7"}, 0, nil},
		{"not tried yet", []Delivery{{Recipient: "a@x", Status: Pending}}, false, 1, young, Error, []string{"a@x"}, time.Minute, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := policy()
			p.Hold = c.hold
			now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
			res := p.Settle(Task{Attempts: c.attempts, QueuedAt: now.Add(-c.age)}, now, append([]Delivery(nil), c.ds...))
			if res.Status != c.want || res.Delay != c.delay {
				t.Errorf("settled as %s after %v, want %s after %v", res.Status, res.Delay, c.want, c.delay)
			}
			wantReason(t, res.Reason, c.reason)
			if dup := res.Skip == SkipDuplicate; dup != (c.want == Skipped) {
				t.Errorf("skipped as %q; want as a duplicate: %t", res.Skip, c.want == Skipped)
			}
			for i, want := range c.after {
				if res.Deliveries[i].Status != want {
					t.Errorf("%s is %s afterwards, want %s", res.Deliveries[i].Recipient, res.Deliveries[i].Status, want)
				}
			}
		})
	}
}

func wantReason(t *testing.T, got string, parts []string) {
	t.Helper()
	if len(parts) == 0 && got != "" {
		t.Errorf("reason %q, want none", got)
	}
	rest := got
	for _, part := range parts {
		_, after, found := strings.Cut(rest, part)
		if !found {
			t.Errorf("reason %q, want %q in it, in that order", got, parts)
		}
		rest = after
	}
}

func TestFail(t *testing.T) {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	got := Delivery{Recipient: "got@x", Status: Delivered}
	later := Delivery{Recipient: "later@x", Status: Pending, Code: 451, Reply: "4.7.1 greylisted"}
	unknown := Delivery{Recipient: "unknown@x", Status: Sending}
	waits := Delivery{Recipient: "waits@x", Status: Pending, DuplicateOf: 7}
	mixed := []Delivery{got, later, unknown, waits}
	const without = "; not known to have it: later@x: 451 4.7.1 greylisted; unknown@x; waits@x"
	for _, c := range []struct {
		name     string
		ds       []Delivery
		attempts int
		age      time.Duration
		want     Status
		delay    time.Duration
		reason   string
		after    string
	}{
		{"first", mixed, 1, time.Hour, Error, time.Minute, "no disk", "got@x delivered, later@x pending, unknown@x sending, waits@x pending 7"},
		{"third", mixed, 3, time.Hour, Error, 4 * time.Minute, "no disk", "got@x delivered, later@x pending, unknown@x sending, waits@x pending 7"},
		{"too many attempts", mixed, 8, time.Hour, Uncertain, 0, "given up after 8 attempts in 1h0m0s: no disk" + without, "got@x delivered, later@x failed, unknown@x sending, waits@x failed"},
		{"too old", mixed, 5, 96 * time.Hour, Uncertain, 0, "given up after 5 attempts in 96h0m0s: no disk" + without, "got@x delivered, later@x failed, unknown@x sending, waits@x failed"},
		{"nothing is unknown", []Delivery{got, waits}, 8, time.Hour, Dead, 0, "given up after 8 attempts in 1h0m0s: no disk; not known to have it: waits@x", "got@x delivered, waits@x failed"},
		{"not decided", nil, 8, time.Hour, Dead, 0, "given up after 8 attempts in 1h0m0s: no disk", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			res := policy().Fail(Task{Attempts: c.attempts, QueuedAt: now.Add(-c.age)}, now, c.ds, errors.New("no disk"))
			if res.Status != c.want || res.Delay != c.delay || res.Reason != c.reason {
				t.Errorf("%+v; want %s after %v, %q", res, c.want, c.delay, c.reason)
			}
			if got := inLine(res.Deliveries); got != c.after {
				t.Errorf("deliveries: %s; want: %s", got, c.after)
			}
		})
	}
}

// TestVanished: an operator has to decide when the message may have arrived, and a recipient who
// does not have it is named.
func TestVanished(t *testing.T) {
	is := func(status DeliveryStatus) Delivery {
		return Delivery{Recipient: string(status) + "@x", Status: status}
	}
	for _, c := range []struct {
		name    string
		ds      []Delivery
		inDoubt bool
		want    Status
		skip    SkipReason
		reason  string
		after   string
	}{
		{"not decided", nil, false, Skipped, SkipVanished, "vanished: gone", ""},
		{"nobody has it", []Delivery{is(Pending), is(Failed)}, false, Skipped, SkipVanished, "vanished: gone", "pending@x pending, failed@x failed"},
		{"all have it elsewhere", []Delivery{is(Duplicated), is(Pending)}, false, Skipped, SkipVanished, "vanished: gone", "duplicate@x duplicate, pending@x pending"},
		{"one has it", []Delivery{is(Delivered), is(Pending)}, false, Dead, "", "not all have it: pending@x", "delivered@x delivered, pending@x failed"},
		{"one may have it", []Delivery{is(Delivered), is(Pending), is(Sending)}, false, Uncertain, "", "it may have arrived", "delivered@x delivered, pending@x pending, sending@x sending"},
		{"one may have had it", []Delivery{is(Pending)}, true, Dead, "", "unknown who has it: pending@x", "pending@x failed"},
	} {
		t.Run(c.name, func(t *testing.T) {
			task := Task{Epoch: 7, UID: 9, InDoubt: c.inDoubt, Deliveries: c.ds}
			res := Vanished(task, "gone")
			if res.Status != c.want || res.Skip != c.skip || *res.Missed != (Place{7, 9}) {
				t.Errorf("%+v; want %s %s, missed at UID 9 of epoch 7", res, c.want, c.skip)
			}
			wantReason(t, res.Reason, []string{c.reason})
			if got := inLine(res.Deliveries); got != c.after {
				t.Errorf("deliveries: %s; want: %s", got, c.after)
			}
		})
	}
}

// TestPoisoned: what was being sent may have arrived; otherwise its recipients are given up.
func TestPoisoned(t *testing.T) {
	task := Task{ID: 5, LostLeases: 4, Worker: "w", Deliveries: []Delivery{{Recipient: "a@x", Status: Pending, DuplicateOf: 7}}}
	res := Poisoned(task)
	if got := inLine(res.Deliveries); res.Status != Dead || got != "a@x failed" {
		t.Errorf("%s, %s; want it dead, and a failed", res.Status, got)
	}
	wantReason(t, res.Reason, []string{"4 lost leases", "by w", "task retry 5"})
	task.Deliveries = append(task.Deliveries, Delivery{Recipient: "b@x", Status: Sending})
	res = Poisoned(task)
	if got := inLine(res.Deliveries); res.Status != Uncertain || got != "a@x pending 7, b@x sending" {
		t.Errorf("%s, %s; want it uncertain, and the deliveries as they were", res.Status, got)
	}
	wantReason(t, res.Reason, []string{"it may have arrived", "4 lost leases"})
}
