package sqlqueue

import (
	"testing"

	"postrider/internal/tasks/taskstest"
)

// TestModel plays random operations on this queue and on memqueue. The databases run the same
// statements but for their locks. RAPID_CHECKS=400 plays more on each, and RAPID_SEED others;
// memqueue plays more of the same each time.
func TestModel(t *testing.T) {
	cases := map[string]int{"sqlite": 20, "mariadb": 10, "mysql": 10}
	for kind, n := range cases {
		t.Run(kind, func(t *testing.T) {
			taskstest.Model(t, n, func(t *testing.T) taskstest.Fixture { return newRegistry(t, kind).fixture(t) })
		})
	}
}
