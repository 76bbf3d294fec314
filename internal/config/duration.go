package config

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Duration reads a duration: what time.ParseDuration reads, with whole days (of 24 hours) in front of it or alone.
func Duration(s string) (time.Duration, error) {
	days, rest, found := strings.Cut(s, "d")
	if !found {
		return time.ParseDuration(s)
	}
	n, err := strconv.ParseUint(days, 10, 16)
	if err != nil {
		return 0, fmt.Errorf("%q is no duration", s)
	}
	d := time.Duration(0)
	if rest != "" {
		d, err = time.ParseDuration(rest)
	}
	if err != nil || d < 0 || rest != "" && strings.ContainsAny(rest[:1], "+-") {
		return 0, fmt.Errorf("%q is no duration", s)
	}
	return time.Duration(n)*24*time.Hour + d, nil
}

// Age is how old something may become. 0 is for ever, and written never.
type Age time.Duration

// UnmarshalText reads never, or a duration above 0.
func (a *Age) UnmarshalText(b []byte) error {
	if string(b) == "never" {
		*a = 0
		return nil
	}
	d, err := Duration(string(b))
	if err != nil {
		return fmt.Errorf("has to be never, or %s, not %q", aDuration, b)
	}
	if d <= 0 {
		return errors.New("has to be above 0; write never to keep all for ever")
	}
	*a = Age(d)
	return nil
}

const aDuration = "a duration such as 90s, 15m, 96h or 30d"
