package contacts

import (
	"fmt"
	"testing"
	"time"
)

// TestManyOfOneName: planning a file costs in proportion to its lines, also when all contacts have one name.
func TestManyOfOneName(t *testing.T) {
	cost := func(n int) time.Duration {
		all, entries := make([]Contact, n), make([]Entry, n)
		for i := range n {
			email := fmt.Sprintf("new%d@x.example", i)
			all[i] = Contact{ID: int64(i + 1), Name: "Ann Lee", Email: fmt.Sprintf("a%d@x.example", i), Active: true}
			entries[i] = Entry{Name: "Ann Lee", Email: &email}
		}
		start := time.Now()
		if _, err := plan(all, entries); err != nil {
			t.Fatal(err)
		}
		return time.Since(start)
	}
	if few, many := cost(500), cost(20_000); many > 200*few {
		t.Errorf("500 contacts of one name took %v, 20,000 took %v; want forty times that, and no square of it", few, many)
	}
}
