//go:build !events_all

package sink

import (
	"strings"
	"testing"
)

func moreRunning() map[string]func(testing.TB) broker { return nil }

// TestNotBuilt checks what is said about destinations that this build does not have.
func TestNotBuilt(t *testing.T) {
	for _, url := range []string{"kafka://host/topic", "awssqs://host/queue", "awssns:///arn"} {
		if _, err := Open(Settings{URL: url}); err == nil || !strings.Contains(err.Error(), "-tags events_all") {
			t.Errorf("the error for %s is %v, want one that names the build tag", url, err)
		}
	}
}
