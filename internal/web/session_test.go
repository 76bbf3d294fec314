package web

import (
	"testing"
	"time"
)

// TestManyLoginsAtOnce are no more than many one after the other.
func TestManyLoginsAtOnce(t *testing.T) {
	a := &attempts{now: time.Now}
	const from, to = "from 192.0.2.1", "to anna"
	for i := range 2 * perNetwork {
		if got := a.begin(from, to); got != (i < perNetwork) {
			t.Errorf("attempt %d may begin: %v, while %d are being checked", i, got, i)
		}
	}
	a.succeeded(from, to)
	if !a.begin(from, to) {
		t.Error("after one that succeeded another one may not begin")
	}
}
