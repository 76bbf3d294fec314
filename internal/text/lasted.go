package text

import (
	"fmt"
	"time"
)

const day = 24 * time.Hour

// Lasted is a duration in one unit, or in hours and minutes or days and hours, such as 3 h 20 min.
// What a clock that was set back makes negative is 0 s.
func Lasted(d time.Duration) string {
	switch {
	case d < time.Minute:
		return fmt.Sprintf("%d s", int(max(d, 0).Seconds()))
	case d < time.Hour:
		return fmt.Sprintf("%d min", int(d.Minutes()))
	case d < day:
		return both(fmt.Sprintf("%d h", d/time.Hour), int(d%time.Hour/time.Minute), "min")
	}
	return both(Count(int(d/day), "day"), int(d%day/time.Hour), "h")
}

func both(first string, rest int, unit string) string {
	if rest == 0 {
		return first
	}
	return fmt.Sprintf("%s %d %s", first, rest, unit)
}
