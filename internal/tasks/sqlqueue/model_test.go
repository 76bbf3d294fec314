package sqlqueue

import (
	"testing"

	"postrider/internal/tasks/taskstest"
)

func TestModel(t *testing.T) {
	cases := map[string]int{"sqlite": 40, "mariadb": 10, "mysql": 10}
	for kind, n := range cases {
		t.Run(kind, func(t *testing.T) {
			taskstest.Model(t, n, func(t *testing.T) taskstest.Fixture { return newRegistry(t, kind).fixture(t) })
		})
	}
}
