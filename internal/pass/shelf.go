package pass

import (
	"sync"

	"postrider/internal/message"
)

// shelf holds the bodies of messages that were just registered until they are claimed.
type shelf struct {
	mu     sync.Mutex
	bodies map[int64]*message.Message // by task
}

func newShelf() *shelf { return &shelf{bodies: map[int64]*message.Message{}} }

func (s *shelf) put(task int64, m *message.Message) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if old := s.bodies[task]; old != nil {
		_ = old.Close()
	}
	s.bodies[task] = m
}

// take hands the body over, nil when there is none.
func (s *shelf) take(task int64) *message.Message {
	s.mu.Lock()
	defer s.mu.Unlock()
	m := s.bodies[task]
	delete(s.bodies, task)
	return m
}

// clear throws away what nobody took.
func (s *shelf) clear() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for id, m := range s.bodies {
		_ = m.Close()
		delete(s.bodies, id)
	}
}
