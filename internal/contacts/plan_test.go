package contacts

import (
	"fmt"
	"testing"

	"postrider/internal/testserver/timing"
)

// TestManyOfOneName checks that the time of plan is linear in the number of entries, also when all
// have the same name.
func TestManyOfOneName(t *testing.T) {
	planning := func(n int) func() {
		all, entries := make([]Contact, n), make([]Entry, n)
		for i := range n {
			all[i] = Contact{ID: int64(i + 1), Name: "Ann Lee", Email: fmt.Sprintf("a%d@x.example", i), Active: true}
			entries[i] = Entry{Name: "Ann Lee", Email: fmt.Sprintf("new%d@x.example", i)}
		}
		return func() {
			if _, err := plan(all, entries); err != nil {
				t.Fatal(err)
			}
		}
	}
	// 40 times the lines may not take 1,600 times the time.
	timing.AtMost(t, 200, planning(250), planning(10_000))
}
