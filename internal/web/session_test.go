package web

import (
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// TestManyLoginsAtOnce: wrong ones are no more than many one after the other, and right ones are
// all taken.
func TestManyLoginsAtOnce(t *testing.T) {
	for name, tt := range map[string]struct {
		right    bool
		compared int64
		want     error
	}{"right": {true, 2 * perNetwork, nil}, "wrong": {false, perNetwork, errTooMany}} {
		t.Run(name, func(t *testing.T) {
			a := &attempts{now: time.Now}
			var compared atomic.Int64
			check := func() error {
				return a.check("192.0.2.1", "anna", func() bool {
					compared.Add(1)
					return tt.right
				})
			}
			var all sync.WaitGroup
			for range 2 * perNetwork {
				all.Go(func() { _ = check() })
			}
			all.Wait()
			if n := compared.Load(); n != tt.compared {
				t.Errorf("%d passwords were compared, want %d", n, tt.compared)
			}
			if err := check(); !errors.Is(err, tt.want) {
				t.Errorf("the next one gets %v, want %v", err, tt.want)
			}
		})
	}
}

// TestLongNames: what is kept of a failed login does not grow with the name that was tried.
func TestLongNames(t *testing.T) {
	a := &attempts{now: time.Now}
	_ = a.check("192.0.2.1", strings.Repeat("n", maxForm), func() bool { return false })
	for key := range a.failed {
		if len(key) > 2*maxName {
			t.Errorf("%d octets are kept, want at most %d", len(key), 2*maxName)
		}
	}
}
