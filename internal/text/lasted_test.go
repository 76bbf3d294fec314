package text

import (
	"testing"
	"time"
)

func TestLasted(t *testing.T) {
	for d, want := range map[time.Duration]string{
		-time.Hour: "0 s", 0: "0 s", 59 * time.Second: "59 s",
		time.Minute: "1 min", 119 * time.Second: "1 min",
		time.Hour: "1 h", 3*time.Hour + 20*time.Minute: "3 h 20 min",
		24 * time.Hour: "1 day", 50 * time.Hour: "2 days 2 h",
	} {
		if got := Lasted(d); got != want {
			t.Errorf("Lasted(%v) is %q, want %q", d, got, want)
		}
	}
}
