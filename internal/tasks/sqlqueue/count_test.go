package sqlqueue

import (
	"fmt"
	"testing"

	"postrider/internal/db"
	"postrider/internal/testserver"
)

// TestStatementsOfManyInboxes: what is read of, or deleted from, many inboxes takes as many
// statements as for one.
func TestStatementsOfManyInboxes(t *testing.T) {
	onEach(t, func(t *testing.T, r registry) {
		var statements testserver.Statements
		counted, err := db.Open(t.Context(), r.cfg, r.now(), db.WithPool(statements.Pool))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = counted.Close() })
		q := New(counted)
		var ids []int64
		for i := range 50 {
			ids = append(ids, r.inbox(t, fmt.Sprintf("desk%d@firm.example", i)))
		}
		for name, call := range map[string]func(ids []int64) error{
			"Stats":  func(ids []int64) error { _, err := q.Stats(t.Context(), ids); return err },
			"DueOf":  func(ids []int64) error { _, err := q.DueOf(t.Context(), ids); return err },
			"Expire": func(ids []int64) error { _, err := q.Expire(t.Context(), ids, day, 500); return err },
		} {
			count := func(ids []int64) []string {
				statements.Taken()
				if err := call(ids); err != nil {
					t.Fatal(err)
				}
				texts, _ := statements.Taken()
				return texts
			}
			one, many := count(ids[:1]), count(ids)
			if len(one) == 0 || len(one) > 5 || len(many) != len(one) {
				t.Errorf("%s takes %d statements for an inbox and %d for 50, want 1 to 5, and the same:\n%q\n%q",
					name, len(one), len(many), one, many)
			}
		}
	})
}
