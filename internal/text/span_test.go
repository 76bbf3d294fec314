package text

import (
	"testing"
	"time"
)

func TestAgo(t *testing.T) {
	for d, want := range map[time.Duration]string{
		0:                           "0 s ago",
		59 * time.Second:            "59 s ago",
		90 * time.Second:            "1 min ago",
		59*time.Minute + 59:         "59 min ago",
		47 * time.Hour:              "47 h ago",
		100 * time.Hour:             "4 days ago",
		-30 * time.Minute:           "in 30 min",
		-(48*time.Hour + time.Hour): "in 2 days",
	} {
		if got := Ago(d); got != want {
			t.Errorf("Ago(%v) is %q, want %q", d, got, want)
		}
	}
}
