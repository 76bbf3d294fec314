package route

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
	_ "time/tzdata" // a host, or a container, need not have the zones

	words "postrider/internal/text"
)

// Age bounds how old a message is. Zero is no bound.
type Age struct {
	Over  time.Duration `yaml:"over"`
	Under time.Duration `yaml:"under"`
}

// timeZone is the zone for weekday and hours: that of the match, else of the match around it. There
// is no default, because the zone of a host may differ from that of another.
func (c *compiler) timeZone(m Match, s scope) *time.Location {
	if m.TimeZone == "" {
		if s.zone == nil && (m.Weekday != nil || m.Hours != nil) {
			c.failIn(s, "time_zone", "weekday and hours need time_zone; "+
				"write one such as Europe/Berlin, or UTC")
		}
		return s.zone
	}
	zone, err := time.LoadLocation(m.TimeZone)
	if err != nil || zone == time.Local {
		c.failIn(s, "time_zone",
			"%q is not a time zone; write one such as Europe/Berlin, Asia/Tokyo or UTC", m.TimeZone)
		return time.UTC
	}
	return zone
}

func (c *compiler) times(m Match, s scope) []condition {
	return slices.Concat(c.age(m.Age, s),
		c.spans(s, "weekday", m.Weekday, weekdays, func(t time.Time) int { return int(t.Weekday()) }),
		c.spans(s, "hours", m.Hours, clock, func(t time.Time) int { return t.Hour()*60 + t.Minute() }))
}

func (c *compiler) age(a *Age, s scope) []condition {
	switch {
	case a == nil:
		return nil
	case a.Over < 0 || a.Under < 0 || a.Over == 0 && a.Under == 0:
		c.failIn(s, "age", "needs over or under, above 0, such as {over: 30d}")
		return nil
	case a.Under > 0 && a.Under <= a.Over:
		c.failIn(s, "age", "matches nothing: under has to be above over")
		return nil
	}
	var want []string
	if a.Over > 0 {
		want = append(want, "over "+words.Duration(a.Over))
	}
	if a.Under > 0 {
		want = append(want, "under "+words.Duration(a.Under))
	}
	wanted := []string{strings.Join(want, " and ")}
	return []condition{{key: s.prefix + "age", want: wanted, message: true, test: func(v *view, f *finding) {
		if v.mail.At.IsZero() {
			f.unknown("it is not known when the message was registered")
			return
		}
		age := v.age()
		f.look(text{shown: words.Duration(age.Round(time.Second))})
		f.is((a.Over == 0 || age > a.Over) && (a.Under == 0 || age < a.Under))
	}}}
}

// spans is the condition that the message arrived in one of the spans. A span may go over midnight
// or Sunday.
func (c *compiler) spans(
	s scope, key string, want []string, parse func(string) (span, error), at func(time.Time) int,
) []condition {
	if want == nil {
		return nil
	}
	if len(want) == 0 {
		c.failIn(s, key, "is an empty list, and would match nothing; remove the key, or give one")
		return nil
	}
	var list []span
	for i, w := range want {
		one, err := parse(w)
		if err != nil {
			c.failIn(s, fmt.Sprintf("%s[%d]", key, i), "%s", err)
		}
		list = append(list, one)
	}
	zone := s.zone
	return []condition{{key: s.prefix + key, want: want, message: true, test: func(v *view, f *finding) {
		t := v.arrived()
		if t.IsZero() {
			f.unknown("it is not known when the message arrived")
			return
		}
		t = t.In(zone)
		f.look(text{shown: t.Format("Mon 2006-01-02 15:04 ") + zone.String()})
		f.is(slices.ContainsFunc(list, func(one span) bool { return one.has(at(t)) }))
	}}}
}

// span goes from first to end; end is not part of it.
type span struct{ first, end int }

func (s span) has(n int) bool {
	if s.first < s.end {
		return n >= s.first && n < s.end
	}
	return n >= s.first || n < s.end
}

// weekdays reads a day or a span of days: sat, mon-fri, Saturday-Sunday.
func weekdays(s string) (span, error) {
	from, to, isSpan := strings.Cut(s, "-")
	first, ok := weekday(from)
	last, ok2 := first, true
	if isSpan {
		last, ok2 = weekday(to)
	}
	if !ok || !ok2 {
		return span{}, fmt.Errorf("%q is not a day of the week; write one of mon, tue, wed, thu, fri, sat, sun, "+
			"or several such as mon-fri", s)
	}
	return span{first, last + 1}, nil
}

func weekday(s string) (int, bool) {
	s = strings.ToLower(strings.TrimSpace(s))
	for d := time.Sunday; d <= time.Saturday; d++ {
		if name := strings.ToLower(d.String()); s == name || s == name[:3] {
			return int(d), true
		}
	}
	return 0, false
}

// clock reads a span of hours: 08:00-18:00, or over midnight 18:00-08:00.
func clock(s string) (span, error) {
	from, to, _ := strings.Cut(s, "-")
	first, ok := minutes(from)
	end, ok2 := minutes(to)
	switch {
	case !ok || !ok2:
		return span{}, fmt.Errorf("%q is not a span of hours; "+
			"write it like 08:00-18:00, or over midnight 18:00-08:00", s)
	case first == end:
		return span{}, fmt.Errorf("%q begins when it ends; remove it for all of the day", s)
	}
	return span{first, end}, nil
}

// minutes is a time of day such as 8:00 or 24:00 in minutes.
func minutes(s string) (int, bool) {
	h, m, ok := strings.Cut(strings.TrimSpace(s), ":")
	hour, err := strconv.ParseUint(h, 10, 8)
	minute, err2 := strconv.ParseUint(m, 10, 8)
	n := int(hour*60 + minute)
	return n, ok && err == nil && err2 == nil && len(m) == 2 && minute < 60 && n <= 24*60
}
