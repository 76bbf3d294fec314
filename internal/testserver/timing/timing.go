// Package timing compares what two pieces of work cost, on machines that have other work, too.
package timing

import (
	"testing"
	"time"
)

// AtMost fails t when much takes more than so many times as long as little. The best of many runs
// of each counts, by turns: other work on the machine only adds to a run, so it is tried again for
// up to 20 seconds before that is believed.
func AtMost(t testing.TB, times int, little, much func()) {
	t.Helper()
	const least = 3
	short, long := time.Hour, time.Hour
	end := time.Now().Add(20 * time.Second)
	for n := 0; n < least || long > time.Duration(times)*short; n++ {
		if n >= least && time.Now().After(end) {
			t.Errorf("it took %v, the smaller work %v; want at most %d times that", long, short, times)
			return
		}
		short, long = min(short, took(little)), min(long, took(much))
	}
}

func took(work func()) time.Duration {
	start := time.Now()
	work()
	return time.Since(start)
}
