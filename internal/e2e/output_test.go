package e2e

import (
	"strings"
	"sync"
	"testing"
)

// has checks that the program printed these texts.
func (r result) has(t *testing.T, texts ...string) result {
	t.Helper()
	for _, text := range texts {
		if !strings.Contains(r.stdout, text) {
			t.Errorf("it prints\n%s\nwant %q in it", r.stdout, text)
		}
	}
	return r
}

// lacks checks that the program did not print a text.
func (r result) lacks(t *testing.T, text string) {
	t.Helper()
	r.times(t, 0, text)
}

// times checks that the program printed a text n times.
func (r result) times(t *testing.T, n int, text string) {
	t.Helper()
	if strings.Count(r.stdout, text) != n {
		t.Errorf("it prints\n%s\nwant %q in it %d times", r.stdout, text, n)
	}
}

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
