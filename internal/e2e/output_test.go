package e2e

import (
	"strings"
	"sync"
)

// output is what a program prints, while it prints it.
type output struct {
	mu  sync.Mutex
	all strings.Builder
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.all.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.all.String()
}
