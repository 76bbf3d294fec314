package limits

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"time"
)

// usage is what counts against the limits of a relay. Times are microseconds since 1970 by the
// clock of the database.
type usage struct {
	// Sent counts recipients by window, and by the number of the slice in which their transactions
	// ended.
	Sent map[string]map[int64]int `json:"sent"`
	Open map[string]reservation   `json:"open"` // by token
}

// reservation is for a transaction that is under way, or whose process has died.
type reservation struct {
	N     int   `json:"n"`
	Until int64 `json:"until"` // then its process has died
}

// window is a length of time that may be limited.
type window struct {
	name   string
	length int64
	limit  func(Limits) int
}

// parts is how many slices a window has. Recipients are counted by slice, and count until the end
// of their slice is out of the window.
const parts = 60

func windows() []window {
	return []window{
		{"per_minute", time.Minute.Microseconds(), func(l Limits) int { return l.PerMinute }},
		{"per_hour", time.Hour.Microseconds(), func(l Limits) int { return l.PerHour }},
		{"per_day", day, func(l Limits) int { return l.PerDay }},
	}
}

const day = int64(24 * time.Hour / time.Microsecond)

func (w window) slice(at int64) int64 { return at / (w.length / parts) }

// ends is when the recipients of a slice stop counting.
func (w window) ends(slice int64) int64 { return (slice+1)*(w.length/parts) + w.length }

// tidy brings the usage up to now. After a clock was set back, what is later than now counts as
// now.
func (u *usage) tidy(now int64) {
	if u.Sent == nil {
		u.Sent = map[string]map[int64]int{}
	}
	if u.Open == nil {
		u.Open = map[string]reservation{}
	}
	for token, r := range u.Open {
		if r.Until = min(r.Until, now+day); r.Until <= now {
			u.end(token, r.N, r.Until)
			continue
		}
		u.Open[token] = r
	}
	for _, w := range windows() {
		for slice, n := range u.Sent[w.name] {
			if current := w.slice(now); slice > current {
				delete(u.Sent[w.name], slice)
				u.Sent[w.name][current] += n
			}
			if w.ends(slice) <= now {
				delete(u.Sent[w.name], slice)
			}
		}
	}
}

// validate refuses what postrider never writes. A negative number would let out more than the
// provider accepts.
func (u *usage) validate() error {
	absurd := func(n int) bool { return n < 0 || n > math.MaxInt32 } // sums of more would overflow
	for name, sent := range u.Sent {
		for slice, n := range sent {
			if slice < 0 || absurd(n) {
				return fmt.Errorf("in its column used, sent.%s.%d is %d", name, slice, n)
			}
		}
	}
	for token, r := range u.Open {
		if r.Until < 0 || absurd(r.N) {
			return fmt.Errorf("in its column used, open.%s is %d until %d", token, r.N, r.Until)
		}
	}
	return nil
}

// end replaces a reservation by what was used of it. One that already counts as used, because its
// process seemed dead, counts again: rather too much than too little.
func (u *usage) end(token string, used int, at int64) {
	delete(u.Open, token)
	if used == 0 {
		return
	}
	for _, w := range windows() {
		if u.Sent[w.name] == nil {
			u.Sent[w.name] = map[int64]int{}
		}
		u.Sent[w.name][w.slice(at)] += used
	}
}

// note ends what is over. local is the host's clock at the time of now or before.
func (u *usage) note(over []ended, now int64, local time.Time) {
	for _, e := range over {
		u.end(e.token, e.used, now-max(local.Sub(e.at), 0).Microseconds())
	}
}

func (u *usage) renew(token string, until int64) {
	if r, ok := u.Open[token]; ok {
		r.Until = until
		u.Open[token] = r
	}
}

// left is how many recipients all limits allow now, or the limit that allows none for the longest
// time.
func (u *usage) left(l Limits, now int64) (int, *Reached) {
	left := math.MaxInt
	var why *Reached
	for _, w := range windows() {
		limit := w.limit(l)
		if limit == 0 {
			continue
		}
		count := u.count(w, now)
		used := 0
		for _, n := range count {
			used += n
		}
		left = min(left, limit-used)
		if used < limit {
			continue
		}
		if free := w.free(count, used-limit+1); why == nil || free > why.Until.UnixMicro() {
			why = &Reached{
				Key: "smtp.limits." + w.name, Limit: limit,
				Until: time.UnixMicro(free).UTC(), Wait: time.Duration(free-now) * time.Microsecond,
			}
		}
	}
	return left, why
}

// count is what counts in a window, by slice. What is under way counts as if it ended now.
func (u *usage) count(w window, now int64) map[int64]int {
	count := map[int64]int{}
	maps.Copy(count, u.Sent[w.name])
	for _, r := range u.Open {
		count[w.slice(now)] += r.N
	}
	return count
}

// free is when that many recipients stop counting.
func (w window) free(count map[int64]int, want int) (at int64) {
	for _, slice := range slices.Sorted(maps.Keys(count)) {
		if at = w.ends(slice); want <= count[slice] {
			break
		}
		want -= count[slice]
	}
	return at
}
