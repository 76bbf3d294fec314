package message

import (
	"cmp"
	"regexp"
	"strings"
	"time"
)

// dateParts are the day, month, year, time and zone of a date (RFC 5322 3.3 and 4.3). Nothing may
// follow the name of a zone: without the rest, GMT+0100 and Europe/Berlin would be another offset.
var dateParts = regexp.MustCompile(`^(?:[A-Za-z]+\s*,)?\s*(\d+)\s+([A-Za-z]+)\s+(\d+)\s+([\d:]+)\s*` +
	`([+-]\d{4}|(?:UT|[A-Za-z]|[A-Za-z]{3,5})$)`)

// zones are the offsets of the names in RFC 5322 4.3. Other names stand for +0000 there.
var zones = map[string]string{
	"EST": "-0500", "EDT": "-0400", "CST": "-0600", "CDT": "-0500",
	"MST": "-0700", "MDT": "-0600", "PST": "-0800", "PDT": "-0700",
}

// ParseDate returns a date of RFC 5322 in UTC. It is zero when the date is invalid, or outside of
// 1970 to 9999, the range that every database can store.
func ParseDate(s string) time.Time {
	t, err := time.Parse("Mon, 2 Jan 2006 15:04:05 -0700", s) // nearly all
	if err != nil {
		t = parseOddDate(s)
	}
	if t = t.UTC(); t.Year() < 1970 || t.Year() > 9999 {
		return time.Time{}
	}
	return t
}

func parseOddDate(s string) time.Time {
	m := dateParts.FindStringSubmatch(withoutComments(s))
	if m == nil {
		return time.Time{}
	}
	if zone := m[5]; zone[0] != '+' && zone[0] != '-' {
		// Package time would look a name up in the zone of this host.
		m[5] = cmp.Or(zones[strings.ToUpper(zone)], "+0000")
	}
	for _, layout := range []string{
		"2 Jan 2006 15:04:05 -0700", "2 Jan 2006 15:04 -0700",
		"2 Jan 06 15:04:05 -0700", "2 Jan 06 15:04 -0700",
	} {
		if t, err := time.Parse(layout, strings.Join(m[1:], " ")); err == nil {
			return t
		}
	}
	return time.Time{}
}
