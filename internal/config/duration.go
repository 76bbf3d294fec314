package config

import (
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// Duration reads what time.ParseDuration reads, and whole days (of 24 hours) alone or before it.
func Duration(s string) (time.Duration, error) {
	days, rest, found := strings.Cut(s, "d")
	if !found {
		d, err := time.ParseDuration(s)
		if err != nil && len(s) < 100 {
			if _, small := time.ParseDuration(digits.ReplaceAllString(s, "1")); small == nil {
				return 0, errTooLong
			}
		}
		return d, err
	}
	n, err := strconv.ParseUint(days, 10, 16)
	if errors.Is(err, strconv.ErrRange) {
		return 0, errTooLong
	}
	if err != nil {
		return 0, fmt.Errorf("%q is not a duration", s)
	}
	d := time.Duration(0)
	if rest != "" {
		d, err = time.ParseDuration(rest)
	}
	if err != nil || d < 0 || rest != "" && strings.ContainsAny(rest[:1], "+-") {
		return 0, fmt.Errorf("%q is not a duration", s)
	}
	return time.Duration(n)*24*time.Hour + d, nil
}

// errTooLong is for a duration that time.Duration cannot hold.
var errTooLong = errors.New("is too long; the longest is 65535d")

var digits = regexp.MustCompile(`\d+`)

// Age is how old something may become. 0 means no limit, written as never.
type Age time.Duration

// UnmarshalText reads never, or a duration above 0.
func (a *Age) UnmarshalText(b []byte) error {
	if string(b) == "never" {
		*a = 0
		return nil
	}
	d, err := Duration(string(b))
	if errors.Is(err, errTooLong) {
		return fmt.Errorf("%s %w, or write never", b, err)
	}
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
