package contacts

import (
	"fmt"
	"testing"

	"postrider/internal/testserver/timing"
)

// TestManyOfOneName: planning a file costs in proportion to its lines, also when all contacts have one name.
func TestManyOfOneName(t *testing.T) {
	planning := func(n int) func() {
		all, entries := make([]Contact, n), make([]Entry, n)
		for i := range n {
			email := fmt.Sprintf("new%d@x.example", i)
			all[i] = Contact{ID: int64(i + 1), Name: "Ann Lee", Email: fmt.Sprintf("a%d@x.example", i), Active: true}
			entries[i] = Entry{Name: "Ann Lee", Email: &email}
		}
		return func() {
			if _, err := plan(all, entries); err != nil {
				t.Fatal(err)
			}
		}
	}
	timing.AtMost(t, 200, planning(500), planning(20_000)) // forty times the lines, and no square of it
}
