package message

import (
	"testing"
	"time"
)

func TestParseDate(t *testing.T) {
	const noon, zero = "2026-11-27T12:00:00Z", "0001-01-01T00:00:00Z"
	for s, want := range map[string]string{
		"Fri, 27 Nov 2026 13:00:00 +0100":              noon,
		"Fri, 27 Nov 2026 13:00:00 +0100 (CET)":        noon,
		"Fri,27 Nov 2026 07:00:00 -0500":               noon,
		"Fri , 27 Nov 2026 07:00:00 -0500":             noon,
		"27 Nov 26 13:00 +0100":                        noon,
		"Fri, 27 Nov 2026 13:00 +0100":                 noon,
		"(x) Fri, 27 (x)Nov 2026 13:00:00(x)+0100":     noon,
		"Fri, 27 Nov 2026 12:00:00 UT":                 noon,
		"Fri, 27 Nov 2026 12:00:00 GMT":                noon,
		"Fri, 27 Nov 2026 12:00:00 Z":                  noon,
		"Fri, 27 Nov 2026 12:00:00 CET":                noon,
		"Fri, 27 Nov 2026 13:00:00 GMT+0100":           zero,
		"Fri, 27 Nov 2026 13:00:00 GMT+01:00":          zero,
		"Fri, 27 Nov 2026 13:00:00 Europe/Berlin":      zero,
		"Fri, 27 Nov 2026 01:00:00 PM":                 zero,
		"Fri, 27 Nov 2026 01:00:00 PM +0100":           zero,
		"Fri, 27 Nov 2026 12:00:00.5 EST":              zero,
		"Fri, 27 Nov 2026 12:00:00 -03":                zero,
		"Fri, 27 Nov 2026 7:00:00 EST":                 noon,
		"Fri, 27 Nov 2026 07:00:00 est (Eastern (US))": noon,
		"Fri, 27 Nov 2026 08:00:00 EDT":                noon,
		"Fri, 27 Nov 2026 06:00:00 CST":                noon,
		"Fri, 27 Nov 2026 07:00:00 CDT":                noon,
		"Fri, 27 Nov 2026 05:00:00 MST":                noon,
		"Fri, 27 Nov 2026 06:00:00 MDT":                noon,
		"Fri, 27 Nov 2026 04:00:00 PST":                noon,
		"Tue, 27 Nov 2026 05:00:00 PDT":                noon,
		"Fri, 31 Nov 2026 12:00:00 +0000":              zero,
		"Fri, 27 Nov 2026 12:00:00":                    zero,
		"Wed, 31 Dec 1969 23:59:59 +0000":              zero,
		"Fri, 31 Dec 9999 23:59:59 -0100":              zero,
		"Fri Nov 27 12:00:00 2026":                     zero,
		"":                                             zero,
	} {
		if got := ParseDate(s).Format(time.RFC3339); got != want {
			t.Errorf("ParseDate(%q) = %s, want %s", s, got, want)
		}
	}
}
