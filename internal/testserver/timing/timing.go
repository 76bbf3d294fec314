// Package timing compares what two pieces of work cost, on machines that have other work, too.
package timing

import (
	"testing"
	"time"
)

// AtMost fails t when much takes longer than little does so many times in a row. The best of many
// runs of each counts, by turns: other work on the machine only adds to a run, so it is tried again
// for up to 20 seconds before that is believed. Both take long enough to be held up alike where the
// system lets a process work for a part of the time only.
func AtMost(t testing.TB, times int, little, much func()) {
	t.Helper()
	const least = 3
	short, long := time.Hour, time.Hour
	end := time.Now().Add(20 * time.Second)
	for n := 0; n < least || long > short; n++ {
		if n >= least && time.Now().After(end) {
			t.Errorf("it took %v, the smaller work %v for %d times; want at most that", long, short, times)
			return
		}
		short = min(short, took(func() {
			for range times {
				little()
			}
		}))
		long = min(long, took(much))
	}
}

func took(work func()) time.Duration {
	start := time.Now()
	work()
	return time.Since(start)
}
