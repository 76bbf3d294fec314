// Package effort bounds the time and the memory that a test takes for an input. Its bounds find
// work that grows with the square of the input, and are generous enough for a slow, busy machine.
package effort

import (
	"runtime"
	"testing"
	"time"
)

const (
	baseTime     = 5 * time.Second
	timePerOctet = 50 * time.Microsecond
	baseMemory   = 16 << 20 // octets
	memory       = 4 << 10  // octets for each octet
)

// Within runs f on an input of size octets. The test fails if f takes more time than an honest
// reader does, or allocates more memory, all of it counted together.
func Within(t testing.TB, size int, f func()) {
	t.Helper()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	start := time.Now()
	f()
	took := time.Since(start)
	runtime.ReadMemStats(&after)
	if limit := baseTime + time.Duration(size)*timePerOctet; took > limit {
		t.Errorf("%d octets took %v, want at most %v", size, took, limit)
	}
	if used, limit := after.TotalAlloc-before.TotalAlloc, uint64(baseMemory+size*memory); used > limit {
		t.Errorf("%d octets took %d octets of memory, want at most %d", size, used, limit)
	}
}
