package text

import (
	"fmt"
	"strings"
	"time"
)

// Duration is a duration as the configuration has it: 1h30m, and from a day on 2d3h.
func Duration(d time.Duration) string {
	days := ""
	if d >= day {
		days, d = fmt.Sprintf("%dd", d/day), d%day
	}
	if d == 0 && days != "" {
		return days
	}
	return days + strings.Replace(strings.Replace(d.String(), "m0s", "m", 1), "h0m", "h", 1)
}

// UTC is a time in UTC; nil stays nil.
func UTC(t *time.Time) *time.Time {
	if t == nil {
		return nil
	}
	utc := t.UTC()
	return &utc
}

// Midnight is when the day of a time begins in a zone. Where the clocks are set forward at
// midnight, it begins later.
func Midnight(day time.Time, zone *time.Location) time.Time {
	y, m, d := day.Date()
	t := time.Date(y, m, d, 0, 0, 0, 0, zone)
	if t.Day() != d { // time.Date takes the day before
		_, t = t.ZoneBounds()
	}
	return t
}

// Ago is how long something is past, or ahead: "5 min ago", "in 3 h".
func Ago(d time.Duration) string {
	if d < 0 {
		return "in " + Span(-d)
	}
	return Span(d) + " ago"
}

// Span is a duration in its largest unit.
func Span(d time.Duration) string {
	switch {
	case d < time.Minute:
		return fmt.Sprintf("%d s", int(d.Seconds()))
	case d < time.Hour:
		return fmt.Sprintf("%d min", int(d.Minutes()))
	case d < 48*time.Hour:
		return fmt.Sprintf("%d h", int(d.Hours()))
	}
	return fmt.Sprintf("%d days", int(d.Hours()/24))
}
