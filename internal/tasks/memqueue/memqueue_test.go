package memqueue_test

import (
	"testing"
	"time"

	"go.uber.org/goleak"

	"postrider/internal/tasks/taskstest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestQueue(t *testing.T) { taskstest.Run(t, fixture) }

func TestModel(t *testing.T) { taskstest.Model(t, 120, fixture) }

func fixture(*testing.T) taskstest.Fixture { return taskstest.InMemory(time.Now) }
