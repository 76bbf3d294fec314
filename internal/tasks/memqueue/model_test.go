package memqueue

import (
	"testing"

	"postrider/internal/tasks/taskstest"
)

func TestModel(t *testing.T) { taskstest.Model(t, 120, fixture) }
