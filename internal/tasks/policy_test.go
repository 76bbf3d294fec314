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
	of := func(ds ...Delivery) []Delivery { return ds }
	says := func(parts ...string) []string { return parts }
	are := func(after ...DeliveryStatus) []DeliveryStatus { return after }
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
		{
			"all accepted", of(got, got), false, 1, young,
			Forwarded, nil, 0, nil,
		},
		{
			"accepted late", of(got), false, 5, old,
			Forwarded, nil, 0, nil,
		},
		{
			"one put off", of(got, later), false, 2, young,
			Error, says("later@x: 451 4.7.1 greylisted"), 2 * time.Minute, nil,
		},
		{
			"put off and refused", of(refused, later), false, 1, young,
			Error, says("later@x: 451", "refused@x: 550"), time.Minute, nil,
		},
		{
			"one refused", of(got, refused), false, 1, young,
			Dead, says("permanently refused: ", "refused@x: 550 5.1.1 no such user"), 0, nil,
		},
		{
			"unknown, send again", of(got, unknown), false, 1, young,
			Error, says("unknown@x: the connection broke"), time.Minute, are(Delivered, Sending),
		},
		{
			"unknown, hold", of(got, unknown), true, 1, young,
			Uncertain, says("not known", "unknown@x"), 0, are(Delivered, Sending),
		},
		{
			"unknown, hold, beside others", of(later, refused, unknown), true, 1, young,
			Uncertain, says("unknown@x: the connection broke; refused or given up: refused@x: 550"),
			0, are(Pending, Failed, Sending),
		},
		{
			"unknown, hold, too old", of(unknown), true, 5, old,
			Uncertain, says("unknown@x"), 0, are(Sending),
		},
		{
			"too many attempts", of(got, later), false, 8, young,
			Dead, says("given up after 8 attempts in 1h0m0s", "later@x: 451"), 0, are(Delivered, Failed),
		},
		{
			"one attempt left", of(later), false, 7, young,
			Error, says("later@x"), time.Hour, nil,
		},
		{
			"old, and hardly tried", of(later), false, 1, old,
			Error, says("later@x"), time.Minute, nil,
		},
		{
			"too old", of(later, refused), false, 5, old,
			Dead, says("given up after 5 attempts in 97h0m0s", "later@x", "refused@x"), 0, are(Failed, Failed),
		},
		{
			"unknown, too old", of(unknown), false, 5, old,
			Uncertain, says("given up after 5 attempts in 97h0m0s: the outcome is not known: unknown@x"),
			0, are(Sending),
		},
		{
			"unknown, too many attempts", of(later, refused, unknown), false, 8, young,
			Uncertain, says("given up after 8 attempts", "not known: unknown@x",
				"; refused or given up: later@x: 451", "refused@x: 550"), 0, are(Failed, Failed, Sending),
		},
		{
			"all waits", of(waits), false, 1, young,
			Received, says("waits: the same message is task 7"), 0, are(Pending),
		},
		{
			"one waits, accepted", of(got, waits), false, 1, young,
			Received, says("task 7"), 0, nil,
		},
		{
			"one waits, refused", of(refused, waits), false, 1, young,
			Received, says("task 7"), 0, are(Failed, Pending),
		},
		{
			"one waits, put off", of(later, waits), false, 1, young,
			Error, says("later@x: 451"), time.Minute, are(Pending, Pending),
		},
		{
			"one waits, too old", of(waits), false, 9, old,
			Received, says("task 7"), 0, are(Pending),
		},
		{
			"one waits, too many attempts", of(later, waits), false, 8, young,
			Received, says("task 7"), 0, are(Failed, Pending),
		},
		{
			"one waits, unknown, too old", of(unknown, waits), false, 5, old,
			Uncertain, says("given up", "unknown@x: the connection broke"), 0, are(Sending, Pending),
		},
		{
			"one waits, unknown, hold", of(unknown, waits), true, 5, old,
			Uncertain, says("unknown@x"), 0, are(Sending, Pending),
		},
		{
			"all duplicates", of(copied, copied), false, 1, young,
			Skipped, says("duplicate: the same message is task 8"), 0, nil,
		},
		{
			"duplicate and accepted", of(copied, got), false, 1, young,
			Forwarded, nil, 0, nil,
		},
		{
			"suspended", of(got, suspended), false, 1, young,
			Dead, says("not sent: suspended@x: suspended since"), 0, nil,
		},
		{
			"suspended and refused", of(suspended, refused), false, 1, young,
			Dead, says("refused or not sent: suspended@x", "refused@x"), 0, nil,
		},
		{
			"duplicate and refused", of(copied, refused), false, 1, young,
			Dead, says("permanently refused: refused@x"), 0, nil,
		},
		{
			"duplicate, and waits", of(copied, waits), false, 1, young,
			Received, says("waits: the same message is task 7"), 0, nil,
		},
		{
			"not tried yet", of(Delivery{Recipient: "a@x", Status: Pending}), false, 1, young,
			Error, says("a@x"), time.Minute, nil,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := policy()
			p.Hold = c.hold
			now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
			res := p.Settle(Task{Attempts: c.attempts, QueuedAt: now.Add(-c.age)}, now,
				append([]Delivery(nil), c.ds...))
			if res.Status != c.want || res.Delay != c.delay {
				t.Errorf("settled as %s after %v, want %s after %v", res.Status, res.Delay, c.want, c.delay)
			}
			wantReason(t, res.Reason, c.reason)
			if dup := res.Skip == SkipDuplicate; dup != (c.want == Skipped) {
				t.Errorf("skipped as %q; want as a duplicate: %t", res.Skip, c.want == Skipped)
			}
			for i, want := range c.after {
				if res.Deliveries[i].Status != want {
					t.Errorf("%s is %s afterwards, want %s",
						res.Deliveries[i].Recipient, res.Deliveries[i].Status, want)
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
	known := []Delivery{got, waits}
	const (
		without = "; not known to have it: later@x: 451 4.7.1 greylisted; unknown@x; waits@x"
		asWas   = "got@x delivered, later@x pending, unknown@x sending, waits@x pending 7"
		ended   = "got@x delivered, later@x failed, unknown@x sending, waits@x failed"
	)
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
		{
			"first", mixed, 1, time.Hour,
			Error, time.Minute, "no disk", asWas,
		},
		{
			"third", mixed, 3, time.Hour,
			Error, 4 * time.Minute, "no disk", asWas,
		},
		{
			"too many attempts", mixed, 8, time.Hour,
			Uncertain, 0, "given up after 8 attempts in 1h0m0s: no disk" + without, ended,
		},
		{
			"too old", mixed, 5, 96 * time.Hour,
			Uncertain, 0, "given up after 5 attempts in 96h0m0s: no disk" + without, ended,
		},
		{
			"nothing is unknown", known, 8, time.Hour,
			Dead, 0, "given up after 8 attempts in 1h0m0s: no disk; not known to have it: waits@x",
			"got@x delivered, waits@x failed",
		},
		{
			"not decided", nil, 8, time.Hour,
			Dead, 0, "given up after 8 attempts in 1h0m0s: no disk", "",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			res := policy().Fail(Task{Attempts: c.attempts, QueuedAt: now.Add(-c.age)}, now,
				c.ds, errors.New("no disk"))
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
	are := func(statuses ...DeliveryStatus) (ds []Delivery) {
		for _, status := range statuses {
			ds = append(ds, Delivery{Recipient: string(status) + "@x", Status: status})
		}
		return ds
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
		{
			"not decided", nil, false,
			Skipped, SkipVanished, "vanished: gone", "",
		},
		{
			"nobody has it", are(Pending, Failed), false,
			Skipped, SkipVanished, "vanished: gone", "pending@x pending, failed@x failed",
		},
		{
			"all have it elsewhere", are(Duplicated, Pending), false,
			Skipped, SkipVanished, "vanished: gone", "duplicate@x duplicate, pending@x pending",
		},
		{
			"one has it", are(Delivered, Pending), false,
			Dead, "", "not all have it: pending@x", "delivered@x delivered, pending@x failed",
		},
		{
			"one may have it", are(Delivered, Pending, Sending), false,
			Uncertain, "", "it may have arrived", "delivered@x delivered, pending@x pending, sending@x sending",
		},
		{
			"one may have had it", are(Pending), true,
			Dead, "", "unknown who has it: pending@x", "pending@x failed",
		},
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
	task := Task{
		ID: 5, LostLeases: 4, Worker: "w",
		Deliveries: []Delivery{{Recipient: "a@x", Status: Pending, DuplicateOf: 7}},
	}
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
