package limits

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// provider counts recipients as the relay's provider may: each at any moment of its transaction.
type provider struct {
	at []int64
}

// most is the largest number of recipients in any window of that length.
func (p *provider) most(length int64) int {
	most := 0
	for _, end := range p.at {
		n := 0
		for _, at := range p.at {
			if at <= end && at > end-length {
				n++
			}
		}
		most = max(most, n)
	}
	return most
}

// TestNeverMore plays transactions of any length side by side, some of whose processes die, and any
// pauses: no window of the provider's ever has more than the limits allow, and what is denied is
// granted once it is said to be.
func TestNeverMore(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := Limits{
			PerMinute: rapid.IntRange(0, 5).Draw(t, "per minute"), PerHour: rapid.IntRange(0, 20).Draw(t, "per hour"),
			PerDay: rapid.IntRange(1, 60).Draw(t, "per day"),
		}
		const lease = 300e6
		now := int64(1_700_000_000_000_000)
		var u usage
		var p provider
		busy := map[string]int64{} // when it began
		for step := range rapid.IntRange(1, 150).Draw(t, "steps") {
			u = throughTheDatabase(t, u)
			u.tidy(now)
			for token := range busy {
				u.renew(token, now+lease)
			}
			switch rapid.SampledFrom([]string{"reserve", "reserve", "end", "die", "pause", "set back"}).Draw(t, "do") {
			case "reserve":
				if left, why := u.left(l, now); why == nil {
					token := fmt.Sprint(step)
					u.Open[token] = reservation{min(left, rapid.IntRange(1, 10).Draw(t, "recipients")), now + lease}
					busy[token] = now
				} else if len(u.Open) == 0 {
					later := throughTheDatabase(t, u)
					later.tidy(why.Until.UnixMicro())
					if _, still := later.left(l, why.Until.UnixMicro()); still != nil {
						t.Fatalf("%v, but then it is not allowed: %v", why, still)
					}
				}
			case "end":
				for token, began := range busy {
					used := rapid.IntRange(0, u.Open[token].N).Draw(t, "used")
					for range used {
						p.at = append(p.at, rapid.Int64Range(began, now).Draw(t, "counted at"))
					}
					noted := now
					now += rapid.Int64Range(0, 5e6).Draw(t, "noted later")
					u.end(token, used, noted)
					delete(busy, token)
					break
				}
			case "die":
				for token, began := range busy {
					for range u.Open[token].N {
						p.at = append(p.at, rapid.Int64Range(began, now).Draw(t, "counted at"))
					}
					delete(busy, token)
					break
				}
			case "pause":
				most := rapid.SampledFrom([]int64{1e6, 70e6, lease - 1, 3600e6}).Draw(t, "pause up to")
				if len(busy) > 0 {
					most = min(most, lease-1) // they renew in time
				}
				now += rapid.Int64Range(0, most).Draw(t, "pause")
			}
		}
		for _, w := range windows() {
			if limit := w.limit(l); limit > 0 && p.most(w.length) > limit {
				t.Fatalf("the provider counts %d recipients in a window of %s, want %d at most",
					p.most(w.length), w.name, limit)
			}
		}
	})
}

func throughTheDatabase(t *rapid.T, u usage) (out usage) {
	text, err := json.Marshal(u)
	if err == nil {
		err = json.Unmarshal(text, &out)
	}
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// TestLeft is what is left at 12:00:30, and what is said when nothing is.
func TestLeft(t *testing.T) {
	now := time.Date(2026, 11, 20, 12, 0, 30, 0, time.UTC)
	ago := func(d time.Duration, n int) func(*usage) {
		return func(u *usage) { u.end("", n, now.Add(-d).UnixMicro()) }
	}
	underWay := func(n int) func(*usage) {
		return func(u *usage) { u.Open["a"] = reservation{n, now.Add(time.Minute).UnixMicro()} }
	}
	for _, c := range []struct {
		name   string
		limits Limits
		usage  []func(*usage)
		left   int
		why    string
		wait   time.Duration
	}{
		{"nothing was sent", Limits{PerMinute: 10}, nil, 10, "", 0},
		{"some was sent", Limits{PerMinute: 10}, []func(*usage){ago(0, 3)}, 7, "", 0},
		{
			"the tightest limit decides",
			Limits{PerMinute: 10, PerHour: 12},
			[]func(*usage){ago(10*time.Minute, 8)},
			4, "", 0,
		},
		{"what is under way counts", Limits{PerMinute: 10}, []func(*usage){ago(0, 3), underWay(4)}, 3, "", 0},
		{
			"a slice still reaches into the window",
			Limits{PerMinute: 10},
			[]func(*usage){ago(time.Minute, 10)},
			0, "smtp.limits.per_minute (10) is used up until 12:01 UTC", time.Second,
		},
		{
			"a slice is out of the window",
			Limits{PerMinute: 10},
			[]func(*usage){ago(time.Minute+time.Second, 10)},
			10, "", 0,
		},
		{
			"used up",
			Limits{PerMinute: 10},
			[]func(*usage){ago(20*time.Second, 4), ago(10*time.Second, 6)},
			0, "smtp.limits.per_minute (10) is used up until 12:02 UTC", 41 * time.Second,
		},
		{
			"used up by what is under way",
			Limits{PerMinute: 10},
			[]func(*usage){underWay(10)},
			0, "smtp.limits.per_minute (10) is used up until 12:02 UTC", 61 * time.Second,
		},
		{
			"the limit was lowered",
			Limits{PerMinute: 5},
			[]func(*usage){ago(30*time.Second, 4), ago(20*time.Second, 1), ago(10*time.Second, 5)},
			0, "smtp.limits.per_minute (5) is used up until 12:02 UTC", 51 * time.Second,
		},
		{
			"two are used up",
			Limits{PerMinute: 10, PerHour: 10},
			[]func(*usage){ago(0, 10)},
			0, "smtp.limits.per_hour (10) is used up until 13:01 UTC", time.Hour + 30*time.Second,
		},
		{
			"until tomorrow",
			Limits{PerDay: 10},
			[]func(*usage){ago(time.Hour, 10)},
			0, "smtp.limits.per_day (10) is used up until 2026-11-21 11:12 UTC",
			23*time.Hour + 11*time.Minute + 30*time.Second,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			var u usage
			u.tidy(now.UnixMicro())
			for _, f := range c.usage {
				f(&u)
			}
			u.tidy(now.UnixMicro())
			left, why := u.left(c.limits, now.UnixMicro())
			switch {
			case c.why == "" && (why != nil || left != c.left):
				t.Errorf("%d are left (%v), want %d", left, why, c.left)
			case c.why != "" && (why == nil || why.Error() != c.why || why.Wait != c.wait):
				t.Errorf("says %+v (%v), want %q, waiting %s", why, why, c.why, c.wait)
			}
		})
	}
}

// TestTidy: what is out of all windows leaves the row, and a clock that was ahead keeps nothing
// waiting for longer than a window.
func TestTidy(t *testing.T) {
	now := time.Date(2026, 11, 20, 12, 0, 30, 0, time.UTC).UnixMicro()
	var u usage
	u.tidy(now)
	u.end("", 5, now+300*day) // by a clock that was ahead
	u.Open["a"] = reservation{3, now + 300*day}
	u.tidy(now)
	if left, why := u.left(Limits{PerMinute: 10}, now); left != 2 || why != nil {
		t.Errorf("%d are left (%v), want 2: all counts as sent now", left, why)
	}
	u.tidy(now + 61e6)
	if left, why := u.left(Limits{PerMinute: 10}, now+61e6); left != 7 || why != nil {
		t.Errorf("a minute later %d are left (%v), want 7: only what is under way counts", left, why)
	}
	u.tidy(now + 3*day)
	if text, _ := json.Marshal(u); string(text) != `{"sent":{"per_day":{},"per_hour":{},"per_minute":{}},"open":{}}` {
		t.Errorf("three days later there is %s, want nothing", text)
	}
}
